"""What a local run does when one of its processes ends: restart, ignore or stop, always within a budget."""

import signal
from pathlib import Path

import pytest

from dartes.cli.policy import BUDGET_RESET_ITERATIONS, STUCK_AFTER_FAILURES, RestartPolicy, Verdict
from dartes.cli.supervisor import stop_error
from dartes.errors import ExitCode

KILLED = -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ExitCode.CONFIGURATION, Verdict.STOP),
        (ExitCode.DRAINED, Verdict.STOP),
        (ExitCode.TRANSIENT, Verdict.RESTART),
        (ExitCode.BUG, Verdict.RESTART),
        (KILLED, Verdict.RESTART),
    ],
)
def test_the_end_of_a_coordinator(code: int, verdict: Verdict) -> None:
    assert RestartPolicy(6, 32).coordinator_ended(code)[0] is verdict


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ExitCode.DONE, Verdict.IGNORE),
        (ExitCode.CONFIGURATION, Verdict.STOP),
        (ExitCode.DRAINED, Verdict.RESTART),
        (ExitCode.TRANSIENT, Verdict.RESTART),
        (ExitCode.BUG, Verdict.RESTART),
        (KILLED, Verdict.RESTART),
    ],
)
def test_the_first_end_of_a_worker(code: int, verdict: Verdict) -> None:
    assert RestartPolicy(6, 32).worker_ended("worker-0", code)[0] is verdict


def test_a_coordinator_is_restarted_as_often_as_the_job_says() -> None:
    policy = RestartPolicy(2, 32)
    verdicts = [policy.coordinator_ended(KILLED) for _ in range(3)]
    assert [verdict for verdict, _ in verdicts] == [Verdict.RESTART, Verdict.RESTART, Verdict.STOP]
    assert verdicts[-1][1] == ("the coordinator failed 3 times (spec.failurePolicy.coordinatorRestarts is 2)")


def test_workers_are_restarted_as_often_as_the_job_says() -> None:
    policy = RestartPolicy(6, 3)
    verdicts = [policy.worker_ended(f"worker-{k}", KILLED)[0] for k in range(4)]
    assert verdicts == [Verdict.RESTART] * 3 + [Verdict.STOP]


def test_progress_gives_workers_their_budget_back() -> None:
    policy = RestartPolicy(6, 1)
    policy.worker_ended("worker-0", KILLED)
    policy.progressed(BUDGET_RESET_ITERATIONS - 1)
    assert policy.worker_ended("worker-1", KILLED)[0] is Verdict.STOP
    policy.progressed(BUDGET_RESET_ITERATIONS)
    assert policy.worker_ended("worker-0", KILLED)[0] is Verdict.RESTART


def test_a_worker_that_fails_again_and_again_without_progress_stops_the_run() -> None:
    policy = RestartPolicy(6, 32)
    for _ in range(STUCK_AFTER_FAILURES - 1):
        assert policy.worker_ended("worker-0", ExitCode.TRANSIENT)[0] is Verdict.RESTART
    policy.progressed(1)
    for _ in range(STUCK_AFTER_FAILURES - 1):
        assert policy.worker_ended("worker-0", ExitCode.TRANSIENT)[0] is Verdict.RESTART
    verdict, why = policy.worker_ended("worker-0", ExitCode.TRANSIENT)
    assert (verdict, why) == (Verdict.STOP, "worker-0 failed 3 times in a row")


def test_being_killed_from_outside_is_no_sign_of_being_stuck() -> None:
    policy = RestartPolicy(6, 32)
    assert {policy.worker_ended("worker-0", KILLED)[0] for _ in range(10)} == {Verdict.RESTART}


def test_a_mistake_found_late_by_one_worker_does_not_end_the_others_work() -> None:
    policy = RestartPolicy(6, 32)
    policy.progressed(3)
    assert policy.worker_ended("worker-1", ExitCode.CONFIGURATION)[0] is Verdict.RESTART


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        (ExitCode.CONFIGURATION, 64, "no such model"),
        (
            ExitCode.TRANSIENT,
            75,
            "paused: why: no such model\nAll committed iterations are kept",
        ),
        (KILLED, 75, "paused: why: no such model"),
        (ExitCode.BUG, 1, "why: no such model\nThis is a bug in dartes or in an extension."),
    ],
)
def test_the_run_ends_with_the_code_that_says_what_to_do(code: int, expected: int, words: str) -> None:
    error = stop_error(code, "" if code == ExitCode.CONFIGURATION else "why", "no such model", Path("x.log"))
    assert error.exit_code == expected
    assert str(error).startswith(words)
    assert ("x.log" in str(error)) == (expected != 64)
