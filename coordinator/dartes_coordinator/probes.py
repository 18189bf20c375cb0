"""Health, readiness and metrics of the coordinator over HTTP, for the cluster's probes and Prometheus."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from prometheus_client import CollectorRegistry

from dartes.difficulty import Scored
from dartes.serving import HttpServer
from dartes_coordinator.metrics import Metrics
from dartes_coordinator.observer import Observer

if TYPE_CHECKING:
    from dartes_coordinator.run import Run

STUCK_SECONDS = 60.0
"""A main loop that has not come round for this long is stuck; a commit on a slow disk takes seconds."""


class Probes(Observer):
    """Passes on to the metrics what it hears, and remembers when it last heard of the main loop."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._metrics = Metrics(registry)
        self._turned_at: float | None = None
        self._listens = False
        self._server: HttpServer | None = None

    @classmethod
    def start(cls, address: str) -> Self:
        """Listen on `HOST:PORT`. Raises ConfigurationError where that can't be."""
        registry = CollectorRegistry()
        probes = cls(registry)
        probes._server = HttpServer(address, probes.health, probes.readiness, registry)
        return probes

    def health(self) -> str | None:
        """Why the main loop counts as dead, or None. While a run is being opened there is no loop yet."""
        turned_at = self._turned_at
        if turned_at is None:
            return None
        still = self._clock() - turned_at
        return None if still <= STUCK_SECONDS else f"the main loop has not turned for {still:.0f} s"

    def readiness(self) -> str | None:
        """Why workers can't call yet, or None."""
        return None if self._listens else "the run is being opened"

    def turned(self, run: "Run") -> None:
        """The main loop lives."""
        self._turned_at = self._clock()
        self._metrics.turned(run)

    def committed(self, line: Mapping[str, Any], scored: Scored, seconds: float) -> None:
        """One more iteration."""
        self._metrics.committed(line, scored, seconds)

    def refused(self, code: str) -> None:
        """One more error."""
        self._metrics.refused(code)

    def listening(self) -> None:
        """Ready from now on."""
        self._listens = True
