"""Progress: rarely written, and a run that stands still is called stalled."""

from dartes.errors import RESTORED

from .kit import running


def test_progress_is_written_at_most_every_ten_seconds() -> None:
    cluster = running()
    cluster.advance(1)
    cluster.settle()
    writes = cluster.status_writes
    for iteration in range(2, 7):
        cluster.pass_by(1)
        cluster.advance(iteration)
        cluster.settle()
    assert cluster.status_writes == writes
    assert cluster.status["progress"]["iteration"] == 1
    assert cluster.last is not None
    assert cluster.last.requeue_after == 5
    cluster.pass_by(5)
    cluster.settle()
    assert cluster.status["progress"]["iteration"] == 6
    assert cluster.status["checkpoint"]["lastIteration"] == 6


def test_progress_comes_along_where_something_else_is_written() -> None:
    cluster = running()
    cluster.advance(1)
    cluster.settle()
    cluster.advance(2)
    cluster.end_pod("addition-coordinator", 1)
    cluster.settle()
    assert cluster.status["progress"]["iteration"] == 2


def test_a_mere_estimate_is_no_reason_to_write() -> None:
    cluster = running()
    cluster.advance(1)
    cluster.settle()
    writes = cluster.status_writes
    for seconds in (20.0, 10.0):
        cluster.pass_by(60)
        cluster.advance(1, estimated_remaining_seconds=seconds)
        cluster.settle()
    assert cluster.status_writes == writes


def test_a_run_without_an_iteration_for_long_is_stalled_and_recovers() -> None:
    cluster = running()
    cluster.advance(3)
    cluster.settle()
    assert cluster.condition("Progressing")["status"] == "True"
    cluster.pass_by(599)
    cluster.settle()
    assert cluster.condition("Progressing")["status"] == "True"
    cluster.pass_by(1)
    cluster.settle()
    assert cluster.condition("Progressing")["reason"] == "Stalled"
    assert cluster.event_reasons().count("Stalled") == 1
    cluster.advance(4)
    cluster.settle()
    assert cluster.condition("Progressing")["status"] == "True"


def test_long_iterations_are_not_called_stalled() -> None:
    cluster = running()
    cluster.advance(3, last_iteration_seconds=120.0)
    cluster.settle()
    cluster.pass_by(1199)
    cluster.settle()
    assert cluster.condition("Progressing")["status"] == "True"
    cluster.pass_by(1)
    cluster.settle()
    assert cluster.condition("Progressing")["reason"] == "Stalled"


def test_a_paused_run_says_why_once() -> None:
    cluster = running()
    cluster.advance(1, phase="PHASE_PAUSED", message="no space left on device")
    cluster.settle()
    cluster.settle()
    condition = cluster.condition("CheckpointHealthy")
    assert (condition["status"], condition["message"]) == ("False", "no space left on device")
    assert cluster.event_reasons().count("CheckpointFailed") == 1
    cluster.advance(2, phase="PHASE_RUNNING", message="")
    cluster.settle()
    assert cluster.condition("CheckpointHealthy")["status"] == "True"


def test_a_run_that_lost_its_newest_state_says_what_that_cost_once() -> None:
    cluster = running()
    cluster.advance(14)
    cluster.settle()
    lost = f"state.sqlite: damaged. The backup state-00000010.sqlite {RESTORED}: 10 iterations are kept"
    cluster.advance(10, incarnation=2, notes=("a warning about the data", lost))
    cluster.settle()
    cluster.advance(11)
    cluster.settle()
    condition = cluster.condition("CheckpointHealthy")
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "Restored", lost)
    assert cluster.event_reasons().count("Restored") == 1
    cluster.advance(12, incarnation=3, notes=())
    cluster.settle()
    assert cluster.condition("CheckpointHealthy")["reason"] == "Written"


def test_a_note_that_quotes_the_words_of_a_restored_state_is_none() -> None:
    cluster = running()
    cluster.advance(1, notes=(f"problem 7: the answer 'a hammer {RESTORED}: ok' has no number",))
    cluster.settle()
    assert cluster.condition("CheckpointHealthy")["reason"] == "Written"
    assert "Restored" not in cluster.event_reasons()


def test_an_agreed_digest_is_shown() -> None:
    cluster = running()
    cluster.advance(1)
    cluster.settle()
    assert cluster.condition("ReplicasConsistent")["status"] == "True"
    assert cluster.status["checkpoint"]["digest"] == "bb"
    assert cluster.status["workers"]["caughtUp"] == 2
    assert cluster.status["coordinator"]["incarnation"] == 1


def test_an_estimate_that_is_no_number_is_left_out() -> None:
    cluster = running()
    cluster.advance(1, estimated_remaining_seconds=float("inf"), train_pass_rate=float("nan"))
    cluster.settle()
    assert cluster.status["progress"]["iteration"] == 1
    assert "estimatedRemainingSeconds" not in cluster.status["progress"]
    assert "trainPassRate" not in cluster.status["progress"]


def test_the_stage_is_told_where_there_are_several() -> None:
    cluster = running()
    cluster.advance(1, stage=0, stages=1)
    cluster.settle()
    assert "stage" not in cluster.status["progress"]
    cluster.advance(2, stage=1, stages=3)
    cluster.pass_by(10)
    cluster.settle()
    assert (cluster.status["progress"]["stage"], cluster.status["progress"]["stages"]) == (2, 3)


def test_a_run_that_waits_for_its_rewards_says_so_once_and_does_not_blame_the_disk() -> None:
    cluster = running()
    message = "worker u: rewards are unavailable: reward service http://r/: connection refused, tried 3 times"
    cluster.advance(1, phase="PHASE_PAUSED", message=message)
    cluster.settle()
    cluster.advance(1, phase="PHASE_PAUSED", message=message.replace("3", "4"))
    cluster.pass_by(1200)
    cluster.settle()
    condition = cluster.condition("Progressing")
    assert (condition["status"], condition["reason"]) == ("False", "RewardUnavailable")
    assert condition["message"].endswith("tried 4 times")
    assert cluster.condition("CheckpointHealthy")["status"] == "True"
    assert cluster.event_reasons().count("RewardUnavailable") == 1
    assert "CheckpointFailed" not in cluster.event_reasons()
    cluster.advance(2, phase="PHASE_RUNNING", message="")
    cluster.settle()
    assert cluster.condition("Progressing")["status"] == "True"
