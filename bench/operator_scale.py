"""The operator at scale: 200 jobs of 5 pods, a job of 1,000 workers, silent coordinators, five idle minutes.

Pods are on fake nodes (KWOK), so that the operator and the API server are what is measured; on this machine
they share the processors with scheduler, controllers and KWOK. Coordinators that answer are gRPC servers of
the host with the jobs' own certificates. Requests are counted in the API server's audit log; memory is the
resident set of the operator's process, at its highest.

Usage: python -m bench.operator_scale [--jobs N] [--workers N] [--idle-seconds S]
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from bench.cluster_support import namespace_of, own_cluster
from bench.common import Figure, Row, all_reached, report
from tests.cluster.definitions import DEFINITION
from tests.cluster.held import HeldCluster
from tests.cluster.jobs import until
from tests.cluster.kwok_jobs import Kwok
from tests.cluster.quiet_jobs import Quiet, delete_all, finish_jobs, measure_quiet, run_with_coordinators
from tests.cluster.releases import Releases
from tests.cluster.scale import (
    Large,
    MeasuredOperator,
    Memory,
    Started,
    start_large,
    start_many,
    watched_statuses,
)
from tests.cluster.stand_in_coordinators import Asked, StandInCoordinators

CREATED_SECONDS: Final = 60.0
STATUS_BYTES: Final = 16 * 1024
MEMORY_MIB: Final = 200.0
AT_ONCE: Final = 20
PATIENCE_SECONDS: Final = 2.02
"""Two, and what gRPC rounds a time-out up by on the wire: it is sent in units of 10 ms."""
WRITE_SECONDS: Final = 10.0
FINISHED, RUNNING, SILENT, ANSWERING = 20, 5, 60, 5
POLLED_SECONDS: Final = 60.0
MOST_SECONDS: Final = 900.0
MOST_LISTS: Final = 10
"""One of each of the five watched kinds every five minutes, and one where a watch has started over."""


@dataclass
class Measured:
    """What came out, phase by phase."""

    memory: dict[str, Memory] = field(default_factory=dict)
    after_restart: Counter[str] = field(default_factory=Counter)
    most_status_bytes: int = 0
    """Of the large job, also while half of its workers are lost at once."""


@contextmanager
def scene() -> Iterator[tuple[HeldCluster, Releases]]:
    """A cluster with fake nodes and the definition of jobs; the releases made in it are removed."""
    with own_cluster() as cluster:
        cluster.start_extra("kwok")
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(DEFINITION))
        cluster.kubectl("wait", "--for=condition=Established", "crd/dartesjobs.dartes.dev", "--timeout=30s")
        releases = Releases(cluster, ())
        try:
            yield cluster, releases
        finally:
            releases.remove()


def crowded(
    cluster: HeldCluster, releases: Releases, names: ExitStack, jobs: int, workers: int, measured: Measured
) -> tuple[Started, Large]:
    """Very many pods: of many jobs, then of one; then a node pool that is gone, then a new operator."""
    many = [names.enter_context(namespace_of(cluster, "many")) for _ in range(2)]
    alone = names.enter_context(namespace_of(cluster, "large"))
    operator = MeasuredOperator(releases(*many, alone, kwok=True))
    measured.memory["before the first job"] = operator.memory()
    started = start_many(operator, "job", many, jobs, workers=4, seconds=MOST_SECONDS)
    measured.memory[f"with {jobs} jobs of 5 pods"] = operator.memory()
    job, large = start_large(operator, alone, "large", workers, MOST_SECONDS)
    measured.memory[f"and one of {workers} workers"] = operator.memory()
    with watched_statuses(operator.release, alone) as statuses:
        kwok = Kwok(cluster)
        for pod in job.live("worker")[::2]:
            kwok.disrupt(pod)
        until(lambda: len(job.ready("worker")) == workers, "all workers are back", MOST_SECONDS)
    measured.most_status_bytes = max(large.most_status_bytes, statuses.most_bytes)
    measured.memory["half of these lost and made again"] = operator.memory()
    since = operator.now()
    operator.release.scale_operator(0)
    operator.release.scale_operator(1)
    _look_on(60.0)
    measured.after_restart = Counter(
        request.kind for request in operator.requests(since) if request.verb != "watch"
    )
    measured.memory["a new operator before all of these"] = operator.memory()
    operator.release.uninstall()
    delete_all(cluster, *many, alone, seconds=MOST_SECONDS)
    return started, large


def quiet(
    cluster: HeldCluster, releases: Releases, names: ExitStack, seconds: float, measured: Measured
) -> tuple[Asked, Quiet, Quiet]:
    """Silent coordinators beside those that answer, in one namespace; idle minutes in another."""
    polled = names.enter_context(namespace_of(cluster, "polled"))
    idle = names.enter_context(namespace_of(cluster, "idle"))
    with StandInCoordinators(cluster) as coordinators:
        operator = MeasuredOperator(releases(polled, kwok=True))
        answering = run_with_coordinators(
            operator, coordinators, polled, "answers", range(ANSWERING),
            seconds_per_iteration=7.0, seconds=MOST_SECONDS,
        )  # fmt: skip
        silent = run_with_coordinators(
            operator, coordinators, polled, "silent", range(100, 100 + SILENT),
            seconds_per_iteration=None, seconds=MOST_SECONDS,
        )  # fmt: skip
        beside = measure_quiet(operator, polled, answering, POLLED_SECONDS)
        operator.release.uninstall()
        delete_all(cluster, polled, seconds=MOST_SECONDS)
        operator = MeasuredOperator(releases(idle, kwok=True))
        finish_jobs(operator, Kwok(cluster), idle, FINISHED, MOST_SECONDS)
        asked = run_with_coordinators(
            operator, coordinators, idle, "runs", range(200, 200 + RUNNING),
            seconds_per_iteration=4.0, seconds=MOST_SECONDS,
        )  # fmt: skip
        idled = measure_quiet(operator, idle, asked, seconds)
        measured.memory[f"{FINISHED} finished and {RUNNING} running jobs"] = operator.memory()
        operator.release.uninstall()
    delete_all(cluster, idle, seconds=MOST_SECONDS)
    return silent, beside, idled


def _look_on(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    until(lambda: time.monotonic() >= deadline, "the time is over", seconds + 10)


def figures_of(
    started: Started, silent: Asked, beside: Quiet, idled: Quiet, measured: Measured
) -> list[Figure]:
    """What was asked for, and what came out."""
    peak = max(memory.peak for memory in measured.memory.values())
    writes = idled.requests["patch dartesjobs/status"]
    allowed = int(RUNNING * (1 + idled.seconds / WRITE_SECONDS))
    lists = sum(count for kind, count in idled.requests.items() if kind.startswith("list "))
    others = idled.requests.total() - writes - lists
    return [
        Figure(
            "all pods of the many jobs made",
            f"<= {CREATED_SECONDS:.0f} s",
            f"{started.seconds:.1f} s",
            started.seconds <= CREATED_SECONDS,
        ),
        Figure(
            "status of the large job, at its largest",
            "< 16384 bytes",
            f"{measured.most_status_bytes} bytes",
            measured.most_status_bytes < STATUS_BYTES,
        ),
        Figure("operator's memory", f"<= {MEMORY_MIB:.0f} MiB", f"{peak:.0f} MiB", peak <= MEMORY_MIB),
        Figure(
            "coordinators asked at once",
            f"<= {AT_ONCE}",
            str(silent.most_at_once),
            silent.most_at_once <= AT_ONCE,
        ),
        Figure(
            "longest that one of them may take",
            f"<= {PATIENCE_SECONDS} s (2 s, rounded up on the wire)",
            f"{silent.longest_patience:.2f} s",
            silent.longest_patience <= PATIENCE_SECONDS,
        ),
        Figure(
            f"longest pause of one that answers, beside {SILENT} silent ones",
            "<= 8 s",
            f"{beside.longest_pause:.1f} s",
            beside.longest_pause <= 8.0,
        ),
        Figure(
            f"status writes in {idled.seconds:.0f} idle seconds, {RUNNING} jobs running",
            f"<= {allowed}, of progress alone",
            f"{writes}, {len(idled.statuses.unlike_progress)} of anything else",
            writes <= allowed and not idled.statuses.unlike_progress,
        ),
        Figure("listings in that time", f"<= {MOST_LISTS}", str(lists), lists <= MOST_LISTS),
        Figure("other requests in that time", "0", str(others), others == 0),
    ]


def rows_of(
    started: Started,
    large: Large,
    silent: Asked,
    beside: Quiet,
    idled: Quiet,
    measured: Measured,
    jobs: int,
    workers: int,
) -> list[Row]:
    """The table."""
    many, one = f"{jobs} jobs of 5 pods", f"a job of {workers} workers"
    values: list[tuple[str, float, str]] = [
        (f"{many}: all pods made", started.seconds, "s"),
        (f"{many}: all say Running", started.seconds_to_running, "s"),
        (f"{many}: requests of the operator, each job", started.requests.total() / jobs, ""),
        (f"{many}: status writes, each job", started.requests["patch dartesjobs/status"] / jobs, ""),
        (f"{many}: processor time of the operator", started.processor_seconds, "s"),
        (f"{one}: all pods made", large.seconds, "s"),
        (f"{one}: all ready", large.seconds_to_ready, "s"),
        (f"{one}: requests of the operator, each worker", large.requests.total() / workers, ""),
        (f"{one}: status writes until all are ready", large.status_writes, ""),
        (f"{one}: status, all ready", large.most_status_bytes, "bytes"),
        (f"{one}: status while half of them are replaced", measured.most_status_bytes, "bytes"),
        ("a new operator before all of these: requests", measured.after_restart.total(), ""),
        *((f"memory {when}", memory.peak, "MiB") for when, memory in measured.memory.items()),
        (f"{SILENT} silent coordinators: asked at once, at most", silent.most_at_once, ""),
        (f"{SILENT} silent coordinators: time that one may take, at most", silent.longest_patience, "s"),
        (f"{SILENT} silent coordinators: longest pause of one that answers", beside.longest_pause, "s"),
        (f"{SILENT} silent coordinators: processor time in 60 s", beside.processor_seconds, "s"),
        (f"{idled.seconds:.0f} idle seconds: status writes", idled.requests["patch dartesjobs/status"], ""),
        (
            f"{idled.seconds:.0f} idle seconds: of these, of more than progress",
            len(idled.statuses.unlike_progress),
            "",
        ),
        (
            f"{idled.seconds:.0f} idle seconds: all other requests",
            idled.requests.total() - idled.requests["patch dartesjobs/status"],
            "",
        ),
        (f"{idled.seconds:.0f} idle seconds: processor time", idled.processor_seconds, "s"),
    ]
    return [{"what": what, "value": round(value, 2), "unit": unit} for what, value, unit in values]


def main() -> int:
    """Measure, print and write; 1 if a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.operator_scale", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--idle-seconds", type=float, default=300.0)
    options = parser.parse_args()
    measured = Measured()
    with scene() as (cluster, releases), ExitStack() as names:
        started, large = crowded(cluster, releases, names, options.jobs, options.workers, measured)
        silent, beside, idled = quiet(cluster, releases, names, options.idle_seconds, measured)
    figures = figures_of(started, silent, beside, idled, measured)
    rows = rows_of(started, large, silent, beside, idled, measured, options.jobs, options.workers)
    meta = {
        "requests for the many jobs": dict(sorted(started.requests.items())),
        "requests for the large job": dict(sorted(large.requests.items())),
        "requests of a new operator": dict(sorted(measured.after_restart.items())),
        "idle requests": dict(sorted(idled.requests.items())),
    }
    report("operator_scale", rows, meta, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
