"""Pass rates, history, weights, fitness and coefficients, by hand-computed examples."""

import dataclasses
import math

import numpy as np
import pytest

from dartes.difficulty import DifficultyState, Results, score, sign_flip_share
from dartes.difficulty.score import coefficients_of, normalise

from .runs import batch_of, passes, settings, visit


def f32(value: float) -> float:
    return float(np.float32(value))


def test_a_pass_rate_is_the_share_of_members_that_passed() -> None:
    state = DifficultyState.new(3)
    scored = score(settings(), state, batch_of([0, 1, 2], state), passes([0, 1, 4]))
    assert scored.pass_rates.tolist() == [0.0, 0.25, 1.0]


def test_the_first_visit_sets_the_history_to_the_pass_rate() -> None:
    scored = visit(settings(), DifficultyState.new(1), 0, 1)
    assert np.isnan(scored.history_before).all()
    assert scored.history_after.tolist() == [0.25]


def test_later_visits_average_the_history_with_the_decay() -> None:
    scored = visit(settings(ema_decay=0.7), DifficultyState.new(1), 0, 1, 4)
    assert scored.history_before.tolist() == [0.25]
    assert scored.history_after.tolist() == [0.7 * 0.25 + (1 - 0.7) * 1.0]


def test_a_replay_visit_moves_the_history_like_a_fresh_one() -> None:
    fresh, replayed = DifficultyState.new(1), DifficultyState.new(1)
    visit(settings(), fresh, 0, 1, 3)
    visit(settings(), replayed, 0, 1, 3, replayed=True)
    assert fresh.history.tolist() == replayed.history.tolist()


def test_only_problems_of_the_batch_change() -> None:
    state = DifficultyState.new(3)
    visit(settings(), state, 1, 2)
    assert state.visited.tolist() == [False, True, False]
    assert np.isnan(state.history[[0, 2]]).all()


def test_weights_use_the_history_after_this_visit_and_are_neither_normalised_nor_clipped() -> None:
    chosen = settings(weight_floor=0.8, weight_exponent=3.0)
    scored = visit(chosen, DifficultyState.new(1), 0, 1, 4)
    assert scored.weights.dtype == np.float32
    assert scored.weights.tolist() == [f32(0.8 + math.exp(-3.0 * scored.history_after[0]))]
    assert visit(chosen, DifficultyState.new(1), 0, 0).weights.tolist() == [f32(1.8)]


def test_fitness_is_the_mean_of_weighted_scores_plus_the_unweighted_auxiliary_term() -> None:
    chosen = settings(population_size=2, auxiliary_weight=0.3)
    state = DifficultyState.new(2)
    scores = np.array([[0.5, 2.0], [1.0, -1.0]], dtype=np.float32)
    auxiliary = np.array([[1.0, 0.5], [0.0, 0.5]], dtype=np.float32)
    results = Results(np.array([[True, False], [True, True]]), scores, auxiliary)
    scored = score(chosen, state, batch_of([0, 1], state), results)
    w = [float(weight) for weight in scored.weights]
    assert scored.pass_rates.tolist() == [1.0, 0.5]
    assert scored.fitness.tolist() == [
        (w[0] * 0.5 + w[1] * 2.0) / 2 + 0.3 * 0.75,
        (w[0] * 1.0 - w[1] * 1.0) / 2 + 0.3 * 0.25,
    ]
    assert scored.raw.tolist() == [2.5 / 2 + 0.3 * 0.75, 0.0 + 0.3 * 0.25]


def test_scores_default_to_the_passes() -> None:
    state = DifficultyState.new(2)
    batch, results = batch_of([0, 1], state), passes([1, 3])
    explicit = Results(results.passed, results.passed.astype(np.float32))
    by_default, given = (score(settings(), state, batch, r) for r in (results, explicit))
    assert by_default.fitness.tolist() == given.fitness.tolist()


def test_pass_rates_come_from_passes_also_where_scores_are_given() -> None:
    state = DifficultyState.new(1)
    results = Results(passes([1]).passed, np.full((4, 1), 0.9, dtype=np.float32))
    assert score(settings(), state, batch_of([0], state), results).history_after.tolist() == [0.25]


def test_coefficients_are_alpha_over_n_times_z_rounded_once() -> None:
    chosen = settings(learning_rate=0.1, reweighting=False)
    state = DifficultyState.new(1)
    scored = score(chosen, state, batch_of([0], state), passes([1]))
    # Fitness 1, 0, 0, 0: mean 1/4, population variance 3/16.
    std = math.sqrt(3 / 16)
    z = [0.75 / (std + 1e-8), *[-0.25 / (std + 1e-8)] * 3]
    assert scored.normalised.tolist() == z
    assert scored.coefficients.dtype == np.float32
    assert scored.coefficients.tolist() == [f32(0.1 / 4 * value) for value in z]


