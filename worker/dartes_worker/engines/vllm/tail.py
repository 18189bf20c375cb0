"""How long the last sequences of a continuous batch ran alone: time that more prompts would have filled.

Knows counts and a clock, no engine.
"""

from collections.abc import Callable
from typing import Final

FEW: Final = 0.25
"""Share of a batch's sequences below which the rest is its tail."""


class LongTail:
    """Adds up, over batches, the seconds in which few sequences were left and in which one was."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._size = 0
        self._running = 0
        self._since = 0.0
        self._few = 0.0
        self._alone = 0.0

    def begin(self, size: int) -> None:
        """A batch of `size` sequences starts."""
        self._size = self._running = size
        self._since = self._clock()

    def note(self, running: int) -> None:
        """After a step, so many sequences still run."""
        now = self._clock()
        seconds, self._since = now - self._since, now
        # The step that ends here ran with as many sequences as there were before it.
        if self._size > 1 and self._running < FEW * self._size:
            self._few += seconds
        if self._size > 1 and self._running == 1:
            self._alone += seconds
        self._running = running

    def take(self) -> tuple[float, float]:
        """Seconds with few left (those alone included) and seconds alone; starts again from 0."""
        found = (self._few, self._alone)
        self._few = self._alone = 0.0
        return found
