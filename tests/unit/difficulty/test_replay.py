"""Which problems may fill a replay slot, how many slots there are, and how they are drawn."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from dartes.difficulty import Batch, DifficultyState, draw_batch, eligible_problems
from dartes.difficulty.weighted import draw_weights, draw_without_replacement
from dartes.ids import Iteration

from .runs import K0, one_of_four, run, settings, state_with_buffer, upcoming


def drawn(batch: Batch | None) -> Batch:
    assert batch is not None
    return batch


@pytest.mark.parametrize(
    ("batch_size", "ratio", "slots"),
    [
        (256, 0.20, 51),
        (200, 0.20, 40),
        (5, 0.5, 2),  # 2.5 rounds to even
        (7, 0.5, 4),  # 3.5 rounds to even
        (10, 0.25, 2),
        (4, 1.0, 3),  # at most B - 1: every batch walks on through the epoch
        (1, 1.0, 0),
        (4, 0.0, 0),
    ],
)
def test_the_slots_are_the_rounded_share_of_a_full_batch(batch_size: int, ratio: float, slots: int) -> None:
    assert settings(batch_size=batch_size, replay_ratio=ratio).replay_slots(batch_size) == slots


def test_without_replay_there_is_no_slot_and_nobody_is_eligible() -> None:
    chosen = settings(replay=False, replay_ratio=1.0)
    state = state_with_buffer(20)
    assert chosen.replay_slots(4) == 0
    assert eligible_problems(chosen, state, K0).size == 0
    assert drawn(draw_batch(chosen, state, K0)).replay_count == 0


def test_only_problems_in_the_buffer_are_eligible() -> None:
    state = state_with_buffer(20)
    state.in_buffer[::2] = False
    eligible = eligible_problems(settings(batch_size=1), state, K0)
    assert set(eligible.tolist()) == set(range(1, 20, 2)) - {int(upcoming(settings(), state, 1)[0])}


def test_a_problem_at_the_mastery_threshold_is_not_eligible() -> None:
    state = state_with_buffer(20)
    state.history[:10] = 0.5
    state.latest[10:] = 0.5
    assert eligible_problems(settings(batch_size=1), state, K0).min() >= 10
    assert eligible_problems(settings(batch_size=1, history=False), state, K0).max() < 10


def test_the_next_full_batch_of_fresh_problems_is_not_eligible_even_where_fewer_are_taken() -> None:
    chosen = settings(batch_size=4, replay_ratio=0.5)
    state = state_with_buffer(20)
    state.walks[0].cursor, state.walks[0].epoch = 6, 1
    window = upcoming(chosen, state, 1)[6:10].tolist()
    assert sorted(set(range(20)) - set(window)) == eligible_problems(chosen, state, K0).tolist()
    batch = drawn(draw_batch(chosen, state, K0))
    assert sorted(batch.problems[~batch.replayed].tolist()) == sorted(window[:2])
    assert batch.shares[0].cursor_after == 8


def test_the_window_stops_at_the_epochs_end() -> None:
    chosen = settings(batch_size=4)
    state = state_with_buffer(20)
    state.walks[0].cursor, state.walks[0].epoch = 18, 1
    window = set(upcoming(chosen, state, 1)[18:].tolist())
    assert len(window) == 2
    assert set(eligible_problems(chosen, state, K0).tolist()) == set(range(20)) - window


def test_the_window_of_a_new_epoch_is_its_first_problems() -> None:
    chosen = settings(batch_size=4)
    state = state_with_buffer(20)  # epoch 0 is walked through
    window = set(upcoming(chosen, state, 1)[:4].tolist())
    assert set(eligible_problems(chosen, state, K0).tolist()) == set(range(20)) - window


@given(st.integers(1, 30), st.integers(1, 12), st.floats(0, 1), st.integers(0, 2**64 - 1), st.data())
@example_settings(deadline=None, max_examples=200)
def test_no_problem_occurs_twice_in_a_batch_whatever_the_state(
    problem_count: int, batch_size: int, ratio: float, seed: int, data: st.DataObject
) -> None:
    chosen = settings(batch_size=batch_size, replay_ratio=ratio, seed=seed)
    state = state_with_buffer(problem_count)
    state.walks[0].cursor = data.draw(st.integers(0, problem_count))
    batch = drawn(draw_batch(chosen, state, Iteration(data.draw(st.integers(0, 2**40)))))
    assert len(set(batch.problems.tolist())) == batch.size >= 1


@pytest.mark.parametrize("cooldown", [0, 1, 2, 5])
def test_a_problem_rests_for_the_cooldown_after_a_replay(cooldown: int) -> None:
    chosen = settings(batch_size=1, cooldown_iterations=cooldown)
    state = state_with_buffer(20)
    problem = int(upcoming(chosen, state, 1)[-1])
    state.last_replay[problem] = 7

    def may_replay(iteration: int) -> bool:
        return problem in eligible_problems(chosen, state, Iteration(iteration))

    assert [may_replay(7 + since) for since in range(1, 8)] == [since > cooldown for since in range(1, 8)]


def test_the_cap_counts_replays_of_this_epoch_only() -> None:
    chosen = settings(batch_size=1, max_visits_per_epoch=2)
    state = state_with_buffer(20)
    state.replays[:] = np.arange(20) % 4
    within = set(np.flatnonzero(state.replays < 2).tolist())
    state.walks[0].cursor = 19
    window = int(upcoming(chosen, state, 0)[19])
    assert set(eligible_problems(chosen, state, K0).tolist()) == within - {window}
    state.walks[0].cursor = 20  # the next batch opens an epoch
    assert eligible_problems(chosen, state, K0).size == 19


def test_a_cap_of_zero_forbids_replay_also_at_an_epochs_start() -> None:
    assert eligible_problems(settings(max_visits_per_epoch=0), state_with_buffer(20), K0).size == 0


def test_replays_never_exceed_the_cap_in_an_epoch_nor_break_the_cooldown() -> None:
    chosen = settings(batch_size=5, replay_ratio=0.8, epochs=4, cooldown_iterations=2, max_visits_per_epoch=2)
    per_epoch: Counter[tuple[int, int]] = Counter()
    last: dict[int, int] = {}
    for batch, _ in run(chosen, DifficultyState.new(40), one_of_four):
        for problem in batch.problems[batch.replayed].tolist():
            per_epoch[batch.epoch, problem] += 1
            assert batch.iteration - last.get(problem, -1000) > 2
            last[problem] = batch.iteration
    assert max(per_epoch.values()) == 2
    assert {epoch for epoch, _ in per_epoch} == {0, 1, 2, 3}


def test_the_cooldown_goes_on_into_the_next_epoch_and_the_cap_does_not() -> None:
    chosen = settings(batch_size=4, cooldown_iterations=100, max_visits_per_epoch=1)
    state = state_with_buffer(20)
    state.replays[:] = 1
    state.last_replay[:10] = 50
    eligible = eligible_problems(chosen, state, Iteration(60))
    assert eligible.size > 0
    assert eligible.min() >= 10


def test_fresh_visits_start_no_cooldown_and_count_towards_no_cap() -> None:
    state = DifficultyState.new(12)
    list(run(settings(replay_ratio=0.0), state, one_of_four, most=3))
    assert not state.replays.any()
    # Iteration 3 follows at once on the visits of iteration 2, under a long cooldown and a cap of one.
    chosen = settings(cooldown_iterations=100, max_visits_per_epoch=1, batch_size=1)
    assert eligible_problems(chosen, state, Iteration(3)).size == 11


def test_fresh_problems_fill_the_slots_that_replay_cannot() -> None:
    chosen = settings(batch_size=6, replay_ratio=0.5)
    state = state_with_buffer(30)
    rare = upcoming(chosen, state, 1)[-1]
    state.in_buffer[:] = False
    state.in_buffer[rare] = True
    batch = drawn(draw_batch(chosen, state, K0))
    assert (batch.slots, batch.eligible_count, batch.replay_count, batch.size) == (3, 1, 1, 6)
    assert batch.problems[batch.replayed].tolist() == [rare]
    assert batch.shares[0].cursor_after == 5


def test_the_replay_share_is_drawn_without_looking_at_reweighting() -> None:
    state = state_with_buffer(30)
    state.history[:] = np.linspace(0, 0.49, 30)
    batches = [drawn(draw_batch(settings(reweighting=on), state, K0)) for on in (True, False)]
    assert batches[0].problems.tolist() == batches[1].problems.tolist()


def test_harder_problems_are_drawn_in_proportion_to_their_weight() -> None:
    chosen = settings(batch_size=10, replay_ratio=0.1, weight_exponent=3.0)
    state = state_with_buffer(200)
    easy = np.arange(200) % 2 == 0
    state.history[easy] = 0.4
    state.history[~easy] = 0.0
    picks = []
    for k in range(2000):
        batch = drawn(draw_batch(chosen, state, Iteration(k)))
        picks.append(int(batch.problems[batch.replayed][0]))
    eligible = eligible_problems(chosen, state, K0)
    easy_count = int(easy[eligible].sum())
    expected = easy_count * math.exp(-1.2) / (easy_count * math.exp(-1.2) + eligible.size - easy_count)
    assert np.mean(easy[picks]) == pytest.approx(expected, abs=0.03)


def test_draw_weights_are_integers_of_32_bits_and_never_zero() -> None:
    assert draw_weights(np.array([0.0, 1.0, 400.0]), 3.0).tolist() == [
        2**32,
        round(math.exp(-3.0) * 2**32),
        1,
    ]


@pytest.mark.parametrize(
    ("words", "picks"), [([0, 0], [0, 1]), ([2, 4], [0, 2]), ([3, 3], [1, 2]), ([7, 3], [2, 1])]
)
def test_a_weighted_draw_picks_the_candidate_whose_interval_holds_the_integer(
    words: list[int], picks: list[int]
) -> None:
    # The first integer is below 3 + 1 + 4; the second is among the candidates that are left.
    weights = np.array([3, 1, 4], dtype=np.int64)
    source = iter(words)
    assert draw_without_replacement(weights, 2, lambda: next(source)).tolist() == picks
    assert weights.tolist() == [3, 1, 4]


@given(st.lists(st.integers(1, 2**32), min_size=1, max_size=3000), st.integers(0, 2**32))
@example_settings(deadline=None, max_examples=30)
def test_a_weighted_draw_equals_the_plain_walk_over_many_blocks(weights: list[int], seed: int) -> None:
    words = np.random.default_rng(seed).integers(0, 2**63, size=50).tolist()
    remaining = iter(words)
    count = min(len(weights), len(words))
    picks = draw_without_replacement(np.array(weights, dtype=np.int64), count, lambda: next(remaining))
    left = list(enumerate(weights))
    for word, pick in zip(words[:count], picks.tolist(), strict=True):
        rest = word % sum(w for _, w in left)
        place = 0
        while rest >= left[place][1]:
            rest -= left[place][1]
            place += 1
        assert left.pop(place)[0] == pick


def test_more_draws_than_candidates_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot draw 2 of 1"):
        draw_without_replacement(np.array([1], dtype=np.int64), 2, lambda: 0)
