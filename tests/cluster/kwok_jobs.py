"""Jobs whose pods are nothing but objects: for tests of the operator alone, and of hundreds of pods.

KWOK lets the pods run; that one ended, as a kubelet would write it, is written here.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from .held import Document, HeldCluster
from .jobs import spec_of

_ENDING = "dartes.dev/still-ending"


def spec_on_kwok(**changes: Any) -> Document:
    """The spec of a small job; the fields that matter to an operator are the example's."""
    return spec_of(**{"workers__replicas": 2, "checkpoint__retentionPolicy": "Delete", **changes})


class Kwok:
    """The fake nodes of a cluster, and what a kubelet there would say."""

    def __init__(self, cluster: HeldCluster) -> None:
        self.cluster = cluster

    def finish(self, pod: Document, exit_code: int = 0, message: str = "") -> None:
        """Let a pod's containers end with a code."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "message": message,
            "startedAt": now,
            "finishedAt": now,
        }
        statuses = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "started": False,
                "restartCount": 0,
                "state": {"terminated": ended},
            }
            for container in pod["spec"]["containers"]
        ]
        self._patch(pod, {"phase": "Failed" if exit_code else "Succeeded", "containerStatuses": statuses})

    def disrupt(self, pod: Document, reason: str = "EvictionByEvictionAPI") -> None:
        """Let a pod end as one that the cluster has evicted."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": "evicted by a test",
            "lastTransitionTime": now,
        }
        others = [each for each in pod["status"].get("conditions", []) if each["type"] != condition["type"]]
        self._patch(pod, {"phase": "Failed", "conditions": [*others, condition]})

    @contextmanager
    def slow_to_end(self, pods: Sequence[Document]) -> Iterator[None]:
        """Meanwhile these stay for as long as it takes when they are deleted, as pods with a kubelet do."""
        for pod in pods:
            self._set_finalizers(pod, [*pod["metadata"].get("finalizers", []), _ENDING])
        try:
            yield
        finally:
            for pod in pods:
                found = self.cluster.find(_path(pod))
                if found is not None and found["metadata"]["uid"] == pod["metadata"]["uid"]:
                    left = [each for each in found["metadata"].get("finalizers", []) if each != _ENDING]
                    self._set_finalizers(pod, left)

    def _set_finalizers(self, pod: Document, names: Sequence[str]) -> None:
        change = {"metadata": {"uid": pod["metadata"]["uid"], "finalizers": list(names)}}
        self.cluster.request("PATCH", _path(pod), change)

    def _patch(self, pod: Document, status: Document) -> None:
        metadata = pod["metadata"]
        change = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self.cluster.request("PATCH", f"{_path(pod)}/status", change)


def _path(pod: Document) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
