"""The lives of pods: two in one slot are seen, and whose fault an end was is judged from the pod alone."""

import pytest

from tests.chaos.pods import Lives

from .kit import REVISION, pod

A, B = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"


def test_two_pods_in_one_slot_are_a_violation() -> None:
    lives = Lives()
    lives.saw_event("ADDED", pod(A))
    lives.saw_event("ADDED", pod(B))
    assert len(lives.violations) == 1
    assert "double child" in lives.violations[0]


@pytest.mark.parametrize(
    "before", [pod(A, leaving=True), pod(A, marked=True), pod(A, exit_code=137), pod(A, exit_code=0)]
)
def test_a_pod_that_leaves_or_has_ended_may_be_replaced(before: dict[str, object]) -> None:
    lives = Lives()
    lives.saw_event("ADDED", pod(A))
    lives.saw_event("MODIFIED", before)
    lives.saw_event("ADDED", pod(B))
    assert lives.violations == []


def test_a_pod_that_is_gone_may_be_replaced() -> None:
    lives = Lives()
    lives.saw_event("ADDED", pod(A))
    lives.saw_event("DELETED", pod(A))
    lives.saw_event("ADDED", pod(B))
    assert lives.violations == []


def test_pods_of_different_slots_and_roles_do_not_exclude_each_other() -> None:
    lives = Lives()
    for number, (role, index) in enumerate((("worker", "0"), ("worker", "1"), ("coordinator", ""))):
        lives.saw_event("ADDED", pod(f"{number}" * 16, role, index))
    assert lives.violations == []


def test_two_pods_in_one_slot_are_seen_in_a_list_too() -> None:
    lives = Lives()
    lives.saw_list("a", [pod(A), pod(B)])
    assert len(lives.violations) == 1


def test_a_pod_that_vanished_while_nobody_watched_is_gone_but_uncertain() -> None:
    lives = Lives()
    lives.saw_event("ADDED", pod(A))
    lives.saw_list("a", [pod(B)])
    assert lives.by_uid[A].gone
    assert lives.by_uid[A].uncertain
    assert lives.violations == [], "the one was gone before the other was made, for all that is known"


def test_another_namespaces_list_says_nothing_about_a_pod() -> None:
    lives = Lives()
    lives.saw_event("ADDED", pod(A))
    lives.saw_list("b", [])
    assert not lives.by_uid[A].gone


@pytest.mark.parametrize(
    ("ends", "least", "most"),
    [
        ([pod(A, exit_code=137)], 1, 1),
        ([pod(A, exit_code=1)], 1, 1),
        ([pod(A, exit_code=0)], 0, 0),
        ([pod(A, exit_code=76)], 0, 0),
        ([pod(A, exit_code=75)], 0, 1),
        ([pod(A, "coordinator", "", exit_code=75)], 1, 1),
        ([pod(A, leaving=True), pod(A, leaving=True, exit_code=137)], 0, 0),
        ([pod(A, marked=True), pod(A, marked=True, exit_code=137)], 0, 0),
        ([pod(A, leaving=True, exit_code=137)], 0, 0),
        ([pod(A, leaving=True)], 0, 0),
        ([pod(A, exit_code=137), pod(A, exit_code=137, leaving=True)], 0, 1),
    ],
)
def test_an_end_is_charged_where_the_process_failed_before_it_was_asked_to_go(
    ends: list[dict[str, object]], least: int, most: int
) -> None:
    lives = Lives()
    for number, manifest in enumerate([ends[0], *ends]):
        if number == 0:
            role = manifest["metadata"]["labels"]["dartes.dev/role"]  # type: ignore[index]
            lives.saw_event("ADDED", pod(A, role, ""))
            continue
        # Made before the test ran, so the revisions of the table's rows are put in order here.
        manifest["metadata"]["resourceVersion"] = str(next(REVISION))  # type: ignore[index]
        lives.saw_event("MODIFIED", manifest)
    assert lives.by_uid[A].charge(counted_at=next(REVISION)) == (least, most)


def test_a_deletion_after_the_count_does_not_excuse_it() -> None:
    lives = Lives()
    lives.saw_event("ADDED", pod(A))
    lives.saw_event("MODIFIED", pod(A, exit_code=137))
    counted_at = next(REVISION)
    lives.saw_event("MODIFIED", pod(A, exit_code=137, leaving=True))
    assert lives.by_uid[A].charge(counted_at) == (1, 1)


def test_nothing_definite_is_asked_of_a_pod_that_was_not_seen_all_the_time() -> None:
    lives = Lives()
    lives.saw_event("ADDED", pod(A))
    lives.saw_list("a", [pod(A, exit_code=137, leaving=True)])
    assert lives.by_uid[A].charge(next(REVISION)) == (0, 1)
