"""Which work of one iteration is waiting, held or done, and who may take what next.

Pure bookkeeping: the clock is passed in and nothing here knows of gRPC, results or the disk. A lease
is a promise that somebody is at it, never a right: the first good report of a task fills it, whoever
sends it.
"""

import math
import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

SPECULATE_AFTER_MEDIANS = 2.0
"""A held task is offered a second time when it is older than this many medians of the finished ones."""


LEASE_SECONDS = 0.25
"""Members that take less are handed out several at a time, for about this long together."""


def members_per_lease(waiting: int, workers: int, member_seconds: float | None) -> int:
    """How many members to hand out at once: about LEASE_SECONDS of work, at least 1.

    Never more than half of a worker's fair share of what still waits, so that all end at about the same
    time. `member_seconds` is what a member took in the round before; None = not known.
    """
    if member_seconds is None or member_seconds <= 0:
        return 1
    return max(1, min(math.ceil(LEASE_SECONDS / member_seconds), waiting // (2 * max(1, workers))))


class TaskKind(Enum):
    """What is evaluated."""

    MEMBER = auto()
    PARENT = auto()
    HELD_OUT = auto()


@dataclass(frozen=True)
class LeaseTask:
    """One piece of an iteration: a slice of a member or of the parent, or a block of an evaluation set."""

    kind: TaskKind
    member: int = 0
    slice_index: int = 0
    set_name: str = ""
    first_row: int = 0
    row_count: int = 0


@dataclass(frozen=True)
class Grant:
    """A task given to a worker for the `attempt`-th time (1 = first)."""

    task: LeaseTask
    attempt: int


@dataclass
class LeaseTable:
    """The leases of one iteration. Every task is in exactly one place: waiting, held or done.

    Attributes
    ----------
    reissued
        How often a task was handed out again because its holder was lost.
    speculated
        How often a task was handed out once more because its holder was slow.
    nondeterministic
        Reports for a filled task whose content differed from the first one.
    """

    tasks: Sequence[LeaseTask]
    reissued: int = 0
    speculated: int = 0
    nondeterministic: int = 0
    known: frozenset[LeaseTask] = field(init=False)
    """The tasks as a set."""
    _queue: deque[LeaseTask] = field(init=False)
    _held: dict[LeaseTask, dict[str, float]] = field(default_factory=dict)
    """By task, its holders (never none) and since when each has held it."""
    _attempts: dict[LeaseTask, int] = field(default_factory=dict)
    _done: dict[LeaseTask, bytes] = field(default_factory=dict)
    _durations: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = frozenset(self.tasks)
        if len(self.known) != len(self.tasks):
            raise ValueError("a task is listed twice")
        self._queue = deque(self.tasks)

    @property
    def complete(self) -> bool:
        """Whether every task has been filled."""
        return len(self._done) == len(self.tasks)

    @property
    def done_count(self) -> int:
        """Number of filled tasks."""
        return len(self._done)

    def is_filled(self, task: LeaseTask) -> bool:
        """Whether a task's report is in."""
        return task in self._done

    def holders(self, task: LeaseTask) -> tuple[str, ...]:
        """Workers that are at a task now."""
        return tuple(self._held.get(task, ()))

    def all_holders(self) -> frozenset[str]:
        """Workers that are at some task now."""
        return frozenset(worker for holders in self._held.values() for worker in holders)

    def take(self, worker: str, now: float) -> Grant | None:
        """The next task for a worker: a waiting one, else a slow one of somebody else's, else None."""
        # A worker that asks again has given up what it held, for instance after a reconnect.
        self.release(worker)
        if self._queue:
            return self._grant(self._queue.popleft(), worker, now)
        slow = min(self._slow_at(worker), default=None)
        if slow is None or slow[0] > now:
            return None
        self.speculated += 1
        return self._grant(self.tasks[slow[1]], worker, now)

    def take_more(self, worker: str, now: float, count: int) -> list[Grant]:
        """Up to `count` further members that wait, for a worker that has just taken one."""
        grants: list[Grant] = []
        while len(grants) < count and self._queue and self._queue[0].kind is TaskKind.MEMBER:
            grants.append(self._grant(self._queue.popleft(), worker, now))
        return grants

    @property
    def waiting_count(self) -> int:
        """Number of tasks that nobody holds."""
        return len(self._queue)

    def next_speculation(self, worker: str, now: float) -> float | None:
        """Seconds until a task that others hold becomes slow enough for `worker`, or None."""
        slow = min(self._slow_at(worker), default=None)
        return None if slow is None else max(0.0, slow[0] - now)

    def fill(self, task: LeaseTask, worker: str, content: bytes, now: float) -> bool:
        """Record a good report. Returns False, and drops it, where the task was filled before.

        `content` is compared with that of the first report: a difference means that the same work
        gave two answers, and is counted.

        Raises
        ------
        KeyError
            The task is not of this iteration.
        """
        if task not in self.known:
            raise KeyError(task)
        if task in self._done:
            self.nondeterministic += self._done[task] != content
            return False
        holders = self._held.pop(task, None)
        if holders is None:
            self._queue.remove(task)  # the report of a lost lease came after all
        elif worker in holders:
            self._durations.append(now - holders[worker])
        self._done[task] = content
        return True

    def release(self, worker: str) -> int:
        """Give back what a lost or leaving worker holds; returns how many tasks wait again."""
        count = 0
        for task in [t for t, holders in self._held.items() if worker in holders]:
            del self._held[task][worker]
            if not self._held[task]:
                del self._held[task]
                self._queue.appendleft(task)
                count += 1
        self.reissued += count
        return count

    def reset(self) -> None:
        """Start again: every task waits, nobody holds one, no report counts."""
        self._queue = deque(self.tasks)
        self._held.clear()
        self._done.clear()

    def _grant(self, task: LeaseTask, worker: str, now: float) -> Grant:
        self._held.setdefault(task, {})[worker] = now
        self._attempts[task] = self._attempts.get(task, 0) + 1
        return Grant(task, self._attempts[task])

    def _slow_at(self, worker: str) -> Iterator[tuple[float, int]]:
        """When each task that others hold becomes slow, counted from its latest grant; and its index."""
        if self._queue or not self._durations:
            return
        threshold = SPECULATE_AFTER_MEDIANS * statistics.median(self._durations)
        for index, task in enumerate(self.tasks):
            holders = self._held.get(task)
            if holders is not None and worker not in holders:
                yield max(holders.values()) + threshold, index
