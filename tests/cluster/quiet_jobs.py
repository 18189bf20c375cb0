"""Jobs that quietly run, jobs that have ended, and coordinators that are silent: what an operator does then.

The jobs' pods are on fake nodes; their coordinators are servers of this host. As in `scale`, figures are only
measured here.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .. import waiting
from .held import Document, HeldCluster
from .jobs import Job, until
from .kwok_jobs import Kwok, spec_on_kwok
from .scale import MeasuredOperator, Statuses, make_jobs, watched_statuses
from .stand_in_coordinators import Asked, StandInCoordinators, with_address

WORKERS = 4
LAST_WORDS = json.dumps(
    {
        "iteration": 20,
        "totalIterations": 20,
        "epoch": 1,
        "journalHash": "aa",
        "weightDigest": "bb",
        "trainPassRate": 0.9,
        "evalAccuracy": 0.95,
        "incarnation": 1,
    }
)
"""What a coordinator leaves behind whose run is done."""


def spec_of_quiet(number: int) -> Document:
    """A small job whose coordinator is at our address of that number."""
    spec = spec_on_kwok(workers__replicas=WORKERS, workers__maxReplicas=WORKERS)
    return with_address(spec, number)


def run_with_coordinators(
    operator: MeasuredOperator,
    coordinators: StandInCoordinators,
    namespace: str,
    prefix: str,
    numbers: Sequence[int],
    *,
    seconds_per_iteration: float | None,
    seconds: float,
) -> Asked:
    """Jobs whose coordinators answer, or are silent for None; returned once all were asked and told of."""
    cluster, asked = operator.release.cluster, Asked()
    names = [f"{prefix}-{number:03}" for number in numbers]
    make_jobs(
        cluster,
        {(namespace, name): spec_of_quiet(number) for name, number in zip(names, numbers, strict=True)},
    )
    for name, number in zip(names, numbers, strict=True):
        path = f"/api/v1/namespaces/{namespace}/pods/{name}-coordinator"
        until(lambda path=path: cluster.find(path), f"coordinator of {name}", seconds)  # type: ignore[misc]
        coordinators.serve(namespace, name, number, asked, seconds_per_iteration)
    until(lambda: set(asked.times) == set(names), f"all {len(names)} {prefix} jobs were asked", seconds)
    if seconds_per_iteration is not None:
        # The first answer changes more than progress.
        jobs = [Job(operator.release.api, namespace, name) for name in names]
        until(lambda: all(job.iteration > 0 for job in jobs), f"progress of all {prefix} jobs", seconds)
    return asked


def finish_jobs(
    operator: MeasuredOperator, kwok: Kwok, namespace: str, jobs: int, seconds: float, prefix: str = "done"
) -> None:
    """Jobs whose runs are done: complete, with nothing left of their workers that is alive."""
    release = operator.release
    names = [f"{prefix}-{number:03}" for number in range(jobs)]
    spec = spec_on_kwok(workers__replicas=WORKERS, workers__maxReplicas=WORKERS)
    make_jobs(release.cluster, {(namespace, name): spec for name in names})
    made = [Job(release.api, namespace, name) for name in names]
    for job in made:
        coordinator = until(lambda job=job: job.ready("coordinator"), f"{job.name} runs", seconds)[0]  # type: ignore[misc]
        kwok.finish(coordinator, message=LAST_WORDS)
    for job in made:
        job.wait_complete(seconds)
        until(lambda job=job: _is_settled(job), f"workers of {job.name} are gone", seconds)  # type: ignore[misc]


def _is_settled(job: Job) -> bool:
    """Whether its workers are gone, and its status says so."""
    workers = job.status["workers"]
    return not job.live("worker") and workers["replicas"] == workers["draining"] == 0


@dataclass(frozen=True)
class Quiet:
    """What the operator asked and wrote while nothing happened but progress."""

    seconds: float
    requests: Counter[str]
    statuses: Statuses
    processor_seconds: float
    asked_at_once: int
    longest_pause: float
    """The longest time for which a running job's coordinator was not asked."""


def measure_quiet(operator: MeasuredOperator, namespace: str, asked: Asked, seconds: float) -> Quiet:
    """Let time pass and look on."""
    with watched_statuses(operator.release, namespace) as statuses:
        since, computed, began = operator.now(), operator.processor_seconds(), time.monotonic()
        waiting.until(lambda: time.monotonic() >= began + seconds, "the time is over", seconds + 30, 1.0)
        ended = time.monotonic()
        requests = operator.requests(since)
    return Quiet(
        seconds=ended - began,
        requests=Counter(request.kind for request in requests if request.verb != "watch"),
        statuses=statuses,
        processor_seconds=operator.processor_seconds() - computed,
        asked_at_once=asked.most_at_once,
        longest_pause=asked.longest_pause(began, ended),
    )


def delete_all(cluster: HeldCluster, *namespaces: str, seconds: float) -> None:
    """Delete namespaces and wait until they are gone, so that what is measured next has the cluster alone."""
    for namespace in namespaces:
        cluster.delete_namespace(namespace)
    for namespace in namespaces:
        path = f"/api/v1/namespaces/{namespace}"
        until(lambda path=path: cluster.find(path) is None, f"{namespace} is gone", seconds)  # type: ignore[misc]
