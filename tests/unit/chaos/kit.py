"""Pods and statuses as an API server gives them, for the tests of what chaos checks."""

from itertools import count
from typing import Any

from tests.chaos.budgets import Story, Write
from tests.chaos.pods import Lives

JOB = "job-uid"
REVISION = count(1)


def pod(
    uid: str = "0123456789abcdef",
    role: str = "worker",
    index: str = "0",
    *,
    leaving: bool = False,
    marked: bool = False,
    exit_code: int | None = None,
    phase: str = "Running",
    reason: str = "Error",
    message: str = "last words",
    node: str = "node1",
    finished: str = "2026-01-01T00:00:00Z",
) -> dict[str, Any]:
    """A pod of the job, in a new revision."""
    labels = {"dartes.dev/role": role, "dartes.dev/job-uid": JOB}
    if role == "worker":
        labels["dartes.dev/worker-index"] = index
    state: dict[str, Any] = {"running": {}}
    if exit_code is not None:
        last = {"exitCode": exit_code, "reason": reason, "message": message, "finishedAt": finished}
        state = {"terminated": last}
        phase = "Failed" if exit_code else "Succeeded"
    metadata = {
        "name": f"red-{role}-{index}",
        "namespace": "a",
        "uid": uid,
        "labels": labels,
        "resourceVersion": str(next(REVISION)),
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}),
    }
    conditions = [{"type": "DisruptionTarget", "status": "True"}] if marked else []
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [{"state": state}]}
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}, "status": status}


class Job:
    """A job whose pods and statuses are told one after the other."""

    def __init__(self, strikes: int = 0) -> None:
        self.lives = Lives()
        self.story = Story(JOB, "red", "a", planned_strikes=strikes)
        self._counted: list[str] = []

    def sees(self, manifest: dict[str, Any], kind: str = "MODIFIED") -> None:
        """The watch tells of a pod."""
        self.lives.saw_event(kind, manifest)

    def forgets(self, uid: str) -> None:
        """The next status no longer names a pod, which is gone."""
        self._counted.remove(uid[:13])

    def writes(self, *counts: str, after_gap: bool = False, size: int = 1000, **status: Any) -> None:
        """The operator writes a status that accounts for these pods as well."""
        self._counted += [uid[:13] for uid in counts]
        failures = {**status.pop("failures", {}), "counted": list(self._counted)}
        whole = {"phase": "Running", **status, "failures": failures}
        self.story.writes.append(Write(next(REVISION), size, whole, after_gap))
