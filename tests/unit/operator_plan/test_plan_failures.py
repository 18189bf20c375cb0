"""What ended pods cost, and when they come back."""

from typing import Any

import pytest

from dartes.errors import DISK_FULL
from dartes.spec.crd.status import MOST_COUNTED
from dartes_operator.plan.endings import Verdict, ending_of
from dartes_operator.plan.pods import read_pod

from .kit import Cluster, running


def _pod(**changes: Any) -> Any:
    status = {
        "phase": changes.pop("phase", "Failed"),
        "reason": changes.pop("reason", ""),
        "message": changes.pop("message", ""),
        "conditions": [
            {"type": kind, "status": "True", "reason": "Told", "message": "words"}
            for kind in changes.pop("conditions", ())
        ],
    }
    if "code" in changes:
        state = {
            "exitCode": changes.pop("code"),
            "reason": changes.pop("container_reason", "Error"),
            "message": changes.pop("last_words", ""),
        }
        status["containerStatuses"] = [{"name": "worker", "state": {"terminated": state}}]
    meta: dict[str, Any] = {"name": "w", "uid": "u", "labels": {"dartes.dev/role": "worker"}}
    if changes.pop("terminating", False):
        meta["deletionTimestamp"] = "2026-03-01T12:00:25Z"
    assert not changes
    pod = read_pod({"metadata": meta, "spec": {}, "status": status})
    assert pod is not None
    return pod


@pytest.mark.parametrize(
    ("changes", "verdict", "reason"),
    [
        ({"code": 0, "phase": "Succeeded"}, Verdict.DONE, "Completed"),
        ({"code": 0, "phase": "Succeeded", "conditions": ("DisruptionTarget",)}, Verdict.DONE, "Completed"),
        ({"code": 64}, Verdict.CONFIGURATION, "InvalidConfiguration"),
        ({"code": 64, "terminating": True}, Verdict.CONFIGURATION, "InvalidConfiguration"),
        ({"code": 1}, Verdict.FAILED, "Error"),
        ({"code": 75}, Verdict.FAILED, "Transient"),
        ({"code": 76}, Verdict.DRAINED, "Drained"),
        ({"code": 137}, Verdict.FAILED, "Killed"),
        ({"code": 143}, Verdict.FAILED, "Killed"),
        ({"code": 137, "container_reason": "OOMKilled"}, Verdict.FAILED, "OOMKilled"),
        (
            {"code": 128, "container_reason": "StartError", "last_words": 'exec: "dartes": not found'},
            Verdict.FAILED,
            "StartError",
        ),
        (
            {"code": 128, "container_reason": "StartError", "last_words": "shim task: context canceled"},
            Verdict.REJECTED,
            "StartError",
        ),
        ({"code": 1, "last_words": "context canceled"}, Verdict.FAILED, "Error"),
        ({"code": 137, "container_reason": "ContainerStatusUnknown"}, Verdict.DISRUPTED, "NodeLost"),
        ({"code": 137, "conditions": ("DisruptionTarget",)}, Verdict.DISRUPTED, "Told"),
        ({"code": 76, "conditions": ("TerminationTarget",)}, Verdict.DISRUPTED, "Told"),
        ({"code": 1, "reason": "Evicted"}, Verdict.DISRUPTED, "Evicted"),
        ({"reason": "NodeLost"}, Verdict.DISRUPTED, "NodeLost"),
        ({"reason": "Preempted", "code": 76}, Verdict.DISRUPTED, "Preempted"),
        ({"reason": "Shutdown", "code": 1}, Verdict.DISRUPTED, "Shutdown"),
        ({"code": 76, "terminating": True}, Verdict.DISRUPTED, "Deleted"),
        ({"phase": "Running", "terminating": True}, Verdict.DISRUPTED, "Deleted"),
        ({"reason": "OutOfcpu"}, Verdict.REJECTED, "OutOfcpu"),
        ({"reason": "UnexpectedAdmissionError"}, Verdict.REJECTED, "UnexpectedAdmissionError"),
        ({}, Verdict.REJECTED, "NeverStarted"),
        ({"reason": "DeadlineExceeded"}, Verdict.FAILED, "DeadlineExceeded"),
        (
            {"reason": "Evicted", "message": 'Usage of EmptyDir volume "cache" exceeds the limit "1Gi"'},
            Verdict.FAILED,
            "Evicted",
        ),
    ],
)
def test_an_end_is_judged_by_what_the_platform_did_before_the_exit_code(
    changes: dict[str, Any], verdict: Verdict, reason: str
) -> None:
    ending = ending_of(_pod(**changes))
    assert ending is not None
    assert (ending.verdict, ending.reason) == (verdict, reason)


