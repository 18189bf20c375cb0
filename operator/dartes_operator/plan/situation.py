"""What a pass knows (`Situation`, fixed) and what it has decided so far (`Draft`, filled policy by policy).

A draft begins as the status that was written last, so that a policy that has nothing to say changes nothing.
"""

import copy
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from dartes.spec.crd.status import MOST_COUNTED
from dartes_operator.plan.conditions import Condition, Conditions
from dartes_operator.plan.pods import Pod, read_pods
from dartes_operator.plan.times import after, parse_time, seconds_until
from dartes_operator.plan.types import Action, Defaults, Delete, Event, Kind, Manifest, Observed, Plan
from dartes_operator.resources.identity import JobIdentity, Role, identity_of
from dartes_operator.resources.pod import PodDefaults
from dartes_operator.resources.run_config import Images

# Pods that are accounted for in one pass; how many a status holds at once is said by its schema.
MOST_COUNTED_AT_ONCE = 64
MOST_EVENT_MESSAGE = 1000


@dataclass(frozen=True)
class Situation:
    """A job and all that is known of it at one time."""

    job: Manifest
    observed: Observed
    now: datetime
    defaults: Defaults

    @cached_property
    def identity(self) -> JobIdentity:
        """Who the job is."""
        return identity_of(self.job)

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """All pods of the job."""
        return read_pods(self.observed.pods)

    @cached_property
    def departed(self) -> tuple[Pod, ...]:
        """Pods that went before anybody may have accounted for them."""
        return read_pods(self.observed.departed, departed=True)

    def of(self, role: Role) -> tuple[Pod, ...]:
        """The pods of a role, by index and name."""
        return tuple(pod for pod in self.pods if pod.role is role)

    @property
    def before(self) -> Mapping[str, Any]:
        """The status as written last."""
        found: Mapping[str, Any] = self.job.get("status") or {}
        return found

    @property
    def generation(self) -> int:
        """The generation of the spec."""
        return int(self.job["metadata"].get("generation", 1))

    @property
    def start_time(self) -> datetime | None:
        """When the first pods were made."""
        return parse_time(self.before.get("startTime"))

    @property
    def run_began(self) -> datetime | None:
        """When the job last began to run: at its start or at the last resume."""
        return parse_time(self.before.get("lastResumeTime")) or self.start_time

    @cached_property
    def counted(self) -> frozenset[str]:
        """Marks of pods that have been accounted for, as written."""
        return frozenset((self.before.get("failures") or {}).get("counted") or ())

    @cached_property
    def counting_room(self) -> int:
        """How many pods may be accounted for in a pass, so that neither it nor the status grows too long."""
        present = {pod.mark for pod in self.pods}
        return max(0, min(MOST_COUNTED_AT_ONCE, MOST_COUNTED - len(self.counted & present)))

    def is_counted(self, pod: Pod) -> bool:
        """Whether a pod has been accounted for, as written."""
        return pod.mark in self.counted

    @property
    def phase_before(self) -> str:
        """The phase as written last."""
        return str(self.before.get("phase", ""))

    @property
    def pod_defaults(self) -> PodDefaults:
        """What the operator's configuration gives every pod."""
        return PodDefaults(
            pull_policy=self.defaults.pull_policy,
            pull_secrets=tuple(self.defaults.pull_secrets),
            tolerations=tuple(self.defaults.tolerations),
            node_selector=self.defaults.node_selector,
        )

    @property
    def images(self) -> Images:
        """The operator's own images."""
        return Images(self.defaults.coordinator_image, self.defaults.worker_image, self.defaults.vllm_image)


def uids(manifests: Iterable[Manifest]) -> frozenset[str]:
    """The uids of objects."""
    return frozenset(manifest["metadata"]["uid"] for manifest in manifests)


@dataclass
class Draft:
    """The plan as it grows. `marks` are live pods that this pass deletes: they are written down first.

    `counts` are pods whose ends this pass counts, `overlooked` departed ones that are left to a later pass.

    `blocked` says that something of another owner stands in the way, as a condition tells; `policies` is the
    hash of the policies that are in place once the actions are carried out.
    """

    situation: Situation
    status: dict[str, Any]
    conditions: Conditions
    actions: list[Action] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    overlooked: list[str] = field(default_factory=list)
    requeue_at: datetime | None = None
    status_first: bool = False
    delete_job: bool = False
    starting: bool = False
    blocked: bool = False
    policies: str | None = None

    @classmethod
    def of(cls, situation: Situation) -> "Draft":
        """A draft that would change nothing."""
        status = copy.deepcopy(dict(situation.before))
        conditions = Conditions(status.pop("conditions", None) or (), situation.now, situation.generation)
        return cls(situation, status, conditions)

    def part(self, name: str) -> dict[str, Any]:
        """A part of the status, made where it isn't there."""
        part: dict[str, Any] = self.status.setdefault(name, {})
        return part

    def event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Tell the user something that happened."""
        self.events.append(Event("Warning" if warning else "Normal", reason, message[:MOST_EVENT_MESSAGE]))

    def look_again(self, moment: datetime) -> None:
        """Plan again at this time at the latest."""
        if self.requeue_at is None or moment < self.requeue_at:
            self.requeue_at = moment

    def look_again_in(self, seconds: float) -> None:
        """Plan again after so many seconds at the latest."""
        self.look_again(after(self.situation.now, seconds))

    def delete(self, pod: Pod, grace_seconds: int | None = None) -> None:
        """Delete a pod whose end is accounted for, or doesn't matter."""
        if all(not isinstance(action, Delete) or action.uid != pod.uid for action in self.actions):
            self.actions.append(Delete(Kind.POD, pod.name, pod.uid, grace_seconds))

    def retire(self, pod: Pod, grace_seconds: int | None = None) -> None:
        """Delete a live pod, and write down first that its end is our doing and no disruption."""
        self.mark(pod)
        self.delete(pod, grace_seconds)

    def mark(self, pod: Pod) -> None:
        """Write down that a pod's end is our doing."""
        if not self.situation.is_counted(pod) and pod.mark not in self.marks:
            self.marks.append(pod.mark)

    def room_for_marks(self) -> int:
        """How many more pods may be counted or retired in this pass."""
        return self.situation.counting_room - len(self.marks) - len(self.counts)

    def is_over(self) -> bool:
        """Whether the job has come to its end, now or before."""
        return self.conditions.holds(Condition.COMPLETE) or self.conditions.holds(Condition.FAILED)

    def _departed(self, marks: Container[str]) -> frozenset[str]:
        """The uids of departed pods with these marks."""
        return frozenset(pod.uid for pod in self.situation.departed if pod.mark in marks)

    def plan(self) -> Plan:
        """The plan that this draft has become."""
        situation = self.situation
        wait = None if self.requeue_at is None else seconds_until(self.requeue_at, situation.now)
        status = {**self.status, "conditions": self.conditions.entries()}
        status["message"] = self.conditions.summary()
        return Plan(
            status=status,
            actions=tuple(self.actions),
            events=tuple(self.events),
            status_first=self.status_first,
            requeue_after=wait,
            delete_job=self.delete_job,
            time=situation.now,
            starting=self.starting,
            settled=uids(situation.observed.departed) - self._departed({*self.counts, *self.overlooked}),
            counted=self._departed(self.counts),
            before=situation.before,
        )
