"""Admission to the replay buffer, the two ways out of it, and re-entry."""

import pytest

from dartes.difficulty import DifficultyState, MembershipChange, score

from .runs import batch_of, passes, settings, visit

ADMITTED, MASTERED = MembershipChange.ADMITTED, MembershipChange.MASTERED
ZERO_PASS, UNCHANGED = MembershipChange.ZERO_PASS, MembershipChange.UNCHANGED


@pytest.mark.parametrize(
    ("counts", "inside", "change"),
    [
        pytest.param([1], True, ADMITTED, id="sometimes passed: in"),
        pytest.param([1, 1], True, UNCHANGED, id="in stays in"),
        pytest.param([0], False, UNCHANGED, id="never passed: not in"),
        pytest.param([4], False, UNCHANGED, id="mastered at once: never in"),
        pytest.param([2], False, UNCHANGED, id="exactly the threshold is mastered"),
        pytest.param([1, 4, 4], False, MASTERED, id="history reaches the threshold: out"),
        pytest.param([0, 4], True, ADMITTED, id="one good visit does not master: the history decides"),
        pytest.param([1, 0], True, UNCHANGED, id="one visit without a pass stays in"),
        pytest.param([1, 0, 0], False, ZERO_PASS, id="two without a pass: out"),
        pytest.param([1, 0, 1, 0], True, UNCHANGED, id="a pass restarts the count"),
        pytest.param([1, 0, 0, 0], False, UNCHANGED, id="out stays out"),
        pytest.param([0, 0, 1], True, ADMITTED, id="from no pass to in"),
        pytest.param([1, 0, 0, 1], True, ADMITTED, id="back in after zero passes"),
        pytest.param([1, 4, 4, 0], False, UNCHANGED, id="a mastered one without a pass is not let in"),
        pytest.param([1, 4, 4, 0, 1], True, ADMITTED, id="back in after mastery"),
        pytest.param([1, 0, 0, 0, 0, 1, 0], True, UNCHANGED, id="re-entry starts a new count"),
    ],
)
def test_membership_after_visits(counts: list[int], inside: bool, change: MembershipChange) -> None:
    state = DifficultyState.new(1)
    scored = visit(settings(mastery_threshold=0.5, zero_pass_patience=2), state, 0, *counts)
    assert state.in_buffer.tolist() == [inside]
    assert scored.changes == (change,)
    assert scored.buffer_size == state.buffer_size == int(inside)


def test_mastery_is_looked_at_before_the_zero_count() -> None:
    state = DifficultyState.new(1)
    visit(settings(mastery_threshold=0.9, zero_pass_patience=1), state, 0, 3)
    assert state.in_buffer[0]
    # History 0.525 after this visit: above a threshold of 0.5, so both rules call for an exit.
    scored = visit(settings(mastery_threshold=0.5, zero_pass_patience=1), state, 0, 0)
    assert scored.changes == (MASTERED,)


def test_a_threshold_of_zero_masters_everything_even_without_a_pass() -> None:
    state = DifficultyState.new(1)
    visit(settings(mastery_threshold=0.0), state, 0, 0, 1)
    assert not state.in_buffer[0]


@pytest.mark.parametrize("patience", [1, 2, 3, 4])
def test_the_zero_count_reaches_the_patience(patience: int) -> None:
    state = DifficultyState.new(1)
    chosen = settings(zero_pass_patience=patience)
    visit(chosen, state, 0, 1)
    for _ in range(patience - 1):
        visit(chosen, state, 0, 0)
        assert state.in_buffer[0]
    assert visit(chosen, state, 0, 0).changes == (ZERO_PASS,)


def test_the_zero_count_lives_across_epochs_and_counts_visits_outside_the_buffer() -> None:
    state = DifficultyState.new(2)
    chosen = settings(zero_pass_patience=3)
    visit(chosen, state, 0, 0, 0)
    state.walks[0].epoch += 1
    state.walks[0].cursor = 0
    visit(chosen, state, 0, 0)
    assert state.zero_visits.tolist() == [3, 0]


def test_a_batch_reports_every_change_and_the_buffers_size() -> None:
    state = DifficultyState.new(4)
    chosen = settings(population_size=4)
    for problem, counts in ((0, (1,)), (1, (1, 0)), (2, (1, 3))):
        visit(chosen, state, problem, *counts)
    assert state.in_buffer.tolist() == [True, True, True, False]
    scored = score(chosen, state, batch_of([3, 2, 1, 0], state), passes([1, 4, 0, 1]))
    assert scored.changes == (ADMITTED, MASTERED, ZERO_PASS, UNCHANGED)
    assert scored.buffer_size == 2


def test_without_replay_the_buffer_stays_empty() -> None:
    state = DifficultyState.new(1)
    scored = visit(settings(replay=False), state, 0, 1)
    assert scored.changes == (UNCHANGED,)
    assert state.buffer_size == scored.buffer_size == 0
