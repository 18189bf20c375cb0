"""Whether a job charged what it had to charge: each write of its status against the ends of its pods.

Pure. A status names the pods that it has accounted for (`failures.counted`); so every write says which
ends it judged, and the difference of the budgets says how.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from .acts import Act
from .log_lines import Windows
from .pods import Life, Lives

MOST_STATUS_BYTES = 16 * 1024
ROLES = ("coordinator", "worker")
LETTING_GO = ("Suspending", "Suspended", "Completing", "Succeeded")
"""Phases in which pods are accounted for without being judged."""
GIVING_UP = timedelta(seconds=5)
"""So long after its kubelet has been stopped a container may still end as one that was not started."""
WHOLE_SECONDS = timedelta(seconds=1)
"""By so much the time of an end may lie before it, since pods tell it without its fraction."""


@dataclass(frozen=True)
class KubeletStop:
    """A kubelet that chaos has stopped, between these two times."""

    node: str
    began: datetime
    ended: datetime

    def explains(self, life: Life) -> bool:
        """Whether it is why a pod's start was given up."""
        return (
            life.start_given_up
            and life.node == self.node
            and life.finished is not None
            and self.began - WHOLE_SECONDS < life.finished <= self.ended + GIVING_UP
        )


@dataclass(frozen=True)
class Write:
    """A job's status as one revision had it."""

    revision: int
    size: int
    status: Mapping[str, Any]
    after_gap: bool = False
    """Revisions between this and the one before were not seen."""

    @property
    def counted(self) -> frozenset[str]:
        """Marks of the pods accounted for."""
        return frozenset(self._failures.get("counted") or ())

    def failures(self, name: str) -> int:
        """A counter of `failures`."""
        return int(self._failures.get(name) or 0)

    @property
    def iteration(self) -> int:
        """Committed iterations as the status tells."""
        return int((self.status.get("progress") or {}).get("iteration") or 0)

    @property
    def incarnation(self) -> int:
        """The coordinator's incarnation as the status tells."""
        return int((self.status.get("coordinator") or {}).get("incarnation") or 0)

    @property
    def _failures(self) -> Mapping[str, Any]:
        return self.status.get("failures") or {}

    def condition(self, kind: str) -> Mapping[str, Any]:
        """A condition, empty where it is not set."""
        return next((c for c in self.status.get("conditions") or () if c["type"] == kind), {})


@dataclass
class Story:
    """One job object from its creation to its end."""

    uid: str
    name: str
    namespace: str
    planned_strikes: int = 0
    """So many coordinators may kill themselves."""
    writes: list[Write] = field(default_factory=list)
    is_gone: bool = False
    judged: int = 0
    """Writes that have been checked."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Marks that were in one and then no more, each with the revision of the first one without it."""


def increments(before: Write, after: Write) -> dict[str, int]:
    """Failures charged between two writes: a worker's are forgiven as the run goes on, and counted anew."""
    found = {"coordinator": after.failures("coordinator") - before.failures("coordinator")}
    old, new = before.failures("worker"), after.failures("worker")
    forgiven = new < old or before.failures("workerSince") != after.failures("workerSince")
    found["worker"] = new if forgiven and new else max(0, new - old)
    return found


def check_writes(story: Story, lives: Lives, upto: int) -> list[str]:
    """What is wrong in the writes up to a place of the list that have not been checked yet."""
    start = max(0, story.judged - 1)
    seen = story.writes[start:upto]
    if story.judged == 0 and seen:
        seen = [Write(0, 0, {}), *seen]
    story.judged = max(story.judged, upto)
    return [
        f"{story.namespace}/{story.name}: {words}"
        for before, after in pairwise(seen)
        for words in _wrong(story, before, after, lives)
    ]


def _wrong(story: Story, before: Write, after: Write, lives: Lives) -> Iterator[str]:
    if after.size > MOST_STATUS_BYTES:
        yield f"the status has {after.size} bytes, more than {MOST_STATUS_BYTES}"
    if after.iteration < before.iteration:
        yield f"the status went back from iteration {before.iteration} to {after.iteration}"
    if after.incarnation < before.incarnation:
        yield f"the incarnation went back from {before.incarnation} to {after.incarnation}"
    failed = after.condition("Failed")
    if failed.get("status") == "True" and before.condition("Failed").get("status") != "True":
        yield f"the job failed: {failed.get('reason')}: {failed.get('message')}"
    if not after.after_gap:
        yield from _wrong_charges(story, before, after, lives)


