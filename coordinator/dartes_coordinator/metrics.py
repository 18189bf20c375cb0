"""The coordinator's Prometheus metrics: set at each commit and once a second, shown by whoever asks.

Labels are bounded: parts of an iteration, states of workers, gRPC's status codes. Nothing is per problem,
per seed or per worker.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dartes.difficulty import Scored
from dartes_coordinator.observer import Observer

if TYPE_CHECKING:
    from dartes_coordinator.run import Run

PASS_RATES: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999, 1.0)
SECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
COMMIT_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

_PREFIX: Final = "dartes_coordinator_"


class Metrics(Observer):
    """All metrics of one coordinator, in the registry that is passed in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(_PREFIX + name, text, labels, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(_PREFIX + name, text, labels, registry=registry)

        self._iteration = gauge("iteration", "Committed iterations of the run")
        self._incarnation = gauge("incarnation", "Incarnation of this coordinator")
        self._epoch = gauge("epoch", "Epoch of the data")
        self._paused = gauge("paused", "1 while nothing can be written, else 0")
        self._held_up = gauge("held_up", "1 while no lease is answered for want of something outside, else 0")
        self._pending = gauge("leases_pending", "Leases of the present iteration that are not answered yet")
        self._workers = gauge("workers", "Connected workers by state: evaluating, waiting, behind", "state")
        self._seconds = Histogram(
            _PREFIX + "iteration_seconds",
            "Wall clock of an iteration",
            registry=registry,
            buckets=SECONDS,
        )
        self._part_seconds = counter(
            "worker_seconds", "Seconds of all workers by what they went into", "part"
        )
        self._commit_seconds = Histogram(
            _PREFIX + "commit_seconds",
            "Time that a commit took, journal, metrics and backup included",
            registry=registry,
            buckets=COMMIT_SECONDS,
        )
        self._members = counter("members_evaluated", "Members whose answers are committed")
        self._tokens = counter("generated_tokens", "Tokens that committed iterations generated")
        self._pass_rates = Histogram(
            _PREFIX + "problem_pass_rate",
            "Pass rates of the problems of committed batches, over members",
            registry=registry,
            buckets=PASS_RATES,
        )
        self._pass_rate = gauge("train_pass_rate", "Mean pass rate of the last batch")
        self._history = gauge("mean_history", "Mean of the pass-rate history over the last batch's problems")
        self._replay_size = gauge("replay_buffer_problems", "Problems in the replay buffer")
        self._replay_ratio = gauge("replay_ratio", "Share of replayed problems in the last batch")
        self._sign_flips = gauge(
            "sign_flip_share", "Share of members whose coefficient has another sign than plain ES would give"
        )
        self._reissued = counter("leases_reissued", "Leases handed out again since their holder was lost")
        self._speculated = counter("leases_speculated", "Leases handed out twice since their holder was slow")
        self._nondeterministic = counter(
            "nondeterministic_reports", "Second reports of a lease that differed from the first"
        )
        self._wire = counter("wire_bytes", "Payload bytes of all calls")
        self._errors = counter("rpc_errors", "Calls answered with an error, by gRPC status code", "code")

    def turned(self, run: "Run") -> None:
        """Set what changes between commits."""
        committed, leases = run.progress.iteration, run.round.leases
        self._iteration.set(committed)
        self._incarnation.set(run.ledger.incarnation)
        self._epoch.set(run.progress.state.epoch)
        self._paused.set(run.paused is not None)
        self._held_up.set(run.workers.hindrance() is not None)
        self._pending.set(len(leases.tasks) - leases.done_count)
        states = {"evaluating": 0, "waiting": 0, "behind": 0}
        busy = leases.all_holders()
        for worker in run.workers.connected():
            behind = worker.iteration < committed
            states["evaluating" if worker.name in busy else "behind" if behind else "waiting"] += 1
        for state, count in states.items():
            self._workers.labels(state).set(count)

    def committed(self, line: Mapping[str, Any], scored: Scored, seconds: float) -> None:
        """Add a committed iteration."""
        self._iteration.set(line["iteration"] + 1)
        self._seconds.observe(line["seconds"])
        for part, spent in (line["seconds_by_part"] or {}).items():
            self._part_seconds.labels(part).inc(max(0.0, spent))
        self._commit_seconds.observe(seconds)
        self._members.inc(len(scored.coefficients))
        self._tokens.inc(line["generated_tokens"])
        for rate in scored.pass_rates.tolist():
            self._pass_rates.observe(rate)
        self._pass_rate.set(line["pass_rate"])
        self._history.set(line["mean_history"])
        self._replay_size.set(line["replay_buffer_size"])
        self._replay_ratio.set(line["replayed"] / line["problems"] if line["problems"] else 0.0)
        self._sign_flips.set(line["sign_flip_share"])
        self._reissued.inc(line["reissued"] or 0)
        self._speculated.inc(line["speculated"] or 0)
        self._nondeterministic.inc(line["nondeterministic_reports"] or 0)
        self._wire.inc(line["wire_bytes"] or 0)

    def refused(self, code: str) -> None:
        """Count an error."""
        self._errors.labels(code).inc()
