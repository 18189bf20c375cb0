"""Points, the best iteration and what was forgotten, from stored evaluations."""

from typing import Any

import numpy as np
import pytest

from dartes.destinations.choice import Choice, Evaluated, choose
from dartes.report.estimators import change_interval, wilson_interval
from dartes.report.evaluations import best_iteration, change_of, evaluation_entries, point_of
from dartes.state import StoredEvaluation


def evaluation(iteration: int, bits: str, name: str = "set", **more: Any) -> StoredEvaluation:
    """Bits as a text of 1 and 0, the samples of a problem side by side."""
    passed = np.array([bit == "1" for bit in bits])
    beside = {"holdout": more.pop("holdout", False), **more.pop("beside", {})}
    return StoredEvaluation(iteration, name, passed, ~passed, beside, **more)


def test_one_sample_gives_accuracy_and_the_wilson_interval() -> None:
    point = point_of(evaluation(4, "1110"))
    assert (point["iteration"], point["accuracy"], point["passed"], point["problems"]) == (4, 0.75, 3, 4)
    assert point["interval95"] == pytest.approx(wilson_interval(3, 4))
    assert point["pass_at_k"] == {"1": 0.75}
    assert (point["maj_at_k"], point["maj_interval95"], point["truncated_share"]) == (None, None, 0.25)
    assert (point["mean_length"], point["format_share"], point["mean_score"]) == (None, None, None)


def test_several_samples_give_pass_at_k_mean_and_majority() -> None:
    keys = np.array([1, 1, 2, 3, 4, 4, 0, 0, 0], np.uint64)
    beside = {"mean_length": 7.5, "format_share": 0.5, "mean_score": 1.5}
    point = point_of(evaluation(0, "110100100", samples=3, keys=keys, beside=beside))
    assert (point["problems"], point["samples"], point["answers"], point["passed"]) == (3, 3, 9, 4)
    assert point["accuracy"] == point["pass_at_k"]["1"] == pytest.approx(4 / 9)
    # By hand: 2 of 3, 1 of 3 and 1 of 3 answers pass.
    assert point["pass_at_k"] == pytest.approx({"1": 4 / 9, "2": (1 + 2 / 3 + 2 / 3) / 3, "3": 1.0})
    assert point["maj_at_k"] == pytest.approx(1 / 3)
    assert point["maj_interval95"] == pytest.approx(wilson_interval(1, 3))
    assert (point["mean_length"], point["format_share"], point["mean_score"]) == (7.5, 0.5, 1.5)


def test_answers_that_cannot_be_compared_have_no_majority() -> None:
    assert point_of(evaluation(0, "10", samples=2, keys=np.zeros(2, np.uint64)))["maj_at_k"] is None


@pytest.mark.parametrize(
    "shares", [["10", "11", "11"], ["11", "10", "10"], ["10", "10", "10"], ["00", "10", "11"]]
)
def test_the_best_iteration_is_the_one_that_an_export_takes(shares: list[str]) -> None:
    stored = [evaluation(2 * at, bits, name) for at, bits in enumerate(shares) for name in ("a", "b")]
    stored += [evaluation(2 * at, "11", "hold", holdout=True) for at in range(3)]
    known = [Evaluated(e.set_name, e.iteration, int(e.passed.sum()), len(e.passed)) for e in stored]
    assert best_iteration(stored, "a") == choose(Choice.BEST, 4, known, "a").iteration
    assert best_iteration(stored, None) is None


def test_sets_and_holdouts_have_base_last_best_and_all() -> None:
    stored = [
        evaluation(0, "1000"),
        evaluation(0, "1111", "hold", holdout=True),
        evaluation(2, "1110"),
        evaluation(2, "1110", "hold", holdout=True),
        evaluation(4, "1100"),
        evaluation(4, "0011", "hold", holdout=True),
    ]
    sets, holdouts = evaluation_entries(stored, "set")
    assert (list(sets), list(holdouts)) == (["set"], ["hold"])
    for entry in (sets["set"], holdouts["hold"]):
        assert [entry[which]["iteration"] for which in ("before", "after", "best")] == [0, 4, 2]
        assert [point["iteration"] for point in entry["all"]] == [0, 2, 4]
    change = holdouts["hold"]["change"]
    assert change["points"] == -50
    ones = np.ones(4)
    low, high = change_interval(ones, np.array([0.0, 0, 1, 1]))
    assert change["interval95"] == pytest.approx([100 * low, 100 * high])


def test_a_set_that_came_later_or_was_evaluated_once_has_no_change() -> None:
    sets, _ = evaluation_entries([evaluation(0, "10", "once"), evaluation(4, "10", "later")], "once")
    assert (sets["once"]["change"], sets["later"]["change"], sets["later"]["before"]) == (None, None, None)


def test_wins_without_a_base_model_are_no_figure_and_never_the_best() -> None:
    why = "this set was added at iteration 2"
    beside = {"no_base": why, "against_base": True, "mean_score": 1.5}
    keys = np.array([1, 1, 2, 2], np.uint64)
    stored = [evaluation(k, "0000", beside=beside, samples=2, keys=keys) for k in (2, 4)]
    sets, _ = evaluation_entries(stored, "set")
    after = sets["set"]["after"]
    unknown = ("accuracy", "passed", "interval95", "pass_at_k", "maj_at_k", "maj_interval95")
    assert [after[name] for name in unknown] == [None] * len(unknown)
    assert (after["mean_score"], after["no_base"], after["problems"]) == (1.5, why, 2)
    assert (sets["set"]["best"], best_iteration(stored, "set")) == (None, None)
    assert change_of(evaluation(0, "1010", samples=2), stored[0]) is None
    assert "no_base" not in point_of(evaluation(2, "10"))


def test_sets_of_other_problems_are_not_compared() -> None:
    assert change_of(evaluation(0, "1010"), evaluation(2, "10")) is None
    assert change_of(evaluation(0, "1010"), evaluation(2, "1010", samples=2)) is None
