"""Training while capacity comes and goes: nodes added and drained, spot storms, a HPA, a queue that preempts.

Each job must commit what an undisturbed run commits, row by row. One job goes through nodes and storms and
then ends; the others are compared as far as they get.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import pytest

from .held import Document, HeldCluster
from .jobs import Job, Object, make_disturbed_engine, spec_of, uid, until, with_disturbed_engine
from .lacking import lacking
from .queues import Queue
from .reference import MORE, Reference, assert_same_end, assert_same_history, goes_on, run_undisturbed
from .release import Release
from .releases import Releases
from .seen import see, see_phase, see_workers

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200), pytest.mark.usefixtures("alone")]

NAME = "long"
ITERATIONS = 200
PACE_SECONDS = 0.2
WORKERS = 4
"""Iterations that must follow a change before its test is content."""
SLOT = "capacity.example.com/slot"
"""What a node must have for a worker: a stand-in for its GPU."""
NODE = "capacity1"
STORMS = 5
STORM_SECONDS = 20.0
NAMESPACES = ("nodes", "hpa", "queue")
METRICS_SECONDS = 150.0
"""A HPA looks every 15 s unless told otherwise, at figures that are up to 30 s old, of ready pods."""


def long_spec(**changes: Any) -> dict[str, Any]:
    """Small members, and iterations of at least 0.8 s with four workers: the storms take 100 s."""
    spec = spec_of(
        es__iterations=ITERATIONS,
        es__populationSize=16,
        es__batchSize=64,
        evaluation={"everyIterations": 100, "sets": []},
        checkpoint={"volume": {"size": "64Mi", "storageClassName": "portable"}, "retentionPolicy": "Delete"},
        **changes,
    )
    spec["workers"] = with_disturbed_engine(spec["workers"], PACE_SECONDS)
    return spec


@dataclass(frozen=True)
class Stage:
    """Where the jobs of this file run."""

    release: Release
    namespaces: Mapping[str, str]

    @property
    def cluster(self) -> HeldCluster:
        """The cluster."""
        return self.release.cluster

    def job(self, where: str, **changes: Any) -> Job:
        """The long job, in one of the namespaces."""
        return Job.create(self.release.api, self.namespaces[where], NAME, long_spec(**changes))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The same job without a cluster."""
    return run_undisturbed(NAME, long_spec(), tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def stage(cluster: HeldCluster, releases: Releases, reference: Reference) -> Iterator[Stage]:
    """An operator that looks after a namespace for each of the tests."""
    if not cluster.can_change_nodes:
        lacking("nodes are added and extras started in this project's own test cluster alone")
    namespaces = {name: cluster.make_namespace(name) for name in NAMESPACES}
    try:
        release = releases(*namespaces.values())
        for namespace in namespaces.values():
            make_disturbed_engine(release.api, namespace)
        yield Stage(release, namespaces)
    finally:
        for namespace in namespaces.values():
            cluster.delete_namespace(namespace)


def offer(cluster: HeldCluster, node: str, count: int | None) -> None:
    """Let a node have so many slots; None takes them away."""
    slots = {SLOT: None if count is None else str(count)}
    body: Document = {"status": {"capacity": slots, "allocatable": slots}}
    cluster.request("PATCH", f"/api/v1/nodes/{node}/status", body)


@pytest.fixture(scope="module")
def job(stage: Stage) -> Iterator[Job]:
    """A job that wants four slots where each of the two nodes has one."""
    for node in ("node1", "node2"):
        offer(stage.cluster, node, 1)
    job = stage.job(
        "nodes",
        workers__replicas=WORKERS,
        workers__minReplicas=1,
        workers__resources={"limits": {SLOT: "1"}},
        workers__tolerations=[{"key": SLOT, "operator": "Exists"}],
    )
    yield job
    job.delete()
    for node in ("node1", "node2"):
        offer(stage.cluster, node, None)


def no_failure(job: Job) -> None:
    """Nothing was charged."""
    failures = job.status["failures"]
    assert (failures["worker"], failures["coordinator"]) == (0, 0), job.describe()


def test_training_goes_on_with_what_is_scheduled_while_a_node_comes_and_goes(
    stage: Stage, job: Job, reference: Reference
) -> None:
    see_workers(job, 2, WORKERS, 120)
    see_phase(job, "Running")
    goes_on(job, reference)
    stage.cluster.add_node(NODE)
    try:
        # Nobody else's pods are to go with it.
        stage.release.kubectl("taint", "node", NODE, f"{SLOT}=present:NoSchedule")
        offer(stage.cluster, NODE, 2)
        see_workers(job, WORKERS, WORKERS, 120)
        goes_on(job, reference)
        stage.release.kubectl(
            "drain", NODE, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s",
            "--pod-selector", f"dartes.dev/job-name={job.name}",
        )  # fmt: skip
    finally:
        stage.cluster.remove_node(NODE)
    see_workers(job, 2, WORKERS, 120)
    goes_on(job, reference)
    no_failure(job)
    assert job.status["failures"]["disruptions"] >= 2, "both workers of the drained node"


def test_spot_storms_that_take_half_of_the_workers_every_20_s_change_nothing(
    stage: Stage, job: Job, reference: Reference
) -> None:
    offer(stage.cluster, "node1", 2)
    offer(stage.cluster, "node2", 2)
    see_workers(job, WORKERS, WORKERS, 120)
    before, began = len(job.rows()), monotonic()
    for number in range(STORMS):
        known = len(job.rows())
        storm(job, with_notice=number % 2 == 0)
        wait_till(began + (number + 1) * STORM_SECONDS)
        assert len(job.rows()) > known, f"training went on in storm {number + 1}"
    rows = job.rows()
    assert len(rows) >= before + STORMS * MORE, "training went on between the storms"
    assert_same_history(rows, reference)
    see_workers(job, WORKERS, WORKERS, 120)
    no_failure(job)
    job.wait_complete(seconds=600)
    assert_same_end(job, reference)


def wait_till(moment: float) -> None:
    """Let time pass: what is awaited here is the clock."""
    until(lambda: monotonic() >= moment, "the time of the next storm", STORM_SECONDS + 5)


def storm(job: Job, *, with_notice: bool) -> None:
    """Half of the workers go: evicted, as where a cloud gives notice, or from one moment to the next."""
    victims = sorted(job.live("worker"), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    for pod in victims[: WORKERS // 2]:
        name = pod["metadata"]["name"]
        if with_notice:
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            job.api.core.create_namespaced_pod_eviction(name, job.namespace, eviction)
        else:
            job.api.core.delete_namespaced_pod(name, job.namespace, grace_period_seconds=0)


def autoscaler(percent: int) -> Object:
    """A HPA that keeps the workers' use of CPU at so many percent of what they request."""
    target = {"type": "Utilization", "averageUtilization": percent}
    at_once = {"stabilizationWindowSeconds": 0}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME},
        "spec": {
            "scaleTargetRef": {"apiVersion": "dartes.dev/v1alpha1", "kind": "DartESJob", "name": NAME},
            "minReplicas": 1,
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            "behavior": {"scaleUp": at_once, "scaleDown": at_once},
        },
    }


def test_an_hpa_scales_the_workers_up_and_down_and_nobody_fights_it(
    stage: Stage, reference: Reference, metrics_server: None
) -> None:
    job = stage.job("hpa", workers__replicas=None)
    path = f"/apis/autoscaling/v2/namespaces/{job.namespace}/horizontalpodautoscalers"
    see_workers(job, 1, 1, 120)
    stage.cluster.request("POST", path, autoscaler(percent=5))

    def wanted() -> int:
        return int(job.get()["spec"]["workers"]["replicas"])

    see(job, lambda: wanted() == 3, "scaled to 3", METRICS_SECONDS)
    see_workers(job, 3, 3, 120)
    goes_on(job, reference)
    stage.cluster.request("PATCH", f"{path}/{NAME}", {"spec": autoscaler(percent=100_000)["spec"]})
    see(job, lambda: wanted() == 1, "scaled to 1", METRICS_SECONDS)
    see_workers(job, 1, 1, 120)
    assert job.live("worker")[0]["metadata"]["labels"]["dartes.dev/worker-index"] == "0"
    goes_on(job, reference)
    no_failure(job)
    scaled = [event["message"] for event in job.events() if event["reason"] in ("ScaledUp", "ScaledDown")]
    assert len(scaled) <= 4, f"it settles: {scaled}"
    assert job.status["failures"]["disruptions"] == 0, "what is scaled away is no loss"
    job.delete()


def test_a_run_whose_workers_are_preempted_one_by_one_goes_on_where_it_was(
    stage: Stage, reference: Reference, kueue: None
) -> None:
    queue = Queue(stage.cluster, "500m")
    namespace = stage.namespaces["queue"]
    queue.open_to(namespace)
    low = {"queueName": queue.name, "priorityClassName": queue.priority("low")}
    job = stage.job("queue", **low)
    see_workers(job, 2, 2, 120)
    goes_on(job, reference)
    first = {uid(pod) for pod in job.live("worker")}
    for rival in ("one", "two"):
        queue.rival(namespace, rival, "250m")
        taken = 1 if rival == "one" else 2
        see_workers(job, 2 - taken, 2, 120)
        if taken == 1:
            goes_on(job, reference)
    see_phase(job, "Queued")
    stopped = len(job.rows())
    assert job.status["failures"]["disruptions"] == 2
    assert_same_history(job.rows(), reference)
    for rival in ("one", "two"):
        stage.release.api.core.delete_namespaced_pod(rival, namespace)
    see_workers(job, 2, 2, 120)
    assert not first & {uid(pod) for pod in job.live("worker")}
    goes_on(job, reference)
    assert len(job.rows()) > stopped
    no_failure(job)
    job.delete()
    until(lambda: not stage.release.api.pods(namespace), "the queue lets go of the pods", 60)
    queue.remove()
