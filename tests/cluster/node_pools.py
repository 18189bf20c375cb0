"""A pool of fake nodes, as a node autoscaler keeps one: nodes with accelerators come, are drained, and go.

What an autoscaler would decide, a test decides; what it would do to the cluster is done here.
"""

import secrets
from typing import Any

from testcluster.extras.kwok import LABELS, MARK, ROOM, TAINT

from .held import Document, HeldCluster
from .jobs import is_ready, until

READY_SECONDS = 30.0


class NodePool:
    """Nodes that each offer some pieces of one extended resource, and keep out pods that don't want it."""

    def __init__(self, cluster: HeldCluster, pieces: int) -> None:
        self.cluster = cluster
        self.pieces = pieces
        self.name = f"pool-{secrets.token_hex(3)}"
        self.resource = f"{self.name}.example.com/gpu"
        """A resource of this pool alone, so that no other pool's nodes will do."""
        self.nodes: list[str] = []

    def manifest(self, name: str) -> Document:
        """A node as a cloud's would join: labelled, tainted with its resource's name, with room for it."""
        room: dict[str, Any] = {**ROOM, self.resource: str(self.pieces)}
        taint = {"key": self.resource, "value": "present", "effect": "NoSchedule"}
        labels = {**LABELS, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {MARK: "fake"}},
            "spec": {"taints": [TAINT, taint]},
            "status": {"capacity": room, "allocatable": room},
        }

    def add(self) -> str:
        """One node more, Ready; its name."""
        name = f"{self.name}-{len(self.nodes)}"
        self.cluster.request("POST", "/api/v1/nodes", self.manifest(name))
        self.nodes.append(name)
        until(lambda: self._is_ready(name), f"node {name} is Ready", READY_SECONDS)
        return name

    def drain(self, name: str) -> None:
        """Close a node and evict its pods, as an autoscaler does that wants to save it."""
        words = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
        self.cluster.kubectl("drain", name, *words)

    def remove(self, name: str) -> None:
        """The machine is given back."""
        self.cluster.kubectl("delete", "node", name, "--ignore-not-found")

    def remove_all(self) -> None:
        """Nothing of the pool stays."""
        for name in self.nodes:
            self.remove(name)

    def _is_ready(self, name: str) -> bool:
        return is_ready(self.cluster.request("GET", f"/api/v1/nodes/{name}"))
