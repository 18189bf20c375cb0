"""The sum tasks: what passes, and how far an answer that does not pass has come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes.tasks.addition import AdditionTask
from dartes.tasks.arithmetic import DEFAULT_SYSTEM, ArithmeticTask
from dartes.tasks.base import Message, Row, RowError, TaskSettings, check_rows

ADDITION = AdditionTask.from_spec(TaskSettings("addition"))
ARITHMETIC = ArithmeticTask.from_spec(TaskSettings("arithmetic"))
ROW: Row = {"question": "7 + 8", "answer": 15}


def test_addition_asks_with_the_bare_sum_and_takes_nothing_but_its_value() -> None:
    row = {"a": 95, "b": 7}
    assert ADDITION.prompt(row) == "95+7="
    assert ADDITION.grade(row, "102").passed
    assert ADDITION.grade(row, " 102\n").passed
    for wrong in (
        "",
        "?",
        "102.",
        "0102",
        "+102",
        "101",
        "102 102",
        "\uff11\uff10\uff12",
        "1" * 10**6,
        "\ud800",
    ):
        grade = ADDITION.grade(row, wrong)
        assert (grade.passed, grade.score, grade.auxiliary) == (False, 0.0, 0.0), wrong
        assert grade.reason


def test_numbers_of_a_file_that_has_only_text_are_numbers() -> None:
    row = {"a": "12", "b": " -5 "}
    ADDITION.check_row(row)
    assert ADDITION.grade(row, "7").passed


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 1}, r"column 'b' is missing \(there are: a\)"),
        ({"a": 1, "b": "2.5"}, "column 'b' must hold a whole number, not '2.5'"),
        ({"a": True, "b": 2}, "column 'a' must hold a whole number, not True"),
        ({}, r"column 'a' is missing \(there are: none\)"),
    ],
)
def test_a_row_that_is_no_sum_is_refused_by_its_number(row: dict[str, int], message: str) -> None:
    with pytest.raises(RowError, match=f"sums.jsonl: problem 2: {message}"):
        check_rows(ADDITION, [{"a": 1, "b": 2}, row], "sums.jsonl")


def test_references_and_answers_are_numbers_that_can_be_compared() -> None:
    assert ADDITION.reference({"a": 95, "b": 7}) == "102"
    assert ADDITION.grade({"a": 95, "b": 7}, " 102\n").answer == "102"
    assert ARITHMETIC.reference(ROW) == "15"
    assert ARITHMETIC.grade(ROW, "15").answer == "15"
    assert ARITHMETIC.grade(ROW, "16").answer == "16"
    assert ARITHMETIC.grade(ROW, "It is 15.").answer == ""
    at_end = ArithmeticTask.from_spec(TaskSettings("arithmetic", options={"accept": "NumberAtEnd"}))
    assert at_end.grade(ROW, "It is 15.").answer == at_end.grade(ROW, "15").answer == "15"
    assert at_end.grade(ROW, "15 it is").answer == ""


def test_arithmetic_is_a_chat_with_a_system_message_that_may_be_left_out() -> None:
    assert ARITHMETIC.prompt(ROW) == (Message("system", DEFAULT_SYSTEM), Message("user", "7 + 8 ="))
    bare = ArithmeticTask.from_spec(TaskSettings("arithmetic", prompt="What is {question}?", system=""))
    assert bare.prompt(ROW) == (Message("user", "What is 7 + 8?"),)


@pytest.mark.parametrize(
    ("completion", "passed", "auxiliary"),
    [
        ("15", True, 1.0),
        (" 15 \n", True, 1.0),
        ("16", False, 0.2),
        ("-15", False, 0.2),
        ("15.", False, 0.4 + 0.4 * 2 / 3),
        ("7 + 8 = 15", False, 0.4 + 0.4 * 2 / 10),
        ("7+8=15", False, 0.4 + 0.4 * 2 / 6),
        ("It is 16.", False, 0.0),
        ("It is 15.5", False, 0.0),
        ("It is 115 or 150 or x15", False, 0.0),
        ("It is 15,000", False, 0.0),
        ("", False, 0.0),
        ("\ud800", False, 0.0),
    ],
)
def test_the_auxiliary_score_grows_towards_the_bare_number(
    completion: str, passed: bool, auxiliary: float
) -> None:
    grade = ARITHMETIC.grade(ROW, completion)
    assert grade.passed is passed
    assert grade.auxiliary == pytest.approx(auxiliary)
    assert bool(grade.reason) is not passed


def test_a_minus_is_a_sign_only_where_no_digit_stands_before_it() -> None:
    row: Row = {"question": "5 - 8", "answer": -3}
    assert ARITHMETIC.grade(row, "-3").passed
    assert ARITHMETIC.grade(row, "5 - 8 = -3").auxiliary > 0.4
    assert ARITHMETIC.grade(row, "11-3").auxiliary == 0.0


@given(st.text(max_size=60) | st.text(alphabet="15 .-,x", max_size=20), st.integers(-20, 20))
def test_any_answer_gets_a_grade_within_bounds(completion: str, answer: int) -> None:
    grade = ARITHMETIC.grade({"question": "", "answer": answer}, completion)
    assert grade.passed == (completion.strip() == str(answer))
    assert grade.score == float(grade.passed)
    assert 0.0 <= grade.auxiliary <= 1.0
    assert (grade.auxiliary == 1.0) == grade.passed


def test_the_parts_of_the_auxiliary_score_are_options() -> None:
    task = ArithmeticTask.from_spec(
        TaskSettings("arithmetic", options={"numberInTextPercent": 50, "brevityPercent": 0})
    )
    assert task.grade(ROW, "the sum is 15").auxiliary == 0.5


@pytest.mark.parametrize(
    ("completion", "passed"),
    [
        ("15", True),
        ("7 + 8 = 15.", True),
        ("The answer is 15!\n", True),
        ("The answer is 15. It", False),
        ("15 is not 16.", False),
        ("7 + 8 = 150", False),
        ("7 + 8 = -15", False),
        ("7 + 8 = 1.15", False),
        ("15" * 10**5, False),
        ("", False),
    ],
)
def test_an_answer_that_ends_with_the_number_passes_where_the_job_accepts_it(
    completion: str, passed: bool
) -> None:
    task = ArithmeticTask.from_spec(TaskSettings("arithmetic", options={"accept": "NumberAtEnd"}))
    grade = task.grade(ROW, completion)
    assert (grade.passed, bool(grade.reason)) == (passed, not passed)
    assert grade.auxiliary == ARITHMETIC.grade(ROW, completion).auxiliary


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"brevity": 10},
            r"task.options.brevity: task 'arithmetic' has no such option \(it has: accept, bare",
        ),
        (
            {"brevityPercent": 101},
            "task.options.brevityPercent: must be a whole number from 0 to 100, not 101",
        ),
        ({"accept": "Any"}, "task.options.accept: must be one of BareNumber, NumberAtEnd, not 'Any'"),
        ({"accept": 1}, "task.options.accept: must be one of BareNumber, NumberAtEnd, not 1"),
        ({"brevityPercent": "10"}, "must be a whole number from 0 to 100, not '10'"),
    ],
)
def test_options_that_do_not_exist_or_fit_are_refused(options: dict[str, int | str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ArithmeticTask.from_spec(TaskSettings("arithmetic", options=options))


def test_a_task_without_answer_formats_refuses_one() -> None:
    with pytest.raises(ConfigurationError, match="answerFormat"):
        AdditionTask.from_spec(TaskSettings("addition", answer_format="Boxed"))