def test_alpha_is_divided_by_n_before_it_multiplies_z() -> None:
    # A z for which the other order of the two operations ends on the other side of a float32 boundary.
    z = float.fromhex("-0x1.edb0ae263ffffp-2")
    expected = float.fromhex("-0x1.0d9ee4p-17")
    assert f32(0.0005 * z / 30) != expected
    chosen = settings(learning_rate=0.0005, population_size=30)
    assert coefficients_of(chosen, np.array([z])).tolist() == [expected]


def test_equal_fitness_gives_coefficients_of_exactly_zero() -> None:
    state = DifficultyState.new(3)
    scored = score(settings(population_size=6), state, batch_of([0, 1, 2], state), passes([0, 6, 6], 6))
    assert scored.coefficients.tobytes() == np.zeros(6, dtype=np.float32).tobytes()


def test_equal_fitness_whose_mean_rounds_away_from_it_still_normalises_to_zero() -> None:
    value, members = 0.7, 6
    assert math.fsum([value] * members) / members != value  # so its standard deviation is not 0
    assert normalise(np.full(members, value)).tolist() == [0.0] * members


@pytest.mark.parametrize("value", np.linspace(0.1, 1.9, 37).tolist())
def test_any_equal_fitness_normalises_to_zero(value: float) -> None:
    for members in range(1, 50):
        assert not normalise(np.full(members, value)).any()


def test_a_problem_that_all_or_none_pass_cancels_but_its_state_moves() -> None:
    state = DifficultyState.new(3)
    alone = score(settings(), state, batch_of([0], state), passes([1]))
    with_others = score(settings(), state, batch_of([0, 1, 2], state), passes([1, 0, 4]))
    np.testing.assert_allclose(with_others.normalised, alone.normalised, rtol=1e-6)
    assert with_others.history_after.tolist() == [0.25, 0.0, 1.0]


def test_results_do_not_depend_on_the_order_of_the_problems() -> None:
    state = DifficultyState.new(50)
    rng = np.random.default_rng(0)
    chosen = settings(population_size=8, batch_size=50)
    passed = rng.random((8, 50)) < rng.random(50)
    auxiliary = rng.random((8, 50)).astype(np.float32)
    order = rng.permutation(50)
    one = score(chosen, state, batch_of(list(range(50)), state), Results(passed, None, auxiliary))
    other = score(
        chosen, state, batch_of(order.tolist(), state), Results(passed[:, order], None, auxiliary[:, order])
    )
    assert one.coefficients.tobytes() == other.coefficients.tobytes()


def test_without_reweighting_every_weight_is_1_and_fitness_is_the_raw_reward() -> None:
    state = DifficultyState.new(2)
    scored = score(settings(reweighting=False), state, batch_of([0, 1], state), passes([1, 3]))
    assert scored.weights.tolist() == [1.0, 1.0]
    assert scored.fitness.tolist() == scored.raw.tolist()


def test_without_history_the_latest_pass_rate_decides_and_the_history_is_still_kept() -> None:
    chosen = settings(history=False, mastery_threshold=0.5)
    state = DifficultyState.new(1)
    scored = visit(chosen, state, 0, 0, 1)
    assert scored.history_after.tolist() == [0.7 * 0.0 + (1 - 0.7) * 0.25]
    assert scored.estimates.tolist() == [0.25]
    assert scored.weights.tolist() == [f32(0.8 + math.exp(-3.0 * 0.25))]
    assert state.in_buffer[0]
    visit(chosen, state, 0, 2)
    assert state.history[0] < 0.5
    assert not state.in_buffer[0]


def test_the_sign_flip_share_counts_members_whose_coefficient_would_point_the_other_way() -> None:
    state = DifficultyState.new(1)
    scored = score(settings(), state, batch_of([0], state), passes([2]))
    assert sign_flip_share(scored) == 0.0
    flipped = dataclasses.replace(
        scored,
        raw=np.array([0.0, 1.0, 2.0, 3.0]),
        normalised=normalise(np.array([0.0, 2.0, 1.0, 3.0])),
    )
    assert sign_flip_share(flipped) == 0.5
    equal = dataclasses.replace(flipped, raw=np.ones(4))
    assert sign_flip_share(equal) == 0.0


def test_results_of_the_wrong_shape_or_not_finite_are_refused() -> None:
    state = DifficultyState.new(2)
    with pytest.raises(ValueError, match=r"needs \(4, 2\)"):
        score(settings(), state, batch_of([0, 1], state), passes([1, 1], members=3))
    passed = passes([1, 1]).passed
    with pytest.raises(ValueError, match="scores: float32"):
        Results(passed, np.zeros((4, 3), dtype=np.float32))
    with pytest.raises(ValueError, match="auxiliary: every value must be finite"):
        Results(passed, None, np.full((4, 2), np.nan, dtype=np.float32))
    with pytest.raises(ValueError, match="passed: float64"):
        Results(passed.astype(np.float64))
