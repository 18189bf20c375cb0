"""Scaling by hand: the bounds, the order of leaving, names and what is said."""

from dartes_operator.plan.finish import FAREWELL_SECONDS
from dartes_operator.plan.types import Delete

from .kit import FINAL_WORDS, running


def test_scaling_up_fills_the_next_slots() -> None:
    cluster = running()
    cluster.edit(workers={"replicas": 4})
    cluster.settle()
    assert set(cluster.pods("worker")) == {f"addition-worker-{index}" for index in range(4)}
    assert cluster.status["workers"]["desired"] == 4
    assert "ScaledUp" in cluster.event_reasons()


def test_scaling_down_drains_the_highest_first_and_counts_nothing() -> None:
    cluster = running(workers={"replicas": 4, "scaleDown": {"drainSeconds": 40}})
    cluster.edit(workers={"replicas": 2})
    found = cluster.step()
    deleted = [action for action in found.actions if isinstance(action, Delete)]
    assert [action.name for action in deleted] == ["addition-worker-3", "addition-worker-2"]
    assert {action.grace_seconds for action in deleted} == {45}
    assert found.status_first
    cluster.settle()
    assert cluster.status["workers"]["draining"] == 2
    cluster.leave_all()
    cluster.settle()
    assert cluster.status["failures"]["disruptions"] == 0
    assert cluster.event_reasons().count("ScaledDown") == 1


def test_replicas_are_kept_within_the_bounds_and_that_is_said_once() -> None:
    cluster = running(workers={"replicas": 9, "maxReplicas": 3})
    assert cluster.status["workers"]["desired"] == 3
    assert cluster.condition("WorkersScaled")["reason"] == "ScaleClamped"
    assert cluster.event_reasons().count("ScaleClamped") == 1
    cluster.edit(workers={"replicas": 1, "minReplicas": 2})
    cluster.settle()
    assert cluster.status["workers"]["desired"] == 2


def test_more_workers_than_leases_is_said() -> None:
    cluster = running(workers={"replicas": 5}, es={"populationSize": 2, "slicesPerMember": 2})
    condition = cluster.condition("WorkersScaled")
    assert (condition["status"], condition["reason"]) == ("True", "MoreThanHelp")
    assert "more than 4 help nothing" in condition["message"]


def test_a_worker_scaled_away_and_back_gets_a_free_name() -> None:
    cluster = running()
    cluster.edit(workers={"replicas": 1})
    cluster.settle()
    cluster.edit(workers={"replicas": 2})
    cluster.settle()
    assert set(cluster.pods("worker")) == {"addition-worker-0", "addition-worker-1", "addition-worker-1-1"}
    assert cluster.status["failures"]["disruptions"] == 0


def test_the_scale_subresource_finds_its_numbers() -> None:
    cluster = running()
    workers = cluster.status["workers"]
    assert (workers["replicas"], workers["ready"]) == (2, 2)
    uid = cluster.job["metadata"]["uid"]
    assert workers["selector"] == f"dartes.dev/job-uid={uid},dartes.dev/role=worker"


def test_a_thousand_workers_are_made_in_batches() -> None:
    cluster = running(workers={"replicas": 300})
    assert len(cluster.pods("worker")) == 300
    assert cluster.event_reasons().count("WorkersCreated") == 3


def test_a_finished_job_is_not_scaled() -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    cluster.pass_by(FAREWELL_SECONDS)
    cluster.settle()
    cluster.leave_all()
    cluster.edit(workers={"replicas": 5})
    cluster.settle()
    assert not cluster.pods("worker")