@pytest.mark.parametrize("changes", [{"phase": "Running"}, {"phase": "Pending"}])
def test_a_pod_that_works_or_is_only_marked_has_not_ended(changes: dict[str, Any]) -> None:
    assert ending_of(_pod(**changes)) is None
    assert ending_of(_pod(**changes, conditions=("DisruptionTarget",))) is None


def test_a_failure_is_counted_before_the_pod_is_replaced() -> None:
    cluster = running()
    cluster.end_pod("addition-worker-0", 1, message="boom")
    counting = cluster.step()
    assert counting.status_first
    assert counting.actions == ()
    assert counting.requeue_after == 0
    assert cluster.status["failures"]["worker"] == 1
    last = cluster.status["lastFailure"]
    assert (last["pod"], last["reason"], last["exitCode"]) == ("addition-worker-0", "Error", 1)
    assert (last["message"], last["counted"]) == ("boom", True)
    cluster.pass_by(1)
    cluster.settle()
    assert "addition-worker-0-1" in cluster.pods()
    assert cluster.status["failures"]["worker"] == 1
    assert cluster.event_reasons().count("WorkerFailed") == 1


def test_the_wait_after_failures_doubles_up_to_a_minute() -> None:
    cluster = running(failurePolicy={"coordinatorRestarts": 9})
    waits = []
    for _ in range(8):
        cluster.end_pod("addition-coordinator", 1)
        cluster.settle()
        waited = 0
        while "addition-coordinator" in cluster.pods("coordinator") and waited < 200:
            pod = cluster.pod("addition-coordinator")
            if pod["status"]["phase"] == "Pending":
                break
            assert cluster.last is not None
            assert cluster.last.requeue_after is not None
            waited += 1
            cluster.pass_by(1)
            cluster.settle()
        waits.append(waited)
        cluster.start_all()
        cluster.settle()
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_disruption_costs_nothing_and_is_replaced_at_once() -> None:
    cluster = running()
    cluster.disrupt("addition-worker-1")
    cluster.disrupt("addition-coordinator")
    cluster.settle()
    failures = cluster.status["failures"]
    assert (failures["worker"], failures["coordinator"], failures["disruptions"]) == (0, 0, 2)
    assert cluster.pod("addition-coordinator")["status"]["phase"] == "Pending"
    assert "addition-worker-1-1" in cluster.pods()
    assert cluster.status["lastFailure"]["counted"] is False
    assert cluster.status["coordinator"]["restarts"] == 1
    assert "WorkerDisrupted" in cluster.event_reasons()


def test_a_deleted_worker_is_replaced_under_another_name_while_it_leaves() -> None:
    cluster = running()
    cluster.delete_pod("addition-worker-0")
    cluster.settle()
    assert set(cluster.pods("worker")) == {"addition-worker-0", "addition-worker-0-1", "addition-worker-1"}
    assert cluster.status["failures"]["disruptions"] == 1
    cluster.leave_all()
    cluster.settle()
    assert cluster.status["failures"]["counted"] == []


def test_the_coordinator_waits_for_its_name_and_then_takes_it() -> None:
    cluster = running()
    cluster.delete_pod("addition-coordinator")
    cluster.settle()
    assert cluster.status["phase"] == "Restarting"
    assert cluster.condition("CoordinatorReady")["reason"] == "Restarting"
    cluster.pass_by(26)
    cluster.settle()
    assert cluster.condition("CoordinatorReady")["reason"] == "VolumeDetaching"
    cluster.pass_by(28)
    cluster.settle()
    assert "deletionTimestamp" in cluster.pod("addition-coordinator")["metadata"]
    cluster.pass_by(2)
    cluster.settle()
    assert "deletionTimestamp" not in cluster.pod("addition-coordinator")["metadata"]
    assert "CoordinatorRestarted" in cluster.event_reasons()


