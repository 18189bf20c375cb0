"""Which work of one iteration is waiting, held or done, and who may take what next.

Pure bookkeeping: the clock is passed in and nothing here knows of gRPC, results or the disk. A lease
is a promise that somebody is at it, never a right: the first good report of a task fills it, whoever
sends it.
"""

import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

SPECULATE_AFTER_MEDIANS = 2.0
"""A held task is offered a second time when it is older than this many medians of the finished ones."""


class TaskKind(IntEnum):
    """What is evaluated; values equal those of the wire's EvaluateKind."""

    MEMBER = 1
    PARENT = 2
    HELD_OUT = 3


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
class _Holder:
    worker: str
    since: float


@dataclass
class LeaseTable:
    """The leases of one iteration.

    Attributes
    ----------
    reissued
        How often a task was handed out again because its holder was lost.
    speculated
        How often a task was handed out twice because its holder was slow.
    nondeterministic
        Reports for a filled task whose content differed from the first one.
    """

    tasks: Sequence[LeaseTask]
    reissued: int = 0
    speculated: int = 0
    nondeterministic: int = 0
    _queue: deque[LeaseTask] = field(default_factory=deque)
    _held: dict[LeaseTask, list[_Holder]] = field(default_factory=dict)
    _attempts: dict[LeaseTask, int] = field(default_factory=dict)
    _done: dict[LeaseTask, bytes] = field(default_factory=dict)
    _durations: list[float] = field(default_factory=list)
    known: frozenset[LeaseTask] = field(init=False)
    """The tasks as a set."""

    def __post_init__(self) -> None:
        self.known = frozenset(self.tasks)
        if len(self.known) != len(self.tasks):
            raise ValueError("a task is listed twice")
        self._queue.extend(self.tasks)

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
        return tuple(holder.worker for holder in self._held.get(task, ()))

    def take(self, worker: str, now: float) -> Grant | None:
        """The next task for a worker: a waiting one, else a slow one of somebody else's, else None."""
        # A worker that asks again has given up what it held, for instance after a reconnect.
        self.release(worker)
        if self._queue:
            return self._grant(self._queue.popleft(), worker, now)
        slow = self._slowest(worker, now)
        if slow is None:
            return None
        self.speculated += 1
        return self._grant(slow, worker, now)

    def next_speculation(self, now: float) -> float | None:
        """Seconds until the oldest held task becomes slow enough to be offered twice, or None."""
        if self._queue or not self._durations:
            return None
        threshold = self._threshold()
        waits = [
            holders[0].since + threshold - now
            for task, holders in self._held.items()
            if len(holders) == 1 and task not in self._done
        ]
        return max(0.0, min(waits)) if waits else None

    def fill(self, task: LeaseTask, content: bytes, now: float) -> bool:
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
        holders = self._held.pop(task, [])
        if task in self._done:
            if self._done[task] != content:
                self.nondeterministic += 1
            return False
        if holders:
            self._durations.append(now - holders[0].since)
        elif task in self._queue:
            self._queue.remove(task)  # the report of a lost lease came after all
        self._done[task] = content
        return True

    def release(self, worker: str) -> int:
        """Give back what a lost or leaving worker holds; returns how many tasks wait again."""
        count = 0
        for task in [t for t, holders in self._held.items() if any(h.worker == worker for h in holders)]:
            remaining = [h for h in self._held[task] if h.worker != worker]
            if remaining:
                self._held[task] = remaining
            else:
                del self._held[task]
                if task not in self._done:
                    self._queue.appendleft(task)
                    self.reissued += 1
                    count += 1
        return count

    def reset(self, tasks: Iterable[LeaseTask] | None = None) -> None:
        """Forget all reports (or those of `tasks`): they have to be made again."""
        again = [t for t in (self.tasks if tasks is None else tasks) if t in self._done]
        for task in again:
            del self._done[task]
        self._queue.extendleft(reversed(again))

    def _grant(self, task: LeaseTask, worker: str, now: float) -> Grant:
        self._held.setdefault(task, []).append(_Holder(worker, now))
        self._attempts[task] = self._attempts.get(task, 0) + 1
        return Grant(task, self._attempts[task])

    def _threshold(self) -> float:
        return SPECULATE_AFTER_MEDIANS * statistics.median(self._durations)

    def _slowest(self, worker: str, now: float) -> LeaseTask | None:
        if not self._durations:
            return None
        threshold = self._threshold()
        slow = [
            (holders[0].since, index)
            for index, task in enumerate(self.tasks)
            if (holders := self._held.get(task)) is not None
            and len(holders) == 1
            and task not in self._done
            and holders[0].worker != worker
            and now - holders[0].since > threshold
        ]
        return self.tasks[min(slow)[1]] if slow else None
