"""The budgets as chaos checks them: each kind of wrong charge is caught, and each right one is let pass."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.chaos.acts import Act
from tests.chaos.budgets import (
    MOST_STATUS_BYTES,
    KubeletStop,
    charged_in_all,
    check_writes,
    increments,
    uncounted,
    unexplained_ends,
)
from tests.chaos.log_lines import Windows

from .kit import Job, pod

A, B, C = "a" * 16, "b" * 16, "c" * 16


def check(job: Job) -> list[str]:
    return check_writes(job.story, job.lives, len(job.story.writes))


def ended(job: Job, uid: str, code: int, role: str = "worker", **how: Any) -> None:
    job.sees(pod(uid, role), "ADDED")
    job.sees(pod(uid, role, exit_code=code, **how))


def test_a_failure_that_is_charged_is_right() -> None:
    job = Job()
    ended(job, A, 137)
    job.writes(A, failures={"worker": 1})
    assert check(job) == []


def test_a_failure_that_is_not_charged_is_caught() -> None:
    job = Job()
    ended(job, A, 137)
    job.writes(A, failures={"worker": 0})
    (words,) = check(job)
    assert "0 failures of the worker were charged, and 1 are right" in words


def test_a_failure_that_is_charged_twice_is_caught() -> None:
    job = Job()
    ended(job, A, 137, "coordinator")
    job.writes(A, failures={"coordinator": 1})
    job.writes(failures={"coordinator": 2})
    (words,) = check(job)
    assert "1 failures of the coordinator were charged, and 0 are right" in words


def test_a_pod_that_is_accounted_for_twice_is_caught() -> None:
    job = Job()
    ended(job, A, 137)
    job.writes(A, failures={"worker": 1})
    job.forgets(A)
    job.writes(failures={"worker": 1})
    assert check(job) == []
    job.writes(A, failures={"worker": 2})
    assert check(job) == [f"a/red: pod {A[:13]} was accounted for twice"]


@pytest.mark.parametrize("let_go_first", [True, False])
def test_a_second_count_of_a_pod_that_was_gone_at_once_is_caught(let_go_first: bool) -> None:
    job = Job()
    job.sees(pod(A), "ADDED")
    if let_go_first:
        job.writes(A)
    job.sees(pod(A), "DELETED")
    if not let_go_first:
        job.writes(A, failures={"disruptions": 1})
    job.forgets(A)
    before = 0 if let_go_first else 1
    job.writes(failures={"disruptions": before})
    job.writes(A, failures={"disruptions": before + 1})
    assert check(job) == [f"a/red: pod {A[:13]} was accounted for twice"]


def test_a_pod_that_was_to_go_and_then_was_kept_is_accounted_for_anew_when_it_ends() -> None:
    job = Job()
    job.sees(pod(A), "ADDED")
    job.writes(A)
    job.forgets(A)
    job.writes()
    job.sees(pod(A, exit_code=137))
    job.writes(A, failures={"worker": 1})
    assert check(job) == []


def test_a_disruption_that_is_charged_is_caught() -> None:
    job = Job()
    job.sees(pod(A), "ADDED")
    job.sees(pod(A, leaving=True))
    job.sees(pod(A, leaving=True, exit_code=137))
    job.writes(A, failures={"worker": 1, "disruptions": 0})
    (words,) = check(job)
    assert "1 failures of the worker were charged, and 0 are right" in words


def test_a_disruption_that_is_counted_as_one_is_right() -> None:
    job = Job()
    job.sees(pod(A), "ADDED")
    job.sees(pod(A, leaving=True))
    job.writes(A, failures={"disruptions": 1})
    assert check(job) == []


def test_more_disruptions_than_pods_that_left_are_caught() -> None:
    job = Job()
    job.sees(pod(A), "ADDED")
    job.sees(pod(A, leaving=True))
    job.writes(A, failures={"disruptions": 2})
    (words,) = check(job)
    assert "2 disruptions" in words


def test_forgiven_failures_may_vanish_and_the_count_begins_anew() -> None:
    job = Job()
    ended(job, A, 137)
    job.writes(A, failures={"worker": 1, "workerSince": 3})
    job.writes(failures={"worker": 0, "workerSince": 3})
    ended(job, B, 137)
    job.writes(B, failures={"worker": 1, "workerSince": 20})
    ended(job, C, 1)
    # Forgiven and counted in one write.
    job.writes(C, failures={"worker": 1, "workerSince": 40})
    assert check(job) == []
    assert charged_in_all([job.story])["worker"] == 3


def test_increments_are_read_across_forgiveness() -> None:
    job = Job()
    for worker, since in ((0, 0), (2, 5), (0, 5), (1, 30), (1, 60), (1, 60)):
        job.writes(failures={"worker": worker, "workerSince": since})
    found = [increments(before, after)["worker"] for before, after in pairwise(job.story.writes)]
    assert found == [2, 0, 1, 1, 0]


def test_ends_after_a_suspension_are_accounted_for_and_not_charged() -> None:
    job = Job()
    ended(job, A, 137)
    job.writes(A, failures={"worker": 0}, phase="Suspending")
    assert check(job) == []


def test_a_charge_while_suspended_pods_leave_is_still_caught() -> None:
    job = Job()
    job.sees(pod(A), "ADDED")
    job.sees(pod(A, leaving=True))
    job.writes(A, failures={"worker": 1}, phase="Suspending")
    assert len(check(job)) == 1


def test_a_pod_that_was_let_go_alive_and_then_killed_may_go_uncharged() -> None:
    job = Job()
    job.sees(pod(A), "ADDED")
    job.writes(A)
    job.sees(pod(A, exit_code=137))
    assert check(job) == []


def test_an_accounted_pod_that_nobody_has_seen_is_caught() -> None:
    job = Job()
    job.writes(A)
    assert "nobody has seen it" in check(job)[0]


def test_nothing_is_said_of_charges_across_a_gap() -> None:
    job = Job()
    job.writes(failures={"coordinator": 1}, after_gap=True)
    assert check(job) == []


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"progress": {"iteration": 5}}, {"progress": {"iteration": 4}}, "went back from iteration 5 to 4"),
        ({"coordinator": {"incarnation": 3}}, {"coordinator": {"incarnation": 2}}, "incarnation went back"),
        ({}, {"conditions": [{"type": "Failed", "status": "True", "reason": "X"}]}, "the job failed: X"),
    ],
)
def test_what_must_not_happen_to_a_status_is_caught(
    before: dict[str, Any], after: dict[str, Any], words: str
) -> None:
    job = Job()
    job.writes(**before)
    job.writes(**after)
    (found,) = check(job)
    assert words in found


def test_a_status_that_is_too_large_is_caught() -> None:
    job = Job()
    job.writes(size=MOST_STATUS_BYTES + 1)
    assert "bytes" in check(job)[0]


def test_each_write_is_checked_once() -> None:
    job = Job()
    job.writes(failures={"coordinator": 1})
    assert len(check(job)) == 1
    job.writes(failures={"coordinator": 1})
    assert check(job) == []


def test_a_pod_that_fails_without_having_been_touched_is_caught() -> None:
    job = Job()
    ended(job, A, 1)
    assert "failed by itself: exit code 1" in unexplained_ends(job.story, job.lives, injected=set())[0]
    assert unexplained_ends(job.story, job.lives, injected={A}) == []


def stop(node: str = "node1", second: int = 0) -> KubeletStop:
    began = datetime(2026, 1, 1, 0, 0, second, 700_000, tzinfo=UTC)
    return KubeletStop(node, began, began + timedelta(seconds=1))


def gives_up(job: Job, uid: str, **how: Any) -> None:
    """The end of a pod whose kubelet was stopped while it started the container."""
    words = "failed to create shim task: context canceled"
    ended(job, uid, 128, **{"reason": "StartError", "message": words, **how})


@pytest.mark.parametrize("finished", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:06Z"])
def test_a_start_that_was_given_up_when_its_kubelet_was_stopped_is_explained(finished: str) -> None:
    job = Job()
    gives_up(job, A, finished=finished)
    assert unexplained_ends(job.story, job.lives, set(), [stop()]) == []


@pytest.mark.parametrize(
    "how",
    [
        {"node": "node2"},
        {"message": "no such file"},
        {"reason": "Error"},
        {"finished": "2025-12-31T23:59:59Z"},
        {"finished": "2026-01-01T00:00:07Z"},
        {"finished": ""},
    ],
)
def test_no_other_start_that_fails_is_explained_by_a_kubelet_that_was_stopped(how: dict[str, str]) -> None:
    job = Job()
    gives_up(job, A, **how)
    assert len(unexplained_ends(job.story, job.lives, set(), [stop()])) == 1


def test_a_start_that_was_given_up_is_a_disruption_and_no_failure() -> None:
    job = Job()
    gives_up(job, A)
    assert "never accounted for" in uncounted(job.story, job.lives)[0]
    job.writes(A, failures={"disruptions": 1})
    assert check(job) == []
    assert uncounted(job.story, job.lives) == []
    gives_up(job, B)
    job.writes(B, failures={"worker": 1, "disruptions": 2})
    assert "1 failures of the worker were charged, and 0 are right" in check(job)[0]
    gives_up(job, C)
    job.writes(C, failures={"worker": 1, "disruptions": 2})
    assert "0 disruptions were counted, and 1 pods whose start was given up" in check(job)[0]


def test_a_start_that_was_given_up_in_a_job_that_lets_go_may_go_uncounted() -> None:
    job = Job()
    gives_up(job, A)
    job.writes(A, phase="Suspending")
    assert check(job) == []


FULL = "/var/lib/dartes/run: the disk is full (database or disk is full); free some space"


def filled(began: int, ended: int) -> Windows:
    """One volume was filled in this second, and grown in that one, of the first minute."""
    windows = Windows()
    windows.begin(Act.VOLUME_FILLED, datetime(2026, 1, 1, 0, 0, began, tzinfo=UTC))
    windows.end(0, datetime(2026, 1, 1, 0, 0, ended, tzinfo=UTC))
    return windows


def test_a_coordinator_that_found_its_volume_full_is_neither_a_failure_nor_a_disruption() -> None:
    job = Job()
    ended(job, A, 75, "coordinator", message=FULL)
    assert "never accounted for" in uncounted(job.story, job.lives)[0]
    job.writes(A)
    assert check(job) == []
    assert uncounted(job.story, job.lives) == []
    ended(job, B, 75, "coordinator", message=FULL)
    job.writes(B, failures={"coordinator": 1})
    assert "1 failures of the coordinator were charged, and 0 are right" in check(job)[0]


def test_a_full_volume_is_explained_while_one_was_filled_and_not_else() -> None:
    job = Job()
    ended(job, A, 75, "coordinator", message=FULL, finished="2026-01-01T00:00:30Z")
    assert unexplained_ends(job.story, job.lives, set(), windows=filled(20, 40)) == []
    assert len(unexplained_ends(job.story, job.lives, set(), windows=filled(40, 50))) == 1
    assert len(unexplained_ends(job.story, job.lives, set())) == 1


@pytest.mark.parametrize(
    ("code", "role", "message"),
    [
        (1, "coordinator", FULL),
        (75, "worker", FULL),
        (75, "coordinator", FULL.replace("run", "elsewhere", 1)),
    ],
)
def test_no_other_end_is_explained_by_a_full_volume(code: int, role: str, message: str) -> None:
    job = Job()
    ended(job, A, code, role, message=message, finished="2026-01-01T00:00:30Z")
    assert len(unexplained_ends(job.story, job.lives, set(), windows=filled(20, 40))) == 1


def test_only_as_many_coordinators_as_were_told_to_may_kill_themselves() -> None:
    job = Job(strikes=1)
    ended(job, A, 137, "coordinator")
    assert unexplained_ends(job.story, job.lives, set()) == []
    ended(job, B, 137, "coordinator")
    assert len(unexplained_ends(job.story, job.lives, set())) == 1
    assert unexplained_ends(job.story, job.lives, {B}) == []


def test_a_worker_never_passes_for_a_coordinator_that_was_told_to() -> None:
    job = Job(strikes=5)
    ended(job, A, 137)
    assert len(unexplained_ends(job.story, job.lives, set())) == 1


def test_a_failure_that_is_never_accounted_for_is_caught() -> None:
    job = Job()
    job.writes()
    ended(job, A, 137)
    assert "never accounted for" in uncounted(job.story, job.lives)[0]
    job.writes(A, failures={"worker": 1})
    assert uncounted(job.story, job.lives) == []


def test_a_failure_before_a_suspension_may_go_unaccounted() -> None:
    job = Job()
    ended(job, A, 137)
    job.writes(phase="Suspending")
    assert uncounted(job.story, job.lives) == []
