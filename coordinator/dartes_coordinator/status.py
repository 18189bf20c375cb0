"""Where a run stands, as people and the operator ask for it. Reads the coordinator, changes nothing."""

import statistics
from collections import deque
from dataclasses import dataclass, field

from dartes.difficulty import AlgorithmSettings, DifficultyState, estimated_iterations
from dartes.v1 import control_pb2 as wire

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


def fill_totals(
    response: wire.StatusResponse,
    settings: AlgorithmSettings,
    state: DifficultyState,
    committed: int,
    pace: Pace,
) -> None:
    """Set how far the run is, how fast it goes and when it will end."""
    total = estimated_iterations(settings, state, committed)
    response.iteration = committed
    response.total_iterations = total
    response.total_is_estimate = settings.iterations is None
    response.epoch = state.epoch
    response.train_pass_rate = pace.pass_rate
    response.replay_buffer_size = state.buffer_size
    response.tokens_per_second = pace.tokens_per_second
    response.last_iteration_seconds = pace.seconds[-1] if pace.seconds else 0.0
    response.estimated_remaining_seconds = pace.remaining_seconds(max(0, total - committed))
