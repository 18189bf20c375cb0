"""The operator with many jobs, one job of very many workers, silent coordinators, and nothing to do.

Pods are on fake nodes, so that what is measured is the operator and the API server. The sizes that are
promised are those of the tests marked `full`; the small ones beside them show in `make test` that nothing
grows that should not.
"""

from collections.abc import Iterator

import pytest

from .held import HeldCluster
from .jobs import until
from .kwok_jobs import Kwok
from .lacking import lacking
from .quiet_jobs import finish_jobs, measure_quiet, run_with_coordinators
from .releases import Releases
from .scale import MeasuredOperator, count, start_large, start_many, watched_statuses
from .stand_in_coordinators import StandInCoordinators

CREATED_SECONDS = 60.0
STATUS_BYTES = 16 * 1024
MEMORY_MIB = 200.0
AT_ONCE = 20
PATIENCE_SECONDS = 2.02
"""Two, and what gRPC rounds a time-out up by on the wire."""
PATIENT_SECONDS = 600.0
"""For waits whose length is not what is measured."""
IDLE_SECONDS = 300.0
FINISHED, RUNNING = 20, 5
WRITE_SECONDS = 10.0
KINDS = 5

pytestmark = [pytest.mark.usefixtures("alone"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def namespaces(cluster: HeldCluster) -> Iterator[list[str]]:
    """Two namespaces for many jobs, one for a large job, one for quiet ones."""
    names = [cluster.make_namespace("scale") for _ in range(4)]
    yield names
    for name in names:
        cluster.delete_namespace(name)


@pytest.fixture(scope="module")
def operator(cluster: HeldCluster, releases: Releases, kwok: Kwok, namespaces: list[str]) -> MeasuredOperator:
    """An operator of its own for those namespaces."""
    if cluster.audit_log is None:
        lacking("this cluster keeps no audit log that can be read")
    return MeasuredOperator(releases(*namespaces, kwok=True))


@pytest.fixture(scope="module")
def coordinators(cluster: HeldCluster) -> Iterator[StandInCoordinators]:
    """A host that answers at the addresses of fake pods."""
    if not cluster.can_hurt_nodes:
        lacking("this cluster's pods do not reach a server of this host")
    with StandInCoordinators(cluster) as coordinators:
        yield coordinators


def clear(operator: MeasuredOperator, *namespaces: str) -> None:
    """Delete what another test has left there, so that every count is this one's own."""
    cluster = operator.release.cluster
    for namespace in namespaces:
        operator.release.kubectl("delete", "dartesjobs", "--all", "--wait=false", "-n", namespace)
    for namespace in namespaces:
        until(lambda name=namespace: count(cluster, name) == 0, "no pod is left", PATIENT_SECONDS)  # type: ignore[misc]


def check_memory(operator: MeasuredOperator) -> None:
    """Within its bound, at its highest; and it has not begun anew to be so."""
    memory = operator.memory()
    assert memory.peak <= MEMORY_MIB, memory
    assert operator.restarts() == 0


@pytest.mark.parametrize("jobs", [12, pytest.param(200, marks=pytest.mark.full)])
def test_all_pods_of_many_jobs_are_there_within_a_minute(
    operator: MeasuredOperator, namespaces: list[str], jobs: int
) -> None:
    clear(operator, *namespaces[:2])
    started = start_many(operator, f"many{jobs}", namespaces[:2], jobs, workers=4, seconds=PATIENT_SECONDS)
    assert started.seconds <= CREATED_SECONDS, started
    # No pod is asked for twice, and what a job costs does not grow with their number.
    assert started.requests["create pods"] == jobs * 7, started
    assert started.requests.total() <= jobs * 30, started
    check_memory(operator)


@pytest.mark.parametrize("workers", [130, pytest.param(1000, marks=pytest.mark.full)])
def test_a_job_of_very_many_workers_has_a_small_status_that_is_seldom_written(
    operator: MeasuredOperator, namespaces: list[str], kwok: Kwok, workers: int
) -> None:
    release, namespace = operator.release, namespaces[2]
    clear(operator, namespace)
    job, large = start_large(operator, namespace, f"large{workers}", workers, seconds=PATIENT_SECONDS)
    assert large.most_status_bytes < STATUS_BYTES
    assert large.status_writes <= 6 + large.seconds_to_ready / WRITE_SECONDS, large
    assert large.requests["create pods"] == workers + 3, large
    with watched_statuses(release, namespace) as statuses:
        # A node pool that is gone: half of the workers end at once.
        for pod in job.live("worker")[::2]:
            kwok.disrupt(pod)
        lost = (workers + 1) // 2
        until(lambda: job.status["failures"]["disruptions"] == lost, "all are counted", PATIENT_SECONDS)
        until(lambda: len(job.ready("worker")) == workers, "all are back", PATIENT_SECONDS)
    assert statuses.most_bytes < STATUS_BYTES
    assert job.status["failures"]["worker"] == 0
    check_memory(operator)


@pytest.mark.full
def test_silent_coordinators_are_asked_twenty_at_once_and_those_that_answer_in_time(
    operator: MeasuredOperator, namespaces: list[str], coordinators: StandInCoordinators
) -> None:
    namespace = namespaces[3]
    clear(operator, namespace)
    answering = run_with_coordinators(
        operator,
        coordinators,
        namespace,
        "answers",
        range(5),
        seconds_per_iteration=7.0,
        seconds=PATIENT_SECONDS,
    )
    silent = run_with_coordinators(
        operator,
        coordinators,
        namespace,
        "silent",
        range(100, 160),
        seconds_per_iteration=None,
        seconds=PATIENT_SECONDS,
    )
    quiet = measure_quiet(operator, namespace, answering, 60.0)
    assert 10 <= silent.most_at_once <= AT_ONCE
    assert silent.longest_patience <= PATIENCE_SECONDS
    # Five seconds between two questions, and what a busy machine takes.
    assert quiet.longest_pause <= 8.0


@pytest.mark.full
def test_of_five_idle_minutes_nothing_is_written_but_progress(
    operator: MeasuredOperator, namespaces: list[str], kwok: Kwok, coordinators: StandInCoordinators
) -> None:
    namespace = namespaces[3]
    clear(operator, namespace)
    finish_jobs(operator, kwok, namespace, FINISHED, PATIENT_SECONDS)
    asked = run_with_coordinators(
        operator,
        coordinators,
        namespace,
        "runs",
        range(200, 200 + RUNNING),
        seconds_per_iteration=4.0,
        seconds=PATIENT_SECONDS,
    )
    quiet = measure_quiet(operator, namespace, asked, IDLE_SECONDS)
    writes = quiet.requests.pop("patch dartesjobs/status")
    assert quiet.statuses.unlike_progress == []
    assert set(quiet.statuses.writes) == {f"runs-{number}" for number in range(200, 200 + RUNNING)}
    assert RUNNING <= writes <= RUNNING * (1 + quiet.seconds / WRITE_SECONDS)
    lists = sum(number for kind, number in quiet.requests.items() if kind.startswith("list "))
    # Of each kind and namespace one every five minutes, and one where a watch has started over.
    assert lists <= 2 * KINDS * len(namespaces), quiet.requests
    assert quiet.requests.total() == lists, quiet.requests
    check_memory(operator)
