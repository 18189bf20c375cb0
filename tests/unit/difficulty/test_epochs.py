"""Walking the epochs: every problem once as fresh, short last batches, the end of a run, purity."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from dartes.difficulty import DifficultyState, advance, draw_batch, estimated_iterations, one_stage, score
from dartes.ids import Iteration

from .runs import K0, batch_of, one_of_four, passes, run, settings, state_with_buffer


@given(st.integers(1, 40), st.integers(1, 12), st.floats(0, 1), st.integers(0, 2**64 - 1))
@example_settings(deadline=None, max_examples=60)
def test_each_epoch_visits_every_problem_exactly_once_as_fresh(
    problem_count: int, batch_size: int, ratio: float, seed: int
) -> None:
    chosen = settings(batch_size=batch_size, replay_ratio=ratio, seed=seed, epochs=3)
    fresh: Counter[tuple[int, int]] = Counter()
    for batch, _ in run(chosen, DifficultyState.new(problem_count), one_of_four):
        fresh.update((batch.epoch, j) for j in batch.problems[~batch.replayed].tolist())
    assert fresh == Counter((epoch, j) for epoch in range(3) for j in range(problem_count))


def test_without_replay_the_last_batch_of_an_epoch_is_short() -> None:
    batches = [
        batch for batch, _ in run(settings(replay=False, epochs=2), DifficultyState.new(10), one_of_four)
    ]
    assert [batch.size for batch in batches] == [4, 4, 2, 4, 4, 2]
    assert [batch.shares[0].starts_epoch for batch in batches] == [False, False, False, True, False, False]
    assert [batch.shares[0].cursor_after for batch in batches] == [4, 8, 10, 4, 8, 10]


def test_a_short_last_batch_takes_no_fresh_problem_of_the_next_epoch_and_keeps_its_replay_slots() -> None:
    chosen = settings(batch_size=10, replay_ratio=0.3)
    state = state_with_buffer(40)
    state.walks[0].cursor = 38
    batch = draw_batch(chosen, state, K0)
    assert batch is not None
    assert (batch.slots, batch.replay_count, batch.size, batch.shares[0].cursor_after) == (3, 3, 5, 40)
    assert batch.epoch == 0


def test_replay_takes_its_share_first_so_fewer_fresh_problems_than_left_may_be_taken() -> None:
    state = state_with_buffer(40)
    state.walks[0].cursor = 31
    batch = draw_batch(settings(batch_size=10, replay_ratio=0.3), state, K0)
    assert batch is not None
    assert (batch.size, batch.shares[0].cursor_after) == (10, 38)


def test_each_epoch_has_its_own_order() -> None:
    state = DifficultyState.new(50)
    first, second = (state.walks[0].order(1, 0, epoch).tolist() for epoch in (0, 1))
    assert first != second
    assert first != state.walks[0].order(2, 0, 0).tolist()
    assert first == state.walks[0].order(1, 0, 0).tolist()


def test_a_batch_is_shuffled() -> None:
    chosen = settings(batch_size=30, replay_ratio=0.5)
    batch = draw_batch(chosen, state_with_buffer(90), K0)
    assert batch is not None
    assert batch.replay_count == 15
    assert 3 <= batch.replayed[:15].sum() <= 12


def test_a_run_of_iterations_ends_after_them_and_one_of_epochs_after_its_last_short_batch() -> None:
    assert len(list(run(settings(iterations=7), DifficultyState.new(10), one_of_four))) == 7
    chosen = settings(epochs=1, replay=False)
    state = DifficultyState.new(10)
    assert len(list(run(chosen, state, one_of_four))) == 3
    assert (state.epoch, state.walks[0].cursor) == (0, 10)
    assert draw_batch(chosen, state, Iteration(3)) is None
    assert (
        draw_batch(dataclasses.replace(chosen, stages=one_stage(epochs=2)), state, Iteration(3)) is not None
    )


def test_a_batch_larger_than_the_data_set_holds_it_whole_and_replay_never_fires() -> None:
    chosen = settings(batch_size=16, replay_ratio=0.5, epochs=3)
    batches = [batch for batch, _ in run(chosen, DifficultyState.new(9), one_of_four)]
    assert [(batch.size, batch.replay_count) for batch in batches] == [(9, 0)] * 3


def test_a_batch_is_a_pure_function_of_settings_state_and_iteration() -> None:
    chosen = settings(replay_ratio=0.5, batch_size=6)
    state = DifficultyState.new(30)
    list(run(chosen, state, one_of_four, most=7))
    before = state.digest()
    twin = state.copy()
    batches = [draw_batch(chosen, s, Iteration(7)) for s in (state, state, twin)]
    later = draw_batch(chosen, state, Iteration(8))
    assert state.digest() == before
    assert later is not None
    problems = [batch.problems.tolist() for batch in batches if batch is not None]
    assert problems[0] == problems[1] == problems[2] != later.problems.tolist()


def test_a_replayed_run_gives_the_same_state_from_recorded_results() -> None:
    chosen = settings(replay_ratio=0.5, batch_size=6, epochs=4, seed=3)
    states = [DifficultyState.new(25), DifficultyState.new(25)]
    for state in states:
        for _ in run(chosen, state, lambda batch: [int(j) % 4 for j in batch.problems]):
            pass
    assert states[0].digest() == states[1].digest()


def test_a_copy_shares_nothing_and_a_digest_sees_every_value() -> None:
    state = state_with_buffer(5)
    for name in ("history", "latest", "visited", "zero_visits", "in_buffer", "replays", "last_replay"):
        twin = state.copy()
        assert twin.digest() == state.digest()
        array = getattr(twin, name)
        array[3] = not array[3] if array.dtype == np.bool_ else 7
        assert twin.digest() != state.digest(), name
    twin = state.copy()
    twin.walks[0].cursor = 1
    assert twin.digest() != state.digest()


def test_a_batch_drawn_from_another_state_is_not_committed() -> None:
    chosen = settings()
    state = DifficultyState.new(20)
    batch, scored = next(iter(run(chosen, state, one_of_four)))
    before = state.digest()
    with pytest.raises(ValueError, match="iteration 0 begins at epoch 0, problem 0; the state stands at"):
        advance(chosen, state, batch, scored)
    assert state.digest() == before


def test_replay_visits_are_booked_when_the_batch_is_committed() -> None:
    chosen = settings()
    state = state_with_buffer(20)
    state.walks[0].cursor = 0
    batch = dataclasses.replace(batch_of([3, 5], state, [True, False]), iteration=Iteration(9))
    advance(chosen, state, batch, score(chosen, state, batch, passes([1, 1])))
    assert (state.replays[3], state.last_replay[3]) == (1, 9)
    assert (state.replays[5], state.last_replay[5] < 0) == (0, True)


def test_the_replay_counts_restart_with_the_first_batch_of_an_epoch_and_the_last_replays_stay() -> None:
    chosen = settings(batch_size=4, replay_ratio=0.5)
    state = state_with_buffer(20)
    state.replays[:] = 2
    state.last_replay[:] = 80
    batch, _ = next(iter(run(chosen, state, one_of_four, start=90)))
    assert batch.shares[0].starts_epoch
    assert (state.epoch, int(state.replays.sum())) == (1, batch.replay_count)
    assert sorted(state.last_replay.tolist()) == [80] * 18 + [90] * 2


def test_the_number_of_iterations_is_known_or_projected() -> None:
    assert estimated_iterations(settings(iterations=12), DifficultyState.new(9), 3) == 12
    chosen = settings(epochs=5, batch_size=4, replay_ratio=0.5)
    state = DifficultyState.new(18)
    assert estimated_iterations(chosen, state, 0) == 25
    sizes = [
        estimated_iterations(chosen, state, k + 1) for k, _ in enumerate(run(chosen, state, one_of_four))
    ]
    assert sizes[-1] == len(sizes) > 25


def test_a_state_needs_a_problem() -> None:
    with pytest.raises(ValueError, match="problem_count = 0"):
        DifficultyState.new(0)
