"""The good end, and the export after it."""

import pytest

from dartes_operator.plan.finish import FAREWELL_SECONDS
from dartes_operator.plan.types import Trouble

from .kit import FINAL_WORDS, Cluster, running

URI = "s3://bucket/model"


def _trained(**spec: object) -> Cluster:
    cluster = running(export={"destination": URI, "secretRef": {"name": "s3"}}, **spec)
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    cluster.pass_by(FAREWELL_SECONDS)
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    return cluster


def test_workers_may_take_leave_themselves_so_that_their_logs_stay() -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    assert cluster.status["phase"] == "Succeeded"
    assert not any("deletionTimestamp" in pod["metadata"] for pod in cluster.pods("worker").values())
    cluster.end_pod("addition-worker-0", 0)
    cluster.pass_by(FAREWELL_SECONDS - 1)
    cluster.settle()
    assert len(cluster.pods("worker")) == 2
    cluster.pass_by(1)
    cluster.settle()
    going = [name for name, pod in cluster.pods().items() if "deletionTimestamp" in pod["metadata"]]
    assert going == ["addition-worker-1"], "the one that left has its log; the other one holds a node"


def test_workers_that_never_ran_have_nothing_to_say_and_go_at_once() -> None:
    cluster = running()
    cluster.edit(workers={"replicas": 3})
    cluster.settle()
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    going = [name for name, pod in cluster.pods().items() if "deletionTimestamp" in pod["metadata"]]
    assert going == ["addition-worker-2"]


def test_workers_of_a_job_that_failed_go_at_once() -> None:
    cluster = running(activeDeadlineSeconds=60)
    cluster.pass_by(61)
    cluster.settle()
    assert cluster.condition("Failed")["reason"] == "DeadlineExceeded"
    assert all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods().values())


def test_the_export_runs_after_training_and_before_the_end() -> None:
    cluster = _trained()
    assert cluster.status["phase"] == "Completing"
    assert cluster.condition("Complete") == {}
    assert set(cluster.pods()) == {"addition-coordinator", "addition-export"}
    cluster.start_pod("addition-export")
    cluster.settle()
    cluster.end_pod("addition-export", 0, message=f'{{"uri":"{URI}","digest":"cc"}}')
    cluster.settle()
    assert cluster.status["phase"] == "Succeeded"
    assert cluster.status["export"]["uri"] == URI
    assert cluster.status["export"]["digest"] == "cc"
    assert cluster.event_reasons()[-3:] == ["Exported", "Completed", "RetainedVolume"]


def test_a_lost_coordinator_pod_does_not_undo_the_training() -> None:
    cluster = _trained()
    cluster.vanish("addition-coordinator")
    cluster.vanish("addition-export")
    cluster.settle()
    assert list(cluster.pods()) == ["addition-export"]


def test_a_failed_export_is_tried_three_times_and_then_fails_the_job() -> None:
    cluster = _trained()
    for _ in range(3):
        assert cluster.condition("Failed") == {}
        cluster.start_pod("addition-export")
        cluster.end_pod("addition-export", 75, message="no route to bucket")
        cluster.settle()
        cluster.pass_by(61)
        cluster.settle()
    condition = cluster.condition("Failed")
    assert condition["reason"] == "ExportFailed"
    assert "no route to bucket" in condition["message"]
    assert "addition-checkpoint" in condition["message"]
    assert cluster.status["failures"]["export"] == 3


def test_a_misconfigured_export_is_not_tried_again() -> None:
    cluster = _trained()
    cluster.start_pod("addition-export")
    cluster.end_pod("addition-export", 64, message="no such bucket")
    cluster.settle()
    assert cluster.condition("Failed")["reason"] == "ExportFailed"
    assert cluster.status["failures"]["export"] == 1


def test_a_disrupted_export_is_made_again_without_a_charge() -> None:
    cluster = _trained()
    cluster.start_pod("addition-export")
    cluster.disrupt("addition-export")
    cluster.settle()
    assert cluster.pod("addition-export")["status"]["phase"] == "Pending"
    assert cluster.status["failures"]["export"] == 0


def test_an_export_that_never_starts_does_not_hold_the_job_for_ever() -> None:
    cluster = _trained(startupDeadlineSeconds=100)
    cluster.pass_by(99 - FAREWELL_SECONDS)
    cluster.settle()
    assert cluster.status["phase"] == "Completing"
    cluster.pass_by(2)
    cluster.settle()
    assert cluster.condition("Failed")["reason"] == "ExportFailed"


