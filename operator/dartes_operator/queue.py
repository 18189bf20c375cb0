"""A work-queue of job keys: no key twice, no key in two hands, delays, and back-off with jitter on errors.

Knows no jobs and no API; the clock and the random numbers are given to it, so that it can be tested without
waiting. A key added while it is being worked on comes again when that pass is done.
"""

import asyncio
import contextlib
import heapq
from collections.abc import Callable

from dartes_operator.kinds import Key

BACK_OFF_SECONDS = 0.5
BACK_OFF_CAP_SECONDS = 120.0
# Events of one job come in bursts (readiness of many pods): passes of one key start this far apart, so that
# a burst costs one status write; what is urgent waits a moment only.
SPACING_SECONDS = 1.0
URGENT_SPACING_SECONDS = 0.2


class WorkQueue:
    """Keys that wait for a pass.

    Parameters
    ----------
    clock
        Monotonic seconds.
    chance
        Uniform numbers in [0, 1), for jitter.
    """

    def __init__(self, clock: Callable[[], float], chance: Callable[[], float]) -> None:
        self._clock = clock
        self._chance = chance
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._busy: dict[Key, float] = {}
        self._started: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()

    def add(self, key: Key, delay: float = 0.0, *, urgent: bool = False) -> None:
        """Ask for a pass after `delay` seconds; the earliest of several wishes holds."""
        spacing = URGENT_SPACING_SECONDS if urgent else SPACING_SECONDS
        due = self._clock() + delay
        if key in self._started:
            due = max(due, self._started[key] + spacing)
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, key))
        self._changed.set()

    def retry(self, key: Key, at_least: float = 0.0) -> float:
        """Ask for a pass after an error: exponential, with jitter of half; returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        ceiling = min(BACK_OFF_CAP_SECONDS, BACK_OFF_SECONDS * 2.0 ** min(failures, 30))
        delay = max(at_least, ceiling * (0.5 + 0.5 * self._chance()))
        self.add(key, delay)
        return delay

    def succeeded(self, key: Key) -> None:
        """Forget the errors of a key."""
        self._failures.pop(key, None)

    def forget(self, key: Key) -> None:
        """Forget all about a key whose job is gone, but not a pass that is asked for."""
        self._failures.pop(key, None)
        self._started.pop(key, None)

    def pop(self) -> Key | None:
        """The key that is due first, now being worked on, or None; `done` must follow."""
        now = self._clock()
        waiting: list[tuple[float, Key]] = []
        found: Key | None = None
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) != due:
                continue  # an earlier wish has been served, or took its place
            if key in self._busy:
                waiting.append((due, key))
                continue
            found = key
            break
        for entry in waiting:
            heapq.heappush(self._heap, entry)
        if found is not None:
            del self._due[found]
            self._busy[found] = now
            self._started[found] = now
        return found

    def done(self, key: Key) -> None:
        """Give a key back; it may be popped again."""
        del self._busy[key]
        self._changed.set()

    def next_due(self) -> float | None:
        """Seconds until a key that nobody works on is due, None where there is none."""
        due = [when for key, when in self._due.items() if key not in self._busy]
        return max(0.0, min(due) - self._clock()) if due else None

    async def get(self) -> Key:
        """Wait for the next key; `done` must follow."""
        while True:
            self._changed.clear()
            key = self.pop()
            if key is not None:
                self._changed.set()  # another hand may find a key, too
                return key
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.next_due()):
                    await self._changed.wait()

    @property
    def depth(self) -> int:
        """Keys that are due now and not yet in anyone's hands."""
        now = self._clock()
        return sum(1 for when in self._due.values() if when <= now)

    def longest_pass(self) -> float:
        """Seconds for which the oldest pass under way has run."""
        return max((self._clock() - since for since in self._busy.values()), default=0.0)
