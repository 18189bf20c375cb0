"""Several data sets in a batch, several stages in a run, and rules of fitness by data set: by example."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.difficulty import (
    AlgorithmSettings,
    Batch,
    DifficultyState,
    Results,
    SetSettings,
    StageSettings,
    advance,
    draw_batch,
    estimated_iterations,
    judge,
    member_seeds,
    score,
)
from dartes.difficulty.settings import stream_key
from dartes.errors import ConfigurationError
from dartes.ids import Iteration
from dartes.noise.streams import Purpose, shuffled
from dartes.quotas import quotas
from dartes.tasks.rules import Fitness, GradingRules

from .runs import K0, one_of_four, passes, run, settings

PASS, SCORE = GradingRules(), GradingRules(Fitness.SCORE)


def mixed(*weights: float, epochs: int = 1, **values: Any) -> AlgorithmSettings:
    sets = tuple(SetSettings(weight) for weight in weights)
    return settings(stages=(StageSettings(sets=sets, epochs=epochs),), **values)


def staged(*stages: StageSettings, **values: Any) -> AlgorithmSettings:
    return settings(stages=stages, **values)


# Quotas --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch_size", "weights", "expected"),
    [
        (10, [1.0], (10,)),
        (10, [1.0, 1.0], (5, 5)),
        (10, [3.0, 1.0], (8, 2)),  # 7.5 and 2.5: a tie goes to the lower index
        (7, [1.0, 1.0, 1.0], (3, 2, 2)),
        (10, [1.0, 2.0, 4.0], (1, 3, 6)),  # 1.43, 2.86, 5.71
        (3, [100.0, 1.0], (3, 0)),
        (10, [0.1, 0.2], (3, 7)),
    ],
)
def test_quotas_are_by_largest_remainder(
    batch_size: int, weights: list[float], expected: tuple[int, ...]
) -> None:
    assert quotas(batch_size, weights) == expected


@given(st.integers(1, 4096), st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=16))
def test_quotas_add_up_and_are_within_one_of_the_exact_share(batch_size: int, weights: list[float]) -> None:
    counts = quotas(batch_size, weights)
    assert sum(counts) == batch_size
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - batch_size * weight / sum(weights)) < 1 + 1e-6


def test_a_set_that_gets_no_problem_of_a_batch_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"stage 0, set 1: weight 1\.0 of a batch of 4 rounds to no"):
        mixed(100.0, 1.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"iterations": 1, "epochs": 1}, "set exactly one"),
        ({}, "set exactly one"),
        ({"iterations": -1}, "iterations = -1"),
        ({"epochs": 1, "sets": ()}, "0 data sets"),
        ({"epochs": 1, "sets": (SetSettings(0.0),)}, r"weight = 0\.0"),
        (
            {"epochs": 1, "sets": (SetSettings(rules=GradingRules(auxiliary_weight=-1.0)),)},
            "auxiliary_weight",
        ),
    ],
)
def test_a_stage_out_of_bounds_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        StageSettings(**values)


def test_a_stage_among_several_has_a_length() -> None:
    with pytest.raises(ConfigurationError, match="stage 1: its length must be at least 1"):
        staged(StageSettings(iterations=1), StageSettings(iterations=0))


# Mixes ---------------------------------------------------------------------------------------------


def test_each_batch_takes_the_quota_of_each_set_in_one_shuffle() -> None:
    chosen = mixed(3.0, 1.0, batch_size=40, replay=False)
    batch = draw_batch(chosen, DifficultyState(((100, 50),)), K0)
    assert batch is not None
    assert [int((batch.problems < 100).sum()), int((batch.problems >= 100).sum())] == [30, 10]
    assert 0 < int((batch.problems[:10] >= 100).sum()) < 10


def test_a_set_is_drawn_with_a_stream_of_its_own() -> None:
    chosen = mixed(1.0, 1.0, batch_size=10, replay=False, seed=5)
    batch = draw_batch(chosen, DifficultyState(((20, 20),)), K0)
    assert batch is not None
    for index, offset in ((0, 0), (1, 20)):
        order = shuffled(5, Purpose.EPOCH_SHUFFLE, index << 12, 0, 20) + offset
        own = batch.problems[(batch.problems >= offset) & (batch.problems < offset + 20)]
        assert set(own.tolist()) == set(order[:5].tolist())
    assert stream_key(3, 2) == 3 | 2 << 12


def test_an_epoch_of_a_mix_ends_when_its_slowest_set_is_through() -> None:
    chosen = mixed(1.0, 1.0, batch_size=4, replay=False, epochs=2)
    fresh: Counter[int] = Counter()
    epochs = []
    for batch, _ in run(chosen, DifficultyState(((4, 9),)), one_of_four):
        fresh.update(batch.problems.tolist())
        epochs.append(batch.epoch)
    # Nine problems in twos: five batches an epoch; the four of the first set are walked five times.
    assert epochs == [0] * 5 + [1] * 5
    assert [fresh[j] for j in range(13)] == [5] * 4 + [2] * 9


def test_replay_stays_inside_a_set_and_its_quota() -> None:
    chosen = mixed(1.0, 1.0, batch_size=8, replay_ratio=0.5, epochs=5)
    state = DifficultyState(((40, 40),))
    replayed: Counter[int] = Counter()
    for batch, _ in run(chosen, state, lambda batch: [int(j < 40) for j in batch.problems]):
        assert [share.slots for share in batch.shares] == [2, 2]
        replayed.update(int(j >= 40) for j in batch.problems[batch.replayed])
    assert replayed[0] > 0
    assert replayed[1] == 0, "nothing of the second set is ever passed"


# Stages --------------------------------------------------------------------------------------------


def test_each_stage_begins_with_a_fresh_state_at_the_next_iteration() -> None:
    chosen = staged(StageSettings(iterations=3), StageSettings(epochs=1), replay=False)
    state = DifficultyState(((8,), (6,)))
    batches = [batch for batch, _ in run(chosen, state, one_of_four)]
    assert [(batch.iteration, batch.stage, batch.epoch) for batch in batches] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 1),
        (3, 1, 0),
        (4, 1, 0),
    ]
    assert state.problem_count == 6
    assert (state.stage, state.first_iteration) == (1, 3)
    assert draw_batch(chosen, state, Iteration(5)) is None


def test_nothing_of_an_earlier_stage_is_remembered() -> None:
    chosen = staged(StageSettings(iterations=2), StageSettings(iterations=1))
    state = DifficultyState(((4,), (4,)))
    list(run(chosen, state, one_of_four, most=2))
    fresh = DifficultyState(((4,), (4,)), stage=1, first_iteration=2)
    assert state.digest() == fresh.digest()
    assert not state.visited.any()


def test_stages_have_streams_of_their_own() -> None:
    chosen = staged(StageSettings(iterations=1), StageSettings(iterations=1), replay=False, batch_size=20)
    state = DifficultyState(((20,), (20,)))
    first, second = [batch for batch, _ in run(chosen, state, one_of_four)]
    assert first.problems.tolist() != second.problems.tolist()
    assert member_seeds(chosen, K0, 0).tolist() != member_seeds(chosen, K0, 1).tolist()


def test_a_batch_of_another_stage_is_not_committed() -> None:
    chosen = staged(StageSettings(iterations=1), StageSettings(iterations=1))
    state = DifficultyState(((8,), (8,)))
    batch, scored = next(iter(run(chosen, state, one_of_four)))
    with pytest.raises(ValueError, match="is of stage 0; the state is of stage 1"):
        advance(chosen, state, batch, scored)


def test_the_number_of_iterations_adds_up_over_stages() -> None:
    chosen = staged(
        StageSettings(iterations=7), StageSettings(epochs=2), StageSettings(iterations=4), replay=False
    )
    state = DifficultyState(((8,), (10,), (8,)))
    assert not chosen.length_is_known
    assert staged(StageSettings(iterations=7), StageSettings(iterations=1)).length_is_known
    assert estimated_iterations(chosen, state, 0) == 7 + 2 * 3 + 4
    told = [
        estimated_iterations(chosen, state, batch.iteration + 1)
        for batch, _ in run(chosen, state, one_of_four)
    ]
    assert len(told) == 17
    # Inside the epochs the pace of full batches is taken on; each epoch's last batch is a short one.
    assert told[:6] == [17] * 6
    assert set(told[6:]) == {16, 17}
    assert told[-4:] == [17] * 4


# Rules ---------------------------------------------------------------------------------------------

GRADES = Results(
    np.array([[True, False, True, False]] * 2),
    np.array([[0.5, 2.0, -1.0, 3.0], [0.25, 0.0, 4.0, 1.0]], np.float32),
    np.array([[1.0, 0.5, 0.0, 1.0], [0.0, 0.5, 1.0, 1.0]], np.float32),
)


def judged(*rules: GradingRules, parent: list[float] | None = None) -> tuple[Results, Batch, Any, Any]:
    """Two problems of each of two sets, judged by these rules; the columns are in order of the problems."""
    sets = tuple(SetSettings(rules=one) for one in rules)
    chosen = staged(StageSettings(sets=sets, iterations=1), population_size=2, reweighting=False)
    state = DifficultyState(((2, 2),))
    batch = draw_batch(chosen, state, K0)
    assert batch is not None
    order = batch.problems
    grades = Results(GRADES.passed[:, order], GRADES.scores[:, order], GRADES.auxiliary[:, order])  # type: ignore[index]
    scores = None if parent is None else np.array(parent, np.float32)[order]
    return judge(chosen, state, batch, grades, scores), batch, chosen, state


def in_order(values: Any, batch: Batch) -> list[list[float]]:
    return np.array(values)[:, np.argsort(batch.problems)].tolist()  # type: ignore[no-any-return]


def test_where_the_fitness_is_the_pass_scores_are_dropped() -> None:
    results, batch, _, _ = judged(PASS, PASS)
    assert results.scores is None
    assert in_order(results.passed, batch) == GRADES.passed.tolist()


def test_each_set_has_its_own_primary_score() -> None:
    results, batch, _, _ = judged(PASS, SCORE)
    assert in_order(results.scores, batch) == [[1.0, 0.0, -1.0, 3.0], [1.0, 0.0, 4.0, 1.0]]
    assert in_order(results.passed, batch) == GRADES.passed.tolist()


def test_a_pass_against_the_parent_is_a_score_above_its_own() -> None:
    against = GradingRules(Fitness.SCORE, against_parent=True)
    results, batch, _, _ = judged(against, PASS, parent=[0.5, 1.0, 9.0, 9.0])
    assert in_order(results.passed, batch) == [[False, True, True, False], [False, False, True, False]]
    assert in_order(results.scores, batch) == [[0.5, 2.0, 1.0, 0.0], [0.25, 0.0, 1.0, 0.0]]
    with pytest.raises(ValueError, match="needs? the parent's scores"):
        judged(against, PASS)


def test_the_auxiliary_score_is_weighted_by_set() -> None:
    heavy, light = GradingRules(auxiliary_weight=0.5), GradingRules(auxiliary_weight=0.25)
    results, batch, chosen, state = judged(heavy, light)
    scored = score(chosen, state, batch, results)
    assert scored.fitness.tolist() == [
        0.5 + 0.5 * (1.5 / 4) + 0.25 * (1.0 / 4),
        0.5 + 0.5 * (0.5 / 4) + 0.25 * (2.0 / 4),
    ]


def test_sets_of_one_weight_are_summed_before_they_are_weighted() -> None:
    results, batch, chosen, state = judged(PASS, PASS)
    scored = score(chosen, state, batch, results)
    assert scored.fitness.tolist() == [0.5 + 0.1 * (2.5 / 4), 0.5 + 0.1 * (2.5 / 4)]
    assert scored.coefficients.tolist() == [0.0, 0.0]


def test_passes_need_no_scores_at_all() -> None:
    chosen = settings()
    state = DifficultyState.new(4)
    batch = draw_batch(chosen, state, K0)
    assert batch is not None
    grades = passes([1, 2, 3, 4])
    assert judge(chosen, state, batch, grades).passed.tolist() == grades.passed.tolist()