def _wrong_charges(story: Story, before: Write, after: Write, lives: Lives) -> Iterator[str]:
    new = [(mark, lives.marked(story.uid, mark)) for mark in sorted(after.counted - before.counted)]
    for mark, life in new:
        dropped = story.dropped.get(mark)
        # One that was to go and then was kept is accounted for anew when it ends.
        if dropped is not None and (life is None or life.was_leaving(dropped)):
            yield f"pod {mark} was accounted for twice"
    story.dropped |= dict.fromkeys(before.counted - after.counted, after.revision)
    for mark, life in new:
        if life is None:
            yield f"pod {mark} was accounted for, and nobody has seen it"
    known = [life for _, life in new if life is not None]
    # Pods that a write lets go are accounted for before they end, and what became of them does not matter.
    lets_go = str(after.status.get("phase", "")) in LETTING_GO or any(
        life.ended_at is None or life.ended_at > after.revision for life in known
    )
    for role, charged in increments(before, after).items():
        ends = [life.charge(after.revision) for life in known if life.role == role]
        least = 0 if lets_go else sum(low for low, _ in ends)
        most = sum(high for _, high in ends)
        if not least <= charged <= most:
            named = ", ".join(f"{life.name} ({_ending(life)})" for life in known if life.role == role)
            allowed = str(least) if least == most else f"{least} to {most}"
            said = f"{charged} failures of the {role} were charged, and {allowed} are right"
            yield f"{said}: {named or 'no end'}"
    disrupted = after.failures("disruptions") - before.failures("disruptions")
    given_up = 0 if lets_go else sum(life.start_given_up for life in known)
    if disrupted < given_up:
        yield f"{disrupted} disruptions were counted, and {given_up} pods whose start was given up"
    if disrupted > len(known):
        yield f"{disrupted} disruptions were counted, and {len(known)} pods were accounted for"


def unexplained_ends(
    story: Story,
    lives: Lives,
    injected: Collection[str],
    kubelet_stops: Collection[KubeletStop] = (),
    windows: Windows | None = None,
) -> list[str]:
    """Pods that failed by themselves, or were stopped, though nothing was done that explains it."""
    ends = [
        life
        for life in lives.of_job(story.uid)
        if (life.failed_by_itself or life.was_stopped)
        and not life.uncertain
        and life.uid not in injected
        and not any(stop.explains(life) for stop in kubelet_stops)
        and not (windows is not None and _volume_was_full(life, windows))
    ]
    struck = [life for life in ends if is_strike(life)]
    others = [life for life in ends if not is_strike(life)]
    if len(struck) > story.planned_strikes:
        others += struck[story.planned_strikes :]
    return [
        f"{life.namespace}/{life.name} ({life.uid[:8]}) failed by itself: {_ending(life)} "
        f"{life.message[-300:]}"
        for life in others
    ]


def _volume_was_full(life: Life, windows: Windows) -> bool:
    """Whether a coordinator found no room on its volume while one was filled."""
    full = frozenset({Act.VOLUME_FILLED})
    return life.found_disk_full and life.finished is not None and windows.covers(full, life.finished)


def is_strike(life: Life) -> bool:
    """Whether an end looks like a coordinator that killed itself where it was told to."""
    return life.role == "coordinator" and life.exit_code == 137 and life.reason != "OOMKilled"


def uncounted(story: Story, lives: Lives) -> list[str]:
    """Failed pods that are gone, or have had their time, and that no status has ever accounted for."""
    counted = {mark for write in story.writes for mark in write.counted}
    last_gap = max((write.revision for write in story.writes if write.after_gap), default=0)
    return [
        f"{life.namespace}/{life.name} ({life.uid[:8]}) was never accounted for: {_ending(life)}"
        for life in lives.of_job(story.uid)
        if (life.failed_by_itself or life.was_stopped)
        and not life.uncertain
        and life.marked_at is None
        and (life.ended_at or 0) > last_gap
        and not any(life.uid.startswith(mark) for mark in counted)
        and not _was_let_go(story, life)
    ]


def _was_let_go(story: Story, life: Life) -> bool:
    """Whether the job let its pods go after this one had ended, and so may not have looked at it."""
    return any(
        write.revision > (life.ended_at or 0) and write.status.get("phase") in LETTING_GO
        for write in story.writes
    )


def charged_in_all(stories: Sequence[Story]) -> dict[str, int]:
    """All failures charged, by role, and all disruptions."""
    total = dict.fromkeys((*ROLES, "disruptions"), 0)
    for story in stories:
        for before, after in pairwise([Write(0, 0, {}), *story.writes]):
            for role, count in increments(before, after).items():
                total[role] += max(0, count)
            total["disruptions"] += max(0, after.failures("disruptions") - before.failures("disruptions"))
    return total


def _ending(life: Life) -> str:
    code = "no exit code" if life.exit_code is None else f"exit code {life.exit_code}"
    return f"{code}, {life.reason}" if life.reason else code
