"""Where a worker's wall clock goes, by part, from one report to the next."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dartes.v1 import population_pb2 as wire

PARTS = ("write", "update", "generate", "grade", "wire", "idle")


class Stopwatch:
    """Adds up seconds by part; what no part claims is `other`."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._since = clock()
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._few = self._alone = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time of a block as `name`."""
        start = self._clock()
        try:
            yield
        finally:
            self._seconds[name] += self._clock() - start

    def move(self, source: str, target: str, seconds: float) -> None:
        """Count some of a part's seconds as another part's."""
        self._seconds[source] -= seconds
        self._seconds[target] += seconds

    def tail(self, few: float, alone: float) -> None:
        """Note how long a continuous batch ran with few sequences and with one; a share of `generate`."""
        self._few += few
        self._alone += alone

    def lap(self) -> wire.Timings:
        """The parts since the last lap, as they travel; starts the next lap."""
        now = self._clock()
        total, self._since = now - self._since, now
        parts, self._seconds = self._seconds, dict.fromkeys(PARTS, 0.0)
        few, self._few = self._few, 0.0
        alone, self._alone = self._alone, 0.0
        other = max(0.0, total - sum(parts.values()))
        return wire.Timings(**parts, other=other, tail_seconds=few, alone_seconds=alone)
