"""Deadlines and the time to live."""

from typing import Any

from .kit import FINAL_WORDS, Cluster, job, running


def test_a_job_that_runs_too_long_fails() -> None:
    cluster = running(activeDeadlineSeconds=100)
    cluster.pass_by(97)
    cluster.settle()
    assert cluster.last is not None
    assert cluster.last.requeue_after == 1
    cluster.pass_by(1)
    cluster.settle()
    assert cluster.condition("Failed")["reason"] == "DeadlineExceeded"
    assert "DeadlineExceeded" in cluster.event_reasons()
    assert all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods().values())


def test_the_active_deadline_counts_from_the_last_resume() -> None:
    cluster = running(activeDeadlineSeconds=100)
    cluster.pass_by(90)
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    cluster.pass_by(1000)
    cluster.settle()
    assert cluster.status["phase"] == "Suspended"
    cluster.edit(suspend=False)
    cluster.settle()
    cluster.start_all()
    cluster.settle()
    cluster.pass_by(90)
    cluster.settle()
    assert cluster.status["phase"] == "Running"


def test_a_job_that_never_starts_fails_with_what_held_it_up() -> None:
    cluster = Cluster(job(startupDeadlineSeconds=60))
    cluster.settle()
    cluster.start_pod("addition-coordinator")
    for index in range(2):
        cluster.wait_pod(f"addition-worker-{index}", "ImagePullBackOff", "no such image")
    cluster.settle()
    cluster.pass_by(60)
    cluster.settle()
    assert cluster.condition("Failed")["reason"] == "StartupDeadlineExceeded"
    assert "no such image" in cluster.condition("Failed")["message"]


def test_a_job_that_has_run_is_not_held_to_the_startup_deadline() -> None:
    cluster = running(startupDeadlineSeconds=60)
    cluster.end_pod("addition-coordinator", 1)
    cluster.settle()
    cluster.pass_by(600)
    cluster.settle()
    assert cluster.condition("Failed") == {}


def test_time_in_a_queue_is_not_time_to_start() -> None:
    cluster = Cluster(job(queueName="team", startupDeadlineSeconds=60))
    cluster.settle()
    assert cluster.status["phase"] == "Queued"
    assert cluster.condition("QuotaReserved")["status"] == "False"
    cluster.pass_by(1000)
    cluster.settle()
    assert cluster.status["phase"] == "Queued"
    for pod in cluster.pods("worker").values():
        del pod["spec"]["schedulingGates"]
    cluster.settle()
    assert cluster.condition("QuotaReserved")["status"] == "True"
    cluster.pass_by(59)
    cluster.settle()
    assert cluster.condition("Failed") == {}
    cluster.pass_by(2)
    cluster.settle()
    assert cluster.condition("Failed")["reason"] == "StartupDeadlineExceeded"
    assert cluster.event_reasons().count("Queued") == cluster.event_reasons().count("Admitted") == 1


def _admit(cluster: Cluster) -> None:
    """The queue lets every worker in."""
    for pod in cluster.pods("worker").values():
        pod["spec"].pop("schedulingGates", None)


def _preempted() -> Cluster:
    """A job that has trained for a while, and whose workers the queue has taken away."""
    cluster = Cluster(job(queueName="team", startupDeadlineSeconds=60))
    cluster.settle()
    _admit(cluster)
    cluster.start_all()
    cluster.settle()
    assert cluster.status["phase"] == "Running"
    cluster.advance(3)
    cluster.settle()
    for name in cluster.pods("worker"):
        cluster.disrupt(name, reason="Preempted")
    cluster.settle()
    return cluster


def test_a_job_whose_workers_were_all_preempted_is_queued_again() -> None:
    cluster = _preempted()
    assert cluster.status["phase"] == "Queued"
    assert cluster.condition("QuotaReserved")["status"] == "False"
    assert cluster.status["message"].startswith("Queued: waiting in the queue team")


def test_a_preempted_job_is_held_to_no_startup_deadline_once_it_has_trained() -> None:
    cluster = _preempted()
    cluster.pass_by(1000)
    cluster.settle()
    _admit(cluster)
    cluster.settle()
    assert cluster.status["phase"] == "Restarting", "it has run before"
    cluster.pass_by(1000)
    cluster.settle()
    assert cluster.condition("Failed") == {}, "its nodes may take their time"
    cluster.start_all()
    cluster.settle()
    assert cluster.status["phase"] == "Running"


def test_a_finished_job_is_deleted_after_its_time_to_live() -> None:
    cluster = running(ttlSecondsAfterFinished=50)
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    assert cluster.last is not None
    assert cluster.last.requeue_after is not None
    assert not cluster.job_deleted
    cluster.pass_by(50)
    cluster.step()
    assert cluster.job_deleted


def _started_while_nobody_watched(**spec: Any) -> Cluster:
    """Pods that came up while no operator was there; the time to start has passed since."""
    cluster = Cluster(job(startupDeadlineSeconds=60, **spec))
    cluster.settle()
    assert cluster.status["phase"] == "Pending"
    cluster.pass_by(30)
    cluster.start_all()
    cluster.pass_by(600)
    return cluster


def test_a_job_whose_pods_are_ready_is_not_failed_after_an_outage_of_the_operator() -> None:
    cluster = _started_while_nobody_watched()
    cluster.settle()
    assert cluster.condition("Failed") == {}
    assert cluster.status["phase"] == "Running"


def test_a_job_that_has_committed_is_not_failed_where_its_pods_are_away_just_then() -> None:
    cluster = _started_while_nobody_watched()
    cluster.advance(3)
    cluster.vanish("addition-coordinator")
    cluster.settle()
    assert cluster.condition("Failed") == {}
    # Written by now: the answer itself may be lost.
    assert cluster.status["progress"]["iteration"] == 3
    cluster.progress = None
    cluster.settle()
    assert cluster.condition("Failed") == {}


def test_iterations_from_before_the_last_resume_do_not_count_as_a_start() -> None:
    cluster = running(startupDeadlineSeconds=60)
    cluster.advance(3)
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    cluster.pass_by(600)
    cluster.edit(suspend=False)
    cluster.settle()
    cluster.start_pod("addition-coordinator")
    # The coordinator has read its state, and no worker has come.
    cluster.advance(3, last_iteration_seconds=0.0)
    cluster.settle()
    cluster.pass_by(61)
    cluster.settle()
    assert cluster.condition("Failed")["reason"] == "StartupDeadlineExceeded"


def test_a_run_that_was_done_in_time_is_complete_also_where_that_is_seen_late() -> None:
    cluster = running(activeDeadlineSeconds=100)
    cluster.pass_by(50)
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.pass_by(100)
    cluster.settle()
    assert cluster.condition("Failed") == {}
    assert cluster.status["phase"] == "Succeeded"