def test_misconfiguration_fails_the_job_at_once_in_the_pods_own_words() -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 64, message="spec.dataset: no such file")
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    assert cluster.status["phase"] == "Failed"
    assert cluster.condition("Failed")["reason"] == "InvalidConfiguration"
    assert cluster.condition("Failed")["message"] == "spec.dataset: no such file"
    assert list(cluster.pods()) == ["addition-coordinator"]


def test_a_workers_misconfiguration_counts_only_before_the_first_commit() -> None:
    early, late = running(), running()
    early.end_pod("addition-worker-0", 64, message="no such model")
    early.settle()
    assert early.condition("Failed")["reason"] == "InvalidConfiguration"
    late.advance(1)
    late.settle()
    late.end_pod("addition-worker-0", 64, message="no such model")
    late.settle()
    assert late.condition("Failed") == {}
    assert late.status["failures"]["worker"] == 1


def test_a_coordinator_that_finds_its_volume_full_comes_back_until_there_is_room_and_costs_nothing() -> None:
    cluster = running(failurePolicy={"coordinatorRestarts": 0})
    words = f"/var/lib/dartes/run: {DISK_FULL} (No space left on device); free some space"
    cluster.progress = None
    for _ in range(20):
        cluster.end_pod("addition-coordinator", 75, message=words)
        cluster.settle()
        healthy = cluster.condition("CheckpointHealthy")
        assert (healthy["status"], healthy["reason"], healthy["message"]) == ("False", "Paused", words)
        cluster.pass_by(14)
        cluster.settle()
        assert cluster.pod("addition-coordinator")["status"]["phase"] == "Failed", "it waits a while"
        cluster.pass_by(1)
        cluster.settle()
        cluster.leave_all()
        cluster.settle()
        cluster.start_all()
    assert cluster.condition("Failed") == {}
    assert cluster.status["failures"]["coordinator"] == 0
    assert cluster.status["lastFailure"]["reason"] == "VolumeFull"
    assert cluster.event_reasons().count("CheckpointFailed") == 1, "said once, however often it comes back"
    assert cluster.status["message"].startswith("Paused: /var/lib/dartes/run: the disk is full")
    cluster.advance(1)
    cluster.settle()
    assert cluster.condition("CheckpointHealthy")["status"] == "True"


@pytest.mark.parametrize("place", ["/var/lib/dartes/run", "/var/lib/dartes/run/backups"])
def test_a_full_run_folder_is_known_wherever_in_it_the_coordinator_wrote(place: str) -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 75, message=f"{place}: {DISK_FULL} (database or disk is full)")
    cluster.settle()
    assert cluster.status["lastFailure"]["reason"] == "VolumeFull"
    assert cluster.status["failures"]["coordinator"] == 0


@pytest.mark.parametrize(
    "words",
    [
        f"/tmp/hub/x.parquet: {DISK_FULL} (No space left on device); free some space there",
        f"/var/lib/dartes/runs: {DISK_FULL}",
        f"{DISK_FULL} (No space left on device); free some space there",
        f"the model of /var/lib/dartes/run: {DISK_FULL}",
        "/var/lib/dartes/run: damaged",
    ],
)
def test_a_coordinator_that_finds_another_disk_full_fails_as_any_other(words: str) -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 75, message=words)
    cluster.settle()
    assert cluster.status["failures"]["coordinator"] == 1
    assert cluster.status["lastFailure"]["reason"] == "Transient"


def test_a_worker_with_a_full_disk_fails_as_any_other() -> None:
    cluster = running()
    cluster.end_pod("addition-worker-0", 75, message=f"/tmp: {DISK_FULL}")
    cluster.settle()
    assert cluster.status["failures"]["worker"] == 1