def test_a_destination_set_during_the_run_is_used() -> None:
    cluster = running()
    cluster.edit(export={"destination": "pvc://models/addition", "iteration": "Last"})
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    command = cluster.pod("addition-export")["spec"]["containers"][0]["command"]
    assert command[command.index("--destination") + 1] == "pvc://models/addition"


@pytest.mark.parametrize(
    "message",
    [
        "",
        '{"iteration": 2.5, "epoch": true, "evalAccuracy": NaN}',
        "killed half-way through a line {",
        "[1, 2]",
        '"text"',
    ],
)
def test_last_words_that_are_no_json_object_do_not_matter(message: str) -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 0, message=message)
    cluster.settle()
    assert cluster.status["phase"] == "Succeeded"


def test_last_words_are_found_at_the_end_of_a_log() -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 0, message=f"some line\n{FINAL_WORDS}\n")
    cluster.settle()
    assert cluster.status["progress"]["iteration"] == 20
    assert cluster.condition("Complete")["message"] == "20 iterations"


def test_a_job_suspended_while_it_exports_exports_after_it_is_resumed() -> None:
    cluster = _trained()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    assert cluster.status["phase"] == "Suspended"
    cluster.edit(suspend=False)
    cluster.settle()
    assert list(cluster.pods()) == ["addition-export"]
    assert cluster.status["phase"] == "Completing"
    assert cluster.condition("Suspended")["status"] == "False"


def test_the_last_words_are_not_overwritten_by_an_older_answer() -> None:
    cluster = running()
    cluster.advance(17)
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    assert cluster.status["phase"] == "Succeeded"
    assert cluster.status["progress"]["iteration"] == 20
    assert cluster.status["checkpoint"]["lastIteration"] == 20


def test_a_coordinator_whose_end_is_told_before_its_pods_keeps_its_log() -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.pod("addition-coordinator")["status"]["phase"] = "Running"
    cluster.settle()
    assert cluster.status["phase"] == "Succeeded"
    assert "deletionTimestamp" not in cluster.pod("addition-coordinator")["metadata"]
    # Another container goes on and holds the node.
    cluster.pass_by(31)
    cluster.settle()
    assert "deletionTimestamp" in cluster.pod("addition-coordinator")["metadata"]


REFUSALS = [
    (Trouble.INVALID, "PodTemplateInvalid"),
    (Trouble.QUOTA_EXCEEDED, "QuotaExceeded"),
    (Trouble.FORBIDDEN, "Forbidden"),
    (Trouble.NAME_CONFLICT, "NameConflict"),
]


def _refused(trouble: Trouble) -> Cluster:
    cluster = running(export={"destination": URI}, startupDeadlineSeconds=100)
    # What took long before the end of training takes no time from the export.
    cluster.pass_by(1000)
    cluster.refuse = {"Pod/addition-export": (trouble, "the server's words")}
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    cluster.pass_by(FAREWELL_SECONDS)
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    cluster.pass_by(99 - FAREWELL_SECONDS)
    cluster.settle()
    assert cluster.status["phase"] == "Completing"
    return cluster


@pytest.mark.parametrize(("trouble", "reason"), REFUSALS)
def test_an_export_pod_that_is_refused_for_long_fails_the_job_in_the_servers_words(
    trouble: Trouble, reason: str
) -> None:
    cluster = _refused(trouble)
    writes = cluster.status_writes
    cluster.settle()
    assert cluster.status_writes == writes
    cluster.pass_by(2)
    cluster.settle()
    condition = cluster.condition("Failed")
    assert condition["reason"] == "ExportFailed"
    assert reason in condition["message"]
    assert "the server's words" in condition["message"]


@pytest.mark.parametrize(("trouble", "reason"), REFUSALS)
def test_an_export_pod_that_is_let_in_after_all_exports(trouble: Trouble, reason: str) -> None:
    cluster = _refused(trouble)
    assert reason in {cluster.condition(kind)["reason"] for kind in ("Accepted", "ResourcesReady")}
    cluster.refuse = {}
    cluster.settle()
    assert cluster.condition("ResourcesReady")["status"] == "True"
    cluster.start_pod("addition-export")
    cluster.pass_by(500)
    # Long after the end of training it is made once more, and that is no refusal.
    cluster.disrupt("addition-export")
    cluster.settle()
    assert cluster.pod("addition-export")["status"]["phase"] == "Pending"
    assert cluster.condition("Failed") == {}


def test_an_export_is_made_also_where_the_run_config_is_gone() -> None:
    cluster = running(export={"destination": URI})
    key = next(key for key in cluster.objects if key[0] == "ConfigMap")
    del cluster.objects[key]
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    assert cluster.condition("Failed") == {}
    assert key in cluster.objects
    assert "addition-export" in cluster.pods()
