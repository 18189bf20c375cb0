"""A lost node: its kubelet stops for good while its containers go on running.

Needs a cluster of its own with short node timers, so this file runs last.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from .jobs import Job, make_disturbed_engine, spec_of, uid, until, with_disturbed_engine
from .reference import Reference, assert_same_end, assert_same_history, run_undisturbed
from .release import Release

pytestmark = pytest.mark.timeout(900)

ITERATIONS = 180
PACE_SECONDS = 0.1
"""With 16 members on two workers an iteration takes at least 0.8 s; a lost node is replaced after 100 s."""


def spec() -> dict[str, Any]:
    """Long enough to miss a node in the middle, though the lost one goes on; the volume can follow."""
    spec = spec_of(
        es__iterations=ITERATIONS,
        es__populationSize=16,
        es__batchSize=64,
        evaluation={"sets": []},
        checkpoint={"volume": {"size": "64Mi", "storageClassName": "portable"}, "retentionPolicy": "Delete"},
    )
    spec["workers"] = with_disturbed_engine(spec["workers"], PACE_SECONDS)
    return spec


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The same job without a cluster."""
    return run_undisturbed("lost", spec(), tmp_path_factory.mktemp("reference"))


@pytest.fixture
def job(lossy_release: Release, reference: Reference) -> Iterator[Job]:
    """The job, running with both workers."""
    namespace = lossy_release.cluster.make_namespace()
    make_disturbed_engine(lossy_release.api, namespace)
    job = Job.create(lossy_release.api, namespace, "lost", spec())
    job.wait_ready("worker", 2)
    job.wait_rows(2)
    yield job
    job.delete()


def test_a_coordinator_on_a_lost_node_comes_back_elsewhere_and_the_late_old_one_is_fenced(
    lossy_release: Release, job: Job, reference: Reference
) -> None:
    old = job.live("coordinator")[0]
    node = old["spec"]["nodeName"]
    before = len(job.rows())
    lossy_release.cluster.stop_kubelet(node)
    try:
        fresh = until(
            lambda: [
                p for p in job.ready("coordinator") if uid(p) != uid(old) and p["spec"]["nodeName"] != node
            ],
            "a coordinator on another node",
            240,
        )
        assert fresh[0]["metadata"]["name"] == old["metadata"]["name"]
        rows = job.wait_rows(before + 3, 120)
        assert_same_history(rows, reference, at_least=before + 3)
        # The old process still runs on its node and has the volume; the store refuses its next commit.
        until(
            lambda: not lossy_release.container_runs(old, "coordinator"), "the old coordinator has left", 120
        )
        job.wait_complete(seconds=300)
        assert_same_end(job, reference)
        assert job.status["failures"]["coordinator"] == 0, "a lost node is a disruption"
        logs = lossy_release.container_log(old, "coordinator")
        assert "has taken over the run" in logs, "the old one tried to commit, and was refused"
    finally:
        # Other tests use the node.
        lossy_release.cluster.start_kubelet(node)
