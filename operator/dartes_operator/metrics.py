"""The operator's Prometheus metrics, in a registry of their own; labels are bounded, never per job."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dartes.spec.crd.status import PHASES


class Metrics:
    """Counters that the operator raises, and gauges read when somebody asks."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "dartes_reconcile", "Passes over a job, by result.", ["result"], registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            "dartes_reconcile_seconds",
            "Duration of a pass over a job.",
            buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
            registry=self.registry,
        )
        self.api_requests = Counter(
            "dartes_api_requests",
            "Requests to the API server, without watches, by status code and verb.",
            ["code", "verb"],
            registry=self.registry,
        )
        self.disruptions = Counter(
            "dartes_disruptions",
            "Pods of jobs lost to the platform.",
            registry=self.registry,
        )

    def observe_with(
        self,
        queue_depth: Callable[[], float],
        watch_ages: Callable[[], Mapping[str, float]],
        jobs_by_phase: Callable[[], Mapping[str, int] | None],
    ) -> None:
        """Read these when metrics are asked for; None are jobs that nobody has counted yet."""
        self.registry.register(_Gauges(queue_depth, watch_ages, jobs_by_phase))

    def text(self) -> bytes:
        """All metrics in the exposition format."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(
        self,
        queue_depth: Callable[[], float],
        watch_ages: Callable[[], Mapping[str, float]],
        jobs_by_phase: Callable[[], Mapping[str, int] | None],
    ) -> None:
        self._queue_depth = queue_depth
        self._watch_ages = watch_ages
        self._jobs_by_phase = jobs_by_phase

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("dartes_queue_depth", "Jobs that wait for a pass.", value=self._queue_depth())
        ages = GaugeMetricFamily(
            "dartes_watch_age_seconds", "Time since the API server last told of a kind.", labels=["kind"]
        )
        for kind, age in self._watch_ages().items():
            ages.add_metric([kind], age)
        yield ages
        counts = self._jobs_by_phase()
        if counts is None:
            return
        phases = GaugeMetricFamily("dartes_jobs", "Jobs by phase.", labels=["phase"])
        # Zeros too: an alert sees a rise only where there was a sample before.
        for phase in PHASES:
            phases.add_metric([phase], counts.get(phase, 0))
        yield phases
