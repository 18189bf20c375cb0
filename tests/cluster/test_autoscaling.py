"""Workers by the number of nodes and pods that autoscalers grant: the operator asks, and takes what it gets.

The life of a node autoscaler is played on fake nodes. That training goes on meanwhile, and comes out the
same, is shown in `test_capacity.py`.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from .held import HeldCluster
from .jobs import Job, manifest, uid
from .kwok_jobs import Kwok, spec_on_kwok
from .node_pools import NodePool
from .release import Release
from .releases import Releases
from .seen import see, see_phase

pytestmark = pytest.mark.usefixtures("alone")

WORKERS = 4
PIECES = 2
"""Accelerators of a node: half of the workers fit on one."""


@pytest.fixture(scope="module")
def operator(releases: Releases, kwok: Kwok, module_namespace: str) -> Release:
    """An operator whose jobs run on fake nodes."""
    return releases(module_namespace, kwok=True)


@pytest.fixture
def pool(cluster: HeldCluster, kwok: Kwok) -> Iterator[NodePool]:
    """A pool without nodes."""
    pool = NodePool(cluster, PIECES)
    yield pool
    pool.remove_all()


@pytest.fixture
def job(operator: Release, module_namespace: str, pool: NodePool) -> Iterator[Job]:
    """A job that wants two nodes' workers and is content with one worker."""
    spec = spec_on_kwok(
        workers__replicas=WORKERS,
        workers__minReplicas=1,
        workers__gpusPerWorker=1,
        workers__gpuResourceName=pool.resource,
    )
    job = Job.create(operator.api, module_namespace, pool.name, spec)
    yield job
    job.delete()


def pending(job: Job) -> list[dict[str, Any]]:
    """Workers that a node autoscaler would make room for: it reads this very condition."""
    return [
        pod
        for pod in job.live("worker")
        for condition in pod["status"].get("conditions", [])
        if (condition["type"], condition["status"]) == ("PodScheduled", "False")
        if condition["reason"] == "Unschedulable"
    ]


def settled(job: Job, ready: int) -> bool:
    """Whether so many workers are ready, all others wait for a node, and the status says so."""
    told = job.status.get("workers", {})
    there = len(job.ready("worker")), len(pending(job))
    return there == (ready, WORKERS - ready) == (told.get("ready"), told.get("pending"))


def wait_settled(job: Job, ready: int) -> None:
    """Wait for that."""
    see(job, lambda: settled(job, ready), f"{ready} of {WORKERS} workers ready, the others waiting for nodes")


def test_pending_workers_are_a_node_autoscalers_signal_and_run_when_it_has_added_nodes(
    job: Job, pool: NodePool
) -> None:
    wait_settled(job, 0)
    condition = job.wait_condition("WorkersReady", "False", "Unschedulable", seconds=30)
    assert f"Insufficient {pool.resource}" in condition["message"], "in the scheduler's words"
    asked = {uid(pod) for pod in job.live("worker")}
    assert len(asked) == WORKERS, (
        "all workers are asked for at once, or an autoscaler adds one node at a time"
    )
    pool.add()
    wait_settled(job, PIECES)
    job.wait_condition("WorkersReady", seconds=30)
    see_phase(job, "Running")
    pool.add()
    wait_settled(job, WORKERS)
    assert {uid(pod) for pod in job.live("worker")} == asked, "pods that wait are not made anew"


def test_a_node_that_an_autoscaler_drains_and_removes_charges_nothing_and_is_asked_for_again(
    job: Job, pool: NodePool
) -> None:
    pool.add()
    spare = pool.add()
    wait_settled(job, WORKERS)
    on_spare = [pod for pod in job.live("worker") if pod["spec"]["nodeName"] == spare]
    (coordinator,) = job.live("coordinator")
    assert all(safe_to_evict(pod) == "true" for pod in on_spare), "else a worker pins its node"
    assert safe_to_evict(coordinator) == "false", "moving it would pause all workers"
    pool.drain(spare)
    wait_settled(job, WORKERS - PIECES)
    pool.remove(spare)
    failures = job.status["failures"]
    assert (failures["worker"], failures["coordinator"]) == (0, 0)
    assert uid(job.live("coordinator")[0]) == uid(coordinator)
    pool.add()
    wait_settled(job, WORKERS)


def safe_to_evict(pod: dict[str, Any]) -> str | None:
    """What a pod tells Cluster Autoscaler of itself."""
    annotations: dict[str, str] = pod["metadata"].get("annotations", {})
    return annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict")


def test_an_applied_manifest_without_replicas_leaves_an_autoscalers_number_alone(
    operator: Release, module_namespace: str
) -> None:
    spec = spec_on_kwok(workers__replicas=None, workers__maxReplicas=4)
    document = manifest("scaled", module_namespace, spec)
    operator.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    job = Job(operator.api, module_namespace, "scaled")
    job.wait_ready("worker", 1)
    scale = f"/apis/dartes.dev/v1alpha1/namespaces/{module_namespace}/dartesjobs/scaled/scale"
    operator.cluster.request("PATCH", scale, {"spec": {"replicas": 3}})
    job.wait_ready("worker", 3)
    operator.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    found = job.get()
    assert found["spec"]["workers"]["replicas"] == 3
    see(job, lambda: job.status["workers"]["replicas"] == 3, "3 workers in the status")
    told = operator.cluster.request("GET", scale)
    assert told["status"]["replicas"] == 3
    chosen = operator.api.pods(module_namespace, told["status"]["selector"])
    assert {uid(pod) for pod in chosen} == {uid(pod) for pod in job.live("worker")}, "what a HPA measures"
    words = operator.cluster.refused("scale", "dej/scaled", "--replicas=0", "-n", module_namespace)
    assert "greater than or equal to 1" in words, "an autoscaler can't end a run"
    writers = {entry["manager"]: entry.get("subresource") for entry in found["metadata"]["managedFields"]}
    assert [writers[name] for name in writers if "dartes" in name] == ["status"], "it never writes the spec"
    job.delete()
