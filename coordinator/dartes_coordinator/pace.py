"""How fast a run goes, over its last few iterations."""

import statistics
from collections import deque
from dataclasses import dataclass, field

WINDOW = 10
"""Iterations over which speed is averaged."""


@dataclass
class Pace:
    """The last few iterations: seconds, generated tokens, and the newest pass rate."""

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    tokens: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOW))
    pass_rate: float = 0.0

    def add(self, seconds: float, tokens: int, pass_rate: float) -> None:
        """Note a committed iteration."""
        self.seconds.append(seconds)
        self.tokens.append(tokens)
        self.pass_rate = pass_rate

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens per second of wall clock over the window."""
        total = sum(self.seconds)
        return sum(self.tokens) / total if total > 0 else 0.0

    def remaining_seconds(self, iterations: int) -> float:
        """Median seconds of the window times the iterations that are left."""
        return statistics.median(self.seconds) * iterations if self.seconds else 0.0
