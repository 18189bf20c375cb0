"""Suspending and resuming: pods go, the state stays, the spec as it is then counts."""

from dataclasses import replace

from .kit import DEFAULTS, FINAL_WORDS, Cluster, job, running


def _suspended() -> Cluster:
    cluster = running()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.pass_by(10)
    cluster.leave_all()
    cluster.settle()
    return cluster


def test_suspending_deletes_every_pod_and_nothing_else() -> None:
    cluster = running()
    kept = {key for key in cluster.objects if key[0] != "Pod"}
    cluster.edit(suspend=True)
    found = cluster.step()
    assert found.status_first
    cluster.settle()
    assert cluster.status["phase"] == "Suspending"
    assert all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods().values())
    cluster.leave_all()
    cluster.settle()
    assert cluster.status["phase"] == "Suspended"
    assert cluster.condition("Suspended")["status"] == "True"
    assert set(cluster.objects) == kept
    assert cluster.status["failures"]["disruptions"] == 0


def test_resuming_starts_the_clock_again_and_uses_the_new_spec() -> None:
    cluster = _suspended()
    before = cluster.status["templateHash"]
    cluster.defaults = replace(DEFAULTS, worker_image="dartes/worker:2")
    cluster.edit(workers={"podTemplate": {"metadata": {"labels": {"team": "blue"}}}})
    cluster.settle()
    assert not cluster.pods()
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.status["lastResumeTime"] == "2026-03-01T12:00:12Z"
    assert cluster.status["templateHash"] != before
    assert [key[1] for key in cluster.objects if key[0] == "ConfigMap"] == [
        f"addition-run-{cluster.status['templateHash']}"
    ]
    worker = cluster.pod("addition-worker-0")
    assert worker["metadata"]["labels"]["team"] == "blue"
    assert worker["spec"]["containers"][0]["image"] == "dartes/worker:2"
    assert cluster.event_reasons()[-3:] == ["Resumed", "CoordinatorCreated", "WorkersCreated"]
    assert cluster.condition("Accepted")["reason"] == "Accepted"


def test_resuming_unchanged_keeps_the_run_config() -> None:
    cluster = _suspended()
    before = [value["metadata"] for key, value in cluster.objects.items() if key[0] == "ConfigMap"]
    cluster.edit(suspend=False)
    cluster.settle()
    assert [value["metadata"] for key, value in cluster.objects.items() if key[0] == "ConfigMap"] == before


def test_a_suspension_taken_back_half_way_is_carried_through_first() -> None:
    cluster = running()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.status["phase"] == "Suspending"
    cluster.leave_all()
    cluster.settle()
    assert set(cluster.pods()) == {"addition-coordinator", "addition-worker-0", "addition-worker-1"}
    assert all("deletionTimestamp" not in pod["metadata"] for pod in cluster.pods().values())


def test_a_job_created_suspended_makes_nothing_until_it_is_let_go() -> None:
    cluster = Cluster(job(suspend=True))
    cluster.settle()
    assert not cluster.objects
    assert cluster.status["phase"] == "Suspended"
    assert "startTime" not in cluster.status
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.pods()
    assert "lastResumeTime" not in cluster.status


def test_a_worker_on_a_lost_node_does_not_hold_up_a_suspension() -> None:
    cluster = running()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.vanish("addition-coordinator")
    cluster.vanish("addition-worker-1")
    cluster.pass_by(25 + 31)
    cluster.settle()
    assert cluster.status["phase"] == "Suspended"
    cluster.edit(suspend=False)
    cluster.settle()
    assert "addition-worker-0-1" in cluster.pods()
    assert cluster.status["failures"]["disruptions"] == 0


def test_policies_changed_during_a_suspension_are_written_on_resume() -> None:
    cluster = _suspended()
    cluster.edit(networkPolicy={"mode": "Strict"})
    cluster.settle()
    cluster.edit(suspend=False)
    cluster.settle()
    ports = str(cluster.objects[("NetworkPolicy", "addition-worker")]["spec"]["egress"])
    assert "443" in ports


def test_an_invalid_edit_does_not_resume_a_suspended_job() -> None:
    cluster = _suspended()
    cluster.edit(suspend=True, workers={"replicas": 0})
    cluster.settle()
    assert not cluster.pods()
    assert cluster.status["phase"] == "Suspended"
    assert cluster.condition("Accepted")["reason"] == "InvalidSpec"


def test_a_run_that_is_done_while_it_is_suspended_is_complete() -> None:
    cluster = running()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    assert cluster.status["phase"] == "Succeeded"


def test_pods_of_a_resume_cut_off_by_an_edit_leave_before_the_job_goes_on() -> None:
    cluster = _suspended()
    cluster.edit(suspend=False)
    cluster.crash(6)
    assert cluster.pods("coordinator")
    cluster.edit(checkpoint={"retentionPolicy": "Delete"})
    cluster.settle()
    assert cluster.status["phase"] == "Suspending"
    cluster.leave_all()
    cluster.settle()
    hashes = {pod["metadata"]["annotations"]["dartes.dev/template-hash"] for pod in cluster.pods().values()}
    assert hashes == {cluster.status["templateHash"]}
    assert cluster.status["failures"]["disruptions"] == 0
