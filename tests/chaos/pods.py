"""The life of every pod as a watch tells it: two in one slot are seen at once, and how each ended is judged.

Pure: it is fed with events in the order in which the API server gives them. The judgement is made from the
pod alone and on purpose not with the operator's own code.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Object = Mapping[str, Any]
Slot = tuple[str, str, str, str]

ENDED_PHASES = ("Succeeded", "Failed")
DISRUPTION_MARKS = ("DisruptionTarget", "TerminationTarget")
DONE, DRAINED, TRANSIENT = 0, 76, 75


@dataclass
class Life:
    """One pod. Revisions are those of the API server's store, which all objects share."""

    uid: str
    name: str
    namespace: str
    role: str
    slot: Slot
    job_uid: str
    revision: int = 0
    ended_at: int | None = None
    """The revision in which its container, or the pod as a whole, had first ended."""
    marked_at: int | None = None
    """The revision in which its deletion was first asked for, or a disruption written on it."""
    gone: bool = False
    gone_at: int | None = None
    uncertain: bool = False
    """Part of its life was not seen: the watch was broken off meanwhile."""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    node: str = ""
    finished: datetime | None = None
    """When its container ended, by the node's clock; whole seconds."""

    @property
    def occupies(self) -> bool:
        """Whether it works or will work, so that nobody else may have its slot."""
        return not self.gone and self.ended_at is None and self.marked_at is None

    def was_leaving(self, revision: int) -> bool:
        """Whether it had ended, was told to go, or was gone by this revision."""
        return any(at is not None and at <= revision for at in (self.ended_at, self.marked_at, self.gone_at))

    @property
    def failed_by_itself(self) -> bool:
        """It ended badly before anybody had asked it to go."""
        return self._ended_badly and not self.was_stopped

    @property
    def was_stopped(self) -> bool:
        """It ended badly for a reason that lies outside it, and that its own words name."""
        return self.start_given_up or self.found_disk_full

    @property
    def found_disk_full(self) -> bool:
        """A coordinator that started on a volume without room: it comes back for as long as it takes."""
        full = re.match(r"/var/lib/dartes/run(/[^:]*)?: the disk is full", self.message)
        return self._ended_badly and self.role == "coordinator" and self.exit_code == TRANSIENT and bool(full)

    @property
    def start_given_up(self) -> bool:
        """Its container never ran, since the kubelet went away while it was being started."""
        return self._ended_badly and self.reason == "StartError" and "context canceled" in self.message

    @property
    def _ended_badly(self) -> bool:
        return (
            self.ended_at is not None
            and self.exit_code not in (None, DONE, DRAINED)
            and (self.marked_at is None or self.marked_at > self.ended_at)
        )

    def charge(self, counted_at: int) -> tuple[int, int]:
        """The least and the most that it may be charged with, if counted in this revision of the job."""
        if self.was_stopped:
            return 0, 0
        if not self.failed_by_itself:
            return (0, 1) if self.uncertain and self.exit_code not in (None, DONE, DRAINED) else (0, 0)
        seen_as_disrupted = self.marked_at is not None and self.marked_at < counted_at
        # A worker that gave up for want of a coordinator is charged only where there was one.
        gave_up = self.role == "worker" and self.exit_code == TRANSIENT
        return (0 if seen_as_disrupted or gave_up or self.uncertain else 1), 1


@dataclass
class Lives:
    """All pods that were ever seen, by uid."""

    by_uid: dict[str, Life] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def saw_event(self, kind: str, pod: Object) -> None:
        """Take in one event of the watch: ADDED, MODIFIED or DELETED."""
        life = self._take_in(pod, fresh_look=False)
        if kind == "DELETED":
            life.gone = True
            life.gone_at = life.revision

    def saw_list(self, namespace: str, pods: Iterable[Object]) -> None:
        """Take in a list, after which a watch begins: what happened before it was not seen."""
        listed = {pod["metadata"]["uid"]: pod for pod in pods}
        for life in self.by_uid.values():
            if life.namespace == namespace and not life.gone and life.uid not in listed:
                life.gone = life.uncertain = True
                life.gone_at = life.revision
        for pod in listed.values():
            self._take_in(pod, fresh_look=True)

    def of_job(self, job_uid: str) -> list[Life]:
        """The pods that a job had."""
        return [life for life in self.by_uid.values() if life.job_uid == job_uid]

    def marked(self, job_uid: str, mark: str) -> Life | None:
        """The pod of a job whose uid begins like this, as the status names pods."""
        return next((life for life in self.of_job(job_uid) if life.uid.startswith(mark)), None)

    def _take_in(self, pod: Object, *, fresh_look: bool) -> Life:
        meta = pod["metadata"]
        life = self.by_uid.get(meta["uid"])
        if life is None:
            life = _born(pod)
            self.by_uid[life.uid] = life
        elif fresh_look and life.revision != int(meta["resourceVersion"]):
            life.uncertain = True
        known_before = life.revision > 0
        _update(life, pod)
        if not known_before and life.occupies:
            self._expect_alone(life)
        return life

    def _expect_alone(self, life: Life) -> None:
        others = [
            other
            for other in self.by_uid.values()
            if other.slot == life.slot and other.uid != life.uid and other.occupies
        ]
        for other in others:
            # A list shows what is there at one time; before it, the other may have gone unseen.
            self.violations.append(
                f"double child: {life.namespace}/{life.name} was made while {other.name} ({other.uid[:8]}) "
                f"had its place"
            )


def _born(pod: Object) -> Life:
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    role, job_uid = labels.get("dartes.dev/role", ""), labels.get("dartes.dev/job-uid", "")
    slot = (meta["namespace"], job_uid, role, labels.get("dartes.dev/worker-index", ""))
    return Life(meta["uid"], meta["name"], meta["namespace"], role, slot, job_uid)


def _update(life: Life, pod: Object) -> None:
    meta, status = pod["metadata"], pod.get("status") or {}
    life.revision = int(meta["resourceVersion"])
    life.node = (pod.get("spec") or {}).get("nodeName", "") or life.node
    marks = [c for c in status.get("conditions") or () if c["type"] in DISRUPTION_MARKS]
    asked_to_go = meta.get("deletionTimestamp") or any(c["status"] == "True" for c in marks)
    if life.marked_at is None and asked_to_go:
        life.marked_at = life.revision
    ends = [
        c["state"]["terminated"] for c in status.get("containerStatuses") or () if "terminated" in c["state"]
    ]
    if ends:
        life.exit_code = int(ends[0]["exitCode"])
        life.reason = str(ends[0].get("reason", ""))
        life.message = str(ends[0].get("message", ""))
        finished = ends[0].get("finishedAt")
        life.finished = datetime.fromisoformat(finished) if finished else None
    elif status.get("phase") in ENDED_PHASES:
        life.reason = str(status.get("reason", ""))
        life.message = str(status.get("message", ""))
    if life.ended_at is None and (ends or status.get("phase") in ENDED_PHASES):
        life.ended_at = life.revision