def test_a_coordinator_that_fails_too_often_fails_the_job() -> None:
    cluster = running(failurePolicy={"coordinatorRestarts": 1})
    for _ in range(2):
        cluster.end_pod("addition-coordinator", 1, message="boom")
        cluster.settle()
        cluster.pass_by(61)
        cluster.settle()
        cluster.start_all()
    assert cluster.condition("Failed")["reason"] == "CoordinatorRestartsExceeded"
    assert "boom" in cluster.condition("Failed")["message"]
    assert "spec.failurePolicy.coordinatorRestarts" in cluster.condition("Failed")["message"]


def _fail_worker(cluster: Cluster) -> None:
    name = next(n for n, pod in cluster.pods("worker").items() if pod["status"]["phase"] == "Running")
    cluster.end_pod(name, 1)
    cluster.settle()
    cluster.pass_by(61)
    cluster.settle()
    cluster.start_all()
    cluster.settle()


def test_worker_failures_are_forgiven_after_ten_iterations() -> None:
    cluster = running(failurePolicy={"workerFailures": 2})
    for iteration in (5, 15, 25, 35):
        cluster.advance(iteration)
        _fail_worker(cluster)
        _fail_worker(cluster)
        assert cluster.status["phase"] == "Running"
    _fail_worker(cluster)
    assert cluster.condition("Failed")["reason"] == "WorkerFailuresExceeded"


def test_disruptions_have_a_limit_only_where_one_is_set() -> None:
    for limit, phase in ((None, "Running"), (2, "Failed")):
        cluster = running(failurePolicy={"maxDisruptions": limit})
        for _ in range(3):
            name = next(n for n, p in cluster.pods("worker").items() if p["status"]["phase"] == "Running")
            cluster.disrupt(name)
            cluster.settle()
            cluster.start_all()
            cluster.settle()
        assert cluster.status["phase"] == phase


def test_a_worker_that_gave_up_while_the_coordinator_was_away_is_not_charged() -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 1)
    cluster.end_pod("addition-worker-0", 75)
    cluster.settle()
    assert cluster.status["failures"]["worker"] == 0
    assert cluster.status["failures"]["coordinator"] == 1


def test_a_worker_that_lost_something_else_is_charged() -> None:
    cluster = running()
    cluster.pass_by(5)
    cluster.end_pod("addition-worker-0", 75)
    cluster.settle()
    assert cluster.status["failures"]["worker"] == 1


def test_the_last_failed_worker_is_kept_and_older_ones_are_deleted() -> None:
    cluster = running()
    for _ in range(3):
        _fail_worker(cluster)
        cluster.pass_by(1)
    failed = [n for n, pod in cluster.pods("worker").items() if pod["status"]["phase"] == "Failed"]
    assert failed == [cluster.status["lastFailure"]["pod"]]


def test_a_worker_that_left_as_done_comes_back_only_where_the_run_goes_on() -> None:
    cluster = running()
    cluster.end_pod("addition-worker-0", 0)
    cluster.settle()
    assert len(cluster.pods("worker")) == 2
    cluster.pass_by(31)
    cluster.settle()
    assert "addition-worker-0-1" in cluster.pods("worker")
    assert cluster.status["failures"]["worker"] == 0


def test_a_status_stays_small_when_very_many_workers_are_lost_at_once() -> None:
    cluster = running(workers={"replicas": MOST_COUNTED + 100})
    for name in list(cluster.pods("worker")):
        cluster.delete_pod(name)
    for _ in range(20):
        cluster.step()
    assert (
        cluster.status["failures"]["disruptions"]
        == len(cluster.status["failures"]["counted"])
        == MOST_COUNTED
    )
    assert len(repr(cluster.status)) < 12_000
    cluster.leave_all()
    for _ in range(10):
        cluster.step()
        assert len(cluster.status["failures"]["counted"]) <= MOST_COUNTED
    assert len(cluster.pods("worker")) == MOST_COUNTED + 100
    cluster.pass_by(61)
    cluster.step()
    assert cluster.status["failures"]["counted"] == []
