"""Jobs in a queue of Kueue: held until there is quota, preempted and resumed, and deleted whole.

Pods run on fake nodes, since the queue and the operator see nothing but objects; `test_capacity.py` has a run
that trains.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from testcluster.extras.kueue import MANAGER, NAMESPACE

from .held import HeldCluster
from .jobs import Job, Object, uid, until
from .kwok_jobs import Kwok, spec_on_kwok
from .queues import FINALIZER, GATE, Queue
from .release import Release
from .releases import Releases
from .seen import see, see_phase

pytestmark = [pytest.mark.full, pytest.mark.timeout(900), pytest.mark.usefixtures("alone")]

WORKERS = 2
WORKER_CPU = "250m"
QUOTA = "500m"
"""Room for the workers of one job."""
FINAL_WORDS = (
    '{"iteration":20,"totalIterations":20,"epoch":2,"journalHash":"aa","weightDigest":"bb",'
    '"trainPassRate":0.9,"evalAccuracy":0.97,"incarnation":1}'
)


@pytest.fixture(scope="module")
def queue(cluster: HeldCluster, kueue: None, module_namespace: str) -> Iterator[Queue]:
    """A queue with room for one job's workers."""
    queue = Queue(cluster, QUOTA)
    queue.open_to(module_namespace)
    yield queue
    queue.remove()


@pytest.fixture(scope="module")
def operator(releases: Releases, kwok: Kwok, module_namespace: str) -> Release:
    """An operator whose jobs run on fake nodes."""
    return releases(module_namespace, kwok=True)


@pytest.fixture
def jobs(operator: Release, module_namespace: str, queue: Queue) -> Iterator["Jobs"]:
    """Makes jobs in the queue; all are gone, and their quota is free, when the next test begins."""
    jobs = Jobs(operator, module_namespace, queue)
    yield jobs
    jobs.remove()


class Jobs:
    """Call it for a new job in the queue."""

    def __init__(self, release: Release, namespace: str, queue: Queue) -> None:
        self.release = release
        self.namespace = namespace
        self.queue = queue
        self.made: list[Job] = []

    def __call__(self, name: str, **changes: Any) -> Job:
        """A job whose workers want all of the quota."""
        wanted = {"queueName": self.queue.name, "workers__minReplicas": WORKERS, **changes}
        job = Job.create(self.release.api, self.namespace, name, spec_on_kwok(**wanted))
        self.made.append(job)
        return job

    def remove(self) -> None:
        """Delete all and wait until nothing is left of them."""
        for job in self.made:
            if job.exists():
                job.delete()
        until(lambda: not left(self), f"nothing of the jobs is left, but {left(self)}", 60)
        until(lambda: self.queue.usage() == "0", "the quota is free", 30)


def left(jobs: Jobs) -> list[str]:
    """Names of jobs, pods and workloads in the namespace."""
    there = [job.name for job in jobs.made if job.exists()]
    objects = [*jobs.release.api.pods(jobs.namespace), *jobs.queue.workloads(jobs.namespace)]
    return [*there, *(str(each["metadata"]["name"]) for each in objects)]


def gated(job: Job) -> list[Object]:
    """Workers that the queue holds back."""
    return [pod for pod in job.live("worker") if {"name": GATE} in pod["spec"].get("schedulingGates", [])]


def wait_queued(job: Job, count: int = WORKERS) -> None:
    """Wait until so many workers are held back, and the status says so."""
    see(job, lambda: len(gated(job)) == count, f"{count} held workers")
    job.wait_condition("QuotaReserved", "False", "Queued", seconds=30)
    see_phase(job, "Queued")


def wait_running(job: Job, workers: int = WORKERS) -> None:
    """Wait until so many workers are ready, and the job runs."""
    see(job, lambda: len(job.ready("worker")) == workers, f"{workers} ready workers")
    see_phase(job, "Running")


def test_workers_are_held_until_another_job_has_ended(jobs: Jobs, kwok: Kwok) -> None:
    first = jobs("first")
    wait_running(first)
    assert first.condition("QuotaReserved")["status"] == "True"
    second = jobs("second")
    wait_queued(second)
    assert second.wait_ready("coordinator", 1), "the coordinator wants no quota, so it is there at once"
    words = second.condition("QuotaReserved")["message"]
    assert jobs.queue.name in words
    assert f"at least {WORKERS} workers" in words
    assert second.status["message"].startswith("Queued: ")
    held = {uid(pod) for pod in second.live("worker")}
    kwok.finish(first.live("coordinator")[0], message=FINAL_WORDS)
    first.wait_complete(seconds=60)
    wait_running(second)
    assert {uid(pod) for pod in second.live("worker")} == held, "pods that are let in are not made anew"
    reasons = [event["reason"] for event in second.events()]
    assert (reasons.count("Queued"), reasons.count("Admitted")) == (1, 1)
    assert second.status["failures"]["disruptions"] == 0


