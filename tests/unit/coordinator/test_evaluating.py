"""Blocks of evaluation sets: several samples to a problem, keys, texts, and passes against the base model."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dartes.evaluation import (
    EVALUATION_BLOCK,
    base_level,
    blocks,
    logged_rows,
    rows_per_block,
    wins,
    wrong_wins,
)
from dartes.rpc.encoding import pack_bits, pack_floats
from dartes.state import StoredEvaluation
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.errors import ReportError
from dartes_coordinator.evaluating import SetAnswers, stored_evaluations
from dartes_coordinator.plan import EvaluationSetPlan


def block(first: int, rows: int, bits: list[bool], **more: Any) -> wire.EvaluateResult:
    packed = pack_bits(np.array(bits, np.bool_))
    plain: dict[str, Any] = {
        "kind": wire.EVALUATE_KIND_HELD_OUT,
        "evaluation_set": "set",
        "first_row": first,
        "row_count": rows,
        "passed": packed,
        "truncated": packed,
    }
    return wire.EvaluateResult(**(plain | more))


def keys(*values: int) -> bytes:
    return np.array(values, "<u8").tobytes()


def scores(*values: float) -> bytes:
    return pack_floats(np.array(values, np.float32))


def completion(row: int, **more: Any) -> wire.Completion:
    plain: dict[str, Any] = {"row": row, "prompt": "p", "text": f"answer {row}", "score": 1.0}
    return wire.Completion(**(plain | more))


def test_a_block_has_about_as_many_answers_whatever_the_samples() -> None:
    assert [rows_per_block(k) for k in (1, 3, 64, 256, 1024)] == [EVALUATION_BLOCK, 85, 4, 1, 1]
    assert blocks(9, 64) == [(0, 4), (4, 4), (8, 1)]


def test_texts_are_asked_for_from_the_first_rows_of_the_set_only() -> None:
    assert [logged_rows(5, first, 4) for first in (0, 4, 8)] == [4, 1, 0]
    assert logged_rows(0, 0, 4) == 0


def test_the_samples_of_a_row_stand_side_by_side_in_the_stored_set() -> None:
    answers = SetAnswers(EvaluationSetPlan(3, samples=2))
    answers.put(answers.read(block(2, 1, [False, True], answer_keys=keys(7, 8), generated_tokens=4)))
    answers.put(
        answers.read(block(0, 2, [True, False, True, True], answer_keys=keys(1, 2, 3, 3), generated_tokens=8))
    )
    stored = answers.stored(4, "set", None)
    assert stored.passed.tolist() == [True, False, True, True, False, True]
    assert stored.keys is not None
    assert stored.keys.tolist() == [1, 2, 3, 3, 7, 8]
    assert (stored.problems, stored.samples, stored.accuracy) == (3, 2, 4 / 6)
    assert stored.beside["mean_length"] == 2.0


def test_positions_in_another_order_take_their_keys_along() -> None:
    answers = SetAnswers(EvaluationSetPlan(1, samples=2))
    answers.put(answers.read(block(0, 1, [True, False], positions=[1, 0], answer_keys=keys(11, 10))))
    assert answers.keys.tolist() == [10, 11]


def test_one_sample_needs_no_keys_and_scores_equal_to_passes_are_not_kept() -> None:
    answers = SetAnswers(EvaluationSetPlan(2))
    answers.put(answers.read(block(0, 2, [True, False])))
    stored = answers.stored(0, "set", None)
    assert (stored.keys, stored.scores, stored.beside["mean_score"]) == (None, None, 0.5)


def test_format_share_and_mean_score_are_means_over_answers() -> None:
    answers = SetAnswers(EvaluationSetPlan(2, holdout=True))
    answers.put(answers.read(block(0, 2, [True, False], auxiliary=scores(1, 0.5), scores=scores(3, -1))))
    stored = answers.stored(0, "set", None)
    assert (stored.beside["format_share"], stored.beside["mean_score"]) == (0.75, 1.0)
    assert (stored.beside["holdout"], stored.beside["against_base"]) == (True, False)
    assert stored.scores is not None
    assert stored.scores.tolist() == [3, -1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"answer_keys": b""}, "0 bytes of answer keys for 4 answers; expected 32"),
        ({"answer_keys": keys(1, 2)}, "16 bytes of answer keys"),
        ({"passed": pack_bits(np.ones(9, np.bool_))}, "bytes of bits for 4 positions"),
        ({"positions": [0, 1, 2], "passed": b"\1", "truncated": b"\1"}, "3 answers for a block of 4"),
        ({"completions": [completion(2)]}, "1 completions, of rows or samples not asked for"),
        ({"completions": [completion(1)]}, "not asked for"),
        ({"completions": [completion(0), completion(0)]}, "2 completions"),
        ({"completions": [completion(0, sample=1)]}, "not asked for"),
    ],
)
def test_a_report_that_does_not_fit_its_block_is_refused(more: dict[str, Any], said: str) -> None:
    answers = SetAnswers(EvaluationSetPlan(4, samples=2), log_completions=1)
    good: dict[str, Any] = {"answer_keys": keys(1, 1, 1, 1), "completions": [completion(0)]}
    answers.read(block(0, 2, [True] * 4, **good))
    with pytest.raises(ReportError, match=said):
        answers.read(block(0, 2, [True] * 4, **(good | more)))


def test_texts_are_stored_in_the_order_of_their_rows() -> None:
    answers = SetAnswers(EvaluationSetPlan(3), log_completions=3)
    answers.put(answers.read(block(1, 2, [True, False], completions=[completion(2), completion(1)])))
    answers.put(answers.read(block(0, 1, [True], completions=[completion(0)])))
    stored = answers.stored(0, "set", None)
    assert [(c.row, c.text) for c in stored.completions] == [(r, f"answer {r}") for r in (0, 1, 2)]


def base(values: list[float], samples: int = 1) -> StoredEvaluation:
    bits = np.zeros(len(values), np.bool_)
    return StoredEvaluation(0, "set", bits, bits, {}, samples=samples, scores=np.array(values, np.float32))


def test_a_win_is_a_score_above_the_base_models_on_the_same_problem() -> None:
    found = wins(np.array([1.5, 0.5, 2.0], np.float32), base([1.0, 0.5, 3.0]), 1)
    assert found.tolist() == [True, False, False]


def test_several_answers_each_have_to_beat_the_mean_of_the_base_models() -> None:
    first = base([1.0, 3.0, -1.0, -1.0], samples=2)
    assert base_level(first).tolist() == [2.0, -1.0]
    found = wins(np.array([2.0, 2.5, -1.0, 0.0], np.float32), first, 2)
    assert found.tolist() == [False, True, False, True]


def test_the_base_model_does_not_win_against_itself_also_when_it_is_evaluated_again() -> None:
    assert wins(np.array([5.0], np.float32), None, 1).tolist() == [False]
    answers = SetAnswers(EvaluationSetPlan(1, against_base=True), log_completions=1)
    report = block(0, 1, [True], scores=scores(5.0), completions=[completion(0, passed=True, score=5.0)])
    answers.put(answers.read(report))
    (again,) = stored_evaluations(0, {"set": answers}, {"set": base([4.0])})
    assert "no_base" not in again.beside
    assert again.passed.tolist() == [False]
    assert [(c.passed, c.reason) for c in again.completions] == [(False, "the base model itself")]


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (None, "this set was added at iteration 3"),
        (replace(base([1.0, 0.5]), iteration=2), "this set was added at iteration 2"),
        (base([1.0, 0.5, 2.0]), "this set had 3 problems at iteration 0, and has 2 now"),
    ],
)
def test_trained_weights_are_no_base_and_neither_are_other_problems(
    first: StoredEvaluation | None, why: str
) -> None:
    answers = SetAnswers(EvaluationSetPlan(2, against_base=True), log_completions=1)
    texts = [completion(0, score=9.0)]
    answers.put(answers.read(block(0, 2, [False, False], scores=scores(9.0, 8.0), completions=texts)))
    (stored,) = stored_evaluations(3, {"set": answers}, {} if first is None else {"set": first})
    assert stored.passed.tolist() == [False, False]
    assert (stored.beside["mean_score"], stored.beside["no_base"]) == (8.5, why)
    assert [(c.passed, c.reason) for c in stored.completions] == [(False, f"no base: {why}")]
    assert list(wrong_wins([stored] if first is None else [first, stored])) == []


def test_texts_of_a_set_against_the_base_model_say_whether_they_won() -> None:
    answers = SetAnswers(EvaluationSetPlan(2, against_base=True), log_completions=2)
    texts = [completion(0, score=2.0), completion(1, score=0.25)]
    answers.put(answers.read(block(0, 2, [False, False], scores=scores(2.0, 0.25), completions=texts)))
    (stored,) = stored_evaluations(3, {"set": answers}, {"set": base([1.0, 0.5])})
    assert stored.passed.tolist() == [True, False]
    assert stored.accuracy == 0.5
    assert [(c.passed, c.reason) for c in stored.completions] == [
        (True, ""),
        (False, "scores 0.25, the base model 0.5"),
    ]
