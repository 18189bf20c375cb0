"""A queue of Kueue with a quota, as a platform team would give it to a team; and pods of somebody else in it.

Only what tests ask of Kueue; how it decides is its own.
"""

import secrets
from collections.abc import Sequence
from typing import Any

from testcluster.extras.kueue import NAMESPACE_LABEL

from .held import CommandFailedError, Document, HeldCluster
from .jobs import until

GROUP = "/apis/kueue.x-k8s.io/v1beta2"
GATE = "kueue.x-k8s.io/admission"
FINALIZER = "kueue.x-k8s.io/managed"
PRIORITIES = {"low": -10, "high": 1000}
PLENTY = "1000Gi"
READY_SECONDS = 30.0


class Queue:
    """One cluster queue with a quota of CPU, open to the namespaces that get a local queue of its name."""

    def __init__(self, cluster: HeldCluster, cpu: str) -> None:
        self.cluster = cluster
        self.name = f"team-{secrets.token_hex(3)}"
        self._create(f"{GROUP}/resourceflavors", "ResourceFlavor", self.name, {})
        self._create(f"{GROUP}/clusterqueues", "ClusterQueue", self.name, self._cluster_queue(cpu))
        for level, value in PRIORITIES.items():
            body = {"metadata": {"name": self.priority(level)}, "value": value}
            cluster.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)

    def priority(self, level: str) -> str:
        """The name of a priority class, `low` or `high`."""
        return f"{self.name}-{level}"

    def open_to(self, namespace: str) -> None:
        """Let a namespace use the queue."""
        patch = {"metadata": {"labels": {NAMESPACE_LABEL: "true"}}}
        self.cluster.request("PATCH", f"/api/v1/namespaces/{namespace}", patch)
        where = f"{GROUP}/namespaces/{namespace}/localqueues"
        self._create(where, "LocalQueue", self.name, {"clusterQueue": self.name})

        def is_active() -> bool:
            found = self.cluster.request("GET", f"{where}/{self.name}")
            conditions = found.get("status", {}).get("conditions", [])
            return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)

        until(is_active, f"queue {self.name} is open to {namespace}", READY_SECONDS)

    def set_quota(self, cpu: str) -> None:
        """Change what the queue may give."""
        path = f"{GROUP}/clusterqueues/{self.name}"
        groups = self._cluster_queue(cpu)["resourceGroups"]
        self.cluster.request("PATCH", path, {"spec": {"resourceGroups": groups}})

    def usage(self) -> str:
        """How much CPU is given away at present, as Kueue writes it."""
        status = self.cluster.request("GET", f"{GROUP}/clusterqueues/{self.name}").get("status", {})
        for flavor in status.get("flavorsReservation", []):
            for resource in flavor["resources"]:
                if resource["name"] == "cpu":
                    return str(resource["total"])
        return "0"

    def rival(self, namespace: str, name: str, cpu: str, priority: str = "high") -> None:
        """A pod of somebody else that wants a part of the quota; that it runs nowhere is all the same."""
        container = {
            "name": "main",
            "image": "nobody/runs-this:1",
            "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        body = {
            "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": self.name}},
            "spec": {
                "containers": [container],
                "priorityClassName": self.priority(priority),
                "nodeSelector": {"kubernetes.io/hostname": "nowhere"},
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            },
        }
        self.cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    def workloads(self, namespace: str) -> Sequence[Document]:
        """What Kueue keeps of each pod that it queues."""
        found: Sequence[Document] = self.cluster.request("GET", f"{GROUP}/namespaces/{namespace}/workloads")[
            "items"
        ]
        return found

    def remove(self) -> None:
        """The queue, its flavor and its priorities; what still uses them keeps Kueue's finalizer on them."""
        for path in (
            f"{GROUP}/clusterqueues/{self.name}",
            f"{GROUP}/resourceflavors/{self.name}",
            *(f"/apis/scheduling.k8s.io/v1/priorityclasses/{self.priority(each)}" for each in PRIORITIES),
        ):
            try:
                self.cluster.request("DELETE", path)
            except CommandFailedError as failure:
                if failure.status != 404:
                    raise

    def _cluster_queue(self, cpu: str) -> dict[str, Any]:
        quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": PLENTY}]
        group = {
            "coveredResources": ["cpu", "memory"],
            "flavors": [{"name": self.name, "resources": quotas}],
        }
        return {
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }

    def _create(self, where: str, kind: str, name: str, spec: Document) -> None:
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        self.cluster.request("POST", where, body)
