"""Conciseness: the score is how far an answer's length is from the shortest right answer's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes.spec.task import TaskSpec
from dartes.tasks.base import JSON, RowError, TaskSettings, UnreadableReferenceError
from dartes.tasks.conciseness import WORST_SCORE, ConcisenessTask
from dartes.tasks.rules import Fitness, grading_rules

ROW = {"question": "What is the capital of France?", "answer": "Paris"}


def task(**options: JSON) -> ConcisenessTask:
    return ConcisenessTask.from_spec(TaskSettings("conciseness", options=options))


@pytest.mark.parametrize(
    ("completion", "passed", "score"),
    [
        ("Paris", True, 0.0),
        ("  Paris\n", True, 0.0),
        ("Rome", True, -1.0),
        ("It is Paris.", True, -7.0),
        ("x" * 15, True, -10.0),
        ("x" * 16, False, -11.0),
        ("", False, -5.0),
        (" \n", False, -5.0),
        ("x" * 10**5, False, WORST_SCORE),
    ],
)
def test_an_answer_is_scored_by_its_length(completion: str, passed: bool, score: float) -> None:
    grade = task().grade(ROW, completion)
    assert (grade.passed, grade.score, grade.auxiliary) == (passed, score, 0.0)
    assert bool(grade.reason) is not passed


def test_what_passes_is_set_by_a_tolerance_or_a_limit() -> None:
    assert not task(toleranceCharacters=0).grade(ROW, "Paris.").passed
    assert task(toleranceCharacters=1).grade(ROW, "Paris.").passed
    assert not task(limitCharacters=4).grade(ROW, "Paris").passed
    assert task(limitCharacters=100).grade(ROW, "x" * 100).passed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"toleranceCharacters": -1}, "must be a whole number from 0 to 10000, not -1"),
        ({"toleranceCharacters": "5"}, "must be a whole number from 0 to 10000, not '5'"),
        ({"limitCharacters": 0}, "must be a whole number from 1 to 10000, not 0"),
        ({"limitCharacters": True}, "must be a whole number from 1 to 10000, not True"),
        (
            {"limitCharacters": 5, "toleranceCharacters": 5},
            "set toleranceCharacters or limitCharacters, not both",
        ),
        ({"words": 5}, "has no such option"),
    ],
)
def test_settings_out_of_bounds_are_refused(options: dict[str, JSON], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        task(**options)


def test_rows_need_a_question_and_an_answer() -> None:
    task().check_row(ROW)
    assert task().reference(ROW) == "Paris"
    with pytest.raises(RowError, match="column 'question' is missing"):
        task().check_row({"answer": "Paris"})
    with pytest.raises(RowError, match="column 'answer' must hold text"):
        task().check_row({"question": "?", "answer": 5})
    with pytest.raises(UnreadableReferenceError):
        task().check_row({"question": "?", "answer": " "})


def test_the_score_is_the_fitness_unless_the_job_says_otherwise() -> None:
    assert grading_rules(TaskSpec(kind="conciseness")).fitness is Fitness.SCORE
    assert grading_rules(TaskSpec(kind="conciseness")).auxiliary_weight == 0.0


@given(st.text(max_size=80), st.integers(0, 40))
def test_grades_agree_with_counting(completion: str, tolerance: int) -> None:
    grade = task(toleranceCharacters=tolerance).grade(ROW, completion)
    length = sum(1 for _ in completion.strip())
    assert grade.score == -abs(length - 5)
    assert grade.passed == (0 < length <= 5 + tolerance)
