"""A job and its pods as `kubectl get -o json` gives them, read without trust: what is missing is just absent.

Pure. The one place that knows where in those documents a thing stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dartes.cli.kube.names import COORDINATOR, ROLE, WORKER_INDEX

Manifest = Mapping[str, Any]

ENDED = ("Succeeded", "Failed")


def at(document: Any, *path: str | int) -> Any:
    """What stands at a path of keys and positions; None where any part of it is missing."""
    for part in path:
        if isinstance(document, Mapping) and isinstance(part, str):
            document = document.get(part)
        elif isinstance(document, Sequence) and not isinstance(document, str) and isinstance(part, int):
            document = document[part] if -len(document) <= part < len(document) else None
        else:
            return None
    return document


def items(document: Manifest) -> list[Manifest]:
    """The objects of a list."""
    found = at(document, "items")
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def moment(text: Any) -> datetime | None:
    """A time as Kubernetes writes it; None where it is none."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Pod:
    """A pod of a job: who it is, how it is, and in whose words."""

    name: str
    role: str
    index: int | None
    phase: str
    ready: bool
    state: str
    message: str
    node: str | None
    created: datetime | None
    finished: datetime | None
    exit_code: int | None
    leaving: bool

    @property
    def ended(self) -> bool:
        """Whether its container has ended for good."""
        return self.phase in ENDED


def pod_of(manifest: Manifest) -> Pod:
    """Read a pod's manifest."""
    labels = at(manifest, "metadata", "labels") or {}
    status = at(manifest, "status") or {}
    container = at(status, "containerStatuses", 0) or {}
    ended = at(container, "state", "terminated") or {}
    index = str(labels.get(WORKER_INDEX, ""))
    code = ended.get("exitCode")
    state, message = _state(status, container)
    return Pod(
        name=str(at(manifest, "metadata", "name") or ""),
        role=str(labels.get(ROLE, "")),
        index=int(index) if index.isdecimal() else None,
        phase=str(status.get("phase", "Unknown")),
        ready=container.get("ready") is True,
        state=state,
        message=message,
        node=at(manifest, "spec", "nodeName"),
        created=moment(at(manifest, "metadata", "creationTimestamp")),
        finished=moment(ended.get("finishedAt")),
        exit_code=code if isinstance(code, int) else None,
        leaving=at(manifest, "metadata", "deletionTimestamp") is not None,
    )


def _state(status: Manifest, container: Manifest) -> tuple[str, str]:
    """The word that says most about a pod, and the words of whoever gave it."""
    for kind in ("terminated", "waiting"):
        found = at(container, "state", kind)
        if isinstance(found, Mapping):
            return str(found.get("reason") or kind.capitalize()), str(found.get("message") or "").strip()
    if status.get("reason"):
        return str(status["reason"]), str(status.get("message") or "").strip()
    for condition in at(status, "conditions") or []:
        if at(condition, "type") == "PodScheduled" and at(condition, "status") == "False":
            return str(condition.get("reason") or "Unscheduled"), str(condition.get("message") or "").strip()
    return str(status.get("phase", "Unknown")), ""


def in_order(pods: Sequence[Pod]) -> list[Pod]:
    """Coordinator first, then workers by index, then the others; of one place the oldest first."""
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(
        pods,
        key=lambda pod: (
            pod.role != COORDINATOR,
            pod.index is None,
            pod.index or 0,
            pod.created or oldest,
            pod.name,
        ),
    )


def newest(pods: Sequence[Pod]) -> Pod | None:
    """The pod that stands for its role now: one that has not ended before one that has, then the newest."""
    oldest = datetime.min.replace(tzinfo=UTC)
    return max(pods, key=lambda pod: (not pod.ended, pod.created or oldest, pod.name), default=None)


def last_failed(pods: Sequence[Pod]) -> Pod | None:
    """The pod that failed last."""
    oldest = datetime.min.replace(tzinfo=UTC)
    failed = [pod for pod in pods if pod.phase == "Failed"]
    return max(failed, key=lambda pod: (pod.finished or pod.created or oldest, pod.name), default=None)