def test_a_job_trains_with_the_part_of_its_workers_that_the_quota_lets_in(jobs: Jobs) -> None:
    job = jobs("part", workers__replicas=3, workers__minReplicas=1)
    wait_running(job, WORKERS)
    assert len(gated(job)) == 1
    assert job.condition("QuotaReserved")["status"] == "True", "minReplicas are in"
    assert job.status["workers"]["pending"] == 1
    jobs.queue.set_quota("750m")
    try:
        wait_running(job, 3)
    finally:
        jobs.queue.set_quota(QUOTA)


def is_told_to_end(pod: Object) -> bool:
    """Whether Kueue has said on a pod that it takes its place away."""
    conditions = pod["status"].get("conditions", [])
    return ("TerminationTarget", "True") in {(each["type"], each["status"]) for each in conditions}


@pytest.mark.parametrize("slowly", [True, False], ids=["slow-to-end", "gone-at-once"])
def test_preempted_workers_are_disruptions_and_come_back_when_there_is_room_again(
    jobs: Jobs, kwok: Kwok, slowly: bool
) -> None:
    low = jobs("low", priorityClassName=jobs.queue.priority("low"))
    wait_running(low)
    victims = low.live("worker")
    before = {uid(pod) for pod in victims}
    with kwok.slow_to_end(victims if slowly else []):
        high = jobs("high", priorityClassName=jobs.queue.priority("high"))
        see(low, lambda: low.status["failures"]["disruptions"] == WORKERS, f"{WORKERS} disruptions")
        ending = [pod for pod in low.pods("worker") if uid(pod) in before]
        assert not slowly or [is_told_to_end(pod) for pod in ending] == [True] * WORKERS
    wait_running(high)
    wait_queued(low)
    assert not before & {uid(pod) for pod in low.live("worker")}
    assert low.status["failures"]["worker"] == 0
    assert low.status["lastFailure"]["counted"] is False
    assert "preempt" in low.status["lastFailure"]["message"].lower(), "in Kueue's words"
    assert low.ready("coordinator"), "the coordinator waits for its workers"
    high.delete()
    wait_running(low)
    assert low.status["failures"]["worker"] == 0


def test_a_suspended_job_gives_its_quota_back_and_queues_again(jobs: Jobs) -> None:
    first = jobs("suspended")
    wait_running(first)
    second = jobs("waiting")
    wait_queued(second)
    first.patch({"suspend": True})
    first.wait_condition("Suspended", seconds=60)
    wait_running(second)
    first.patch({"suspend": False})
    wait_queued(first)
    second.delete()
    wait_running(first)


def test_a_deleted_job_is_gone_though_kueue_has_finalizers_on_its_pods(jobs: Jobs) -> None:
    running = jobs("running")
    wait_running(running)
    held = jobs("held")
    wait_queued(held)
    pods = [pod for job in (running, held) for pod in job.live("worker")]
    assert all(FINALIZER in pod["metadata"].get("finalizers", []) for pod in pods)
    for job in (running, held):
        job.delete()
    until(lambda: not left(jobs), f"nothing is left, but {left(jobs)}", 60)


def test_while_kueue_is_away_a_job_says_what_it_waits_for_and_goes_on_when_it_is_back(jobs: Jobs) -> None:
    running = jobs("ran-before")
    wait_running(running)
    with away(jobs.release):
        job = jobs("made-meanwhile")
        found = job.wait_condition("CoordinatorReady", "False", "WebhookUnavailable", seconds=60)
        assert "mpod.kb.io" in found["message"], "in the API server's words"
        assert job.status["message"].startswith("WebhookUnavailable: ")
        assert not job.pods("worker"), "nothing is made behind the webhook's back"
        assert len(running.ready("worker")) == WORKERS
    wait_queued(job)
    running.delete()
    wait_running(job)
    assert job.status["failures"]["coordinator"] == 0


@contextmanager
def away(release: Release) -> Iterator[None]:
    """Kueue's pod is gone, and comes back."""
    deployment, where = f"deployment/{MANAGER}", ("-n", NAMESPACE)
    release.kubectl("scale", deployment, "--replicas=0", *where)
    until(lambda: not release.api.pods(NAMESPACE), "Kueue is away", 60)
    try:
        yield
    finally:
        release.kubectl("scale", deployment, "--replicas=1", *where)
        release.kubectl("rollout", "status", deployment, "--timeout=90s", *where)
        release.cluster.start_extra("kueue")
