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
# An API server that is away may be back at any time, and tells nobody.
AWAY_CAP_SECONDS = 20.0
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
        self._not_before: dict[Key, float] = {}
        self._changed = asyncio.Event()
        self._given_back = asyncio.Event()
        self._closed = False

    def add(self, key: Key, delay: float = 0.0, *, urgent: bool = False) -> None:
        """Ask for a pass after `delay` seconds; the earliest of several wishes holds."""
        spacing = URGENT_SPACING_SECONDS if urgent else SPACING_SECONDS
        due = self._clock() + delay
        if key in self._started:
            due = max(due, self._started[key] + spacing)
        due = max(due, self._not_before.get(key, due))
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        if key not in self._busy:
            heapq.heappush(self._heap, (due, key))
            self._changed.set()

    def retry(
        self,
        key: Key,
        at_least: float = 0.0,
        *,
        at_most: float = BACK_OFF_CAP_SECONDS,
        urgent: bool = False,
        got_further: bool = False,
    ) -> float:
        """Ask for a pass after an error: exponential, with jitter of half; returns the delay in seconds.

        A pass that `got_further` than the one before waits no longer than that one.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures if got_further else failures + 1
        ceiling = min(at_most, BACK_OFF_SECONDS * 2.0 ** min(failures, 30))
        delay = max(at_least, ceiling * (0.5 + 0.5 * self._chance()))
        if at_least > 0:
            # Nor is it for an event to come before the time that the server has named.
            self._not_before[key] = self._clock() + at_least
            if key in self._due and key in self._busy:
                self._due[key] = max(self._due[key], self._not_before[key])
        self.add(key, delay, urgent=urgent)
        return delay

    def succeeded(self, key: Key) -> None:
        """Forget the errors of a key."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)

    def forget(self, key: Key) -> None:
        """Forget all about a key whose job is gone, but not a pass that is asked for."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)
        self._started.pop(key, None)

    def pop(self) -> Key | None:
        """The key that is due first, now being worked on, or None; `done` must follow."""
        now = self._clock()
        first = self._first()
        if self._closed or first is None or first[0] > now:
            return None
        _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._busy[key] = now
        self._started[key] = now
        return key

    def done(self, key: Key) -> None:
        """Give a key back; it may be popped again."""
        del self._busy[key]
        self._given_back.set()
        if key in self._due:
            heapq.heappush(self._heap, (self._due[key], key))
            self._changed.set()

    def next_due(self) -> float | None:
        """Seconds until a key that nobody works on is due, None where there is none to be given out."""
        first = None if self._closed else self._first()
        return None if first is None else max(0.0, first[0] - self._clock())

    async def close(self, patience: float) -> None:
        """Give out no more keys, and wait for those under way, but no more than so many seconds."""
        self._closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._busy:
                    self._given_back.clear()
                    await self._given_back.wait()

    def _first(self) -> tuple[float, Key] | None:
        """The earliest wish that still holds, of keys that nobody works on."""
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) == due and key not in self._busy:
                return due, key
            # An earlier wish has been served or took its place, or somebody works on it: `done` puts it back.
            heapq.heappop(self._heap)
        return None

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
