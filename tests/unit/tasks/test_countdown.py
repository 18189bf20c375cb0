"""Countdown: the last block must use each number once and reach the target; nothing is ever executed."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes.tasks.base import JSON, Row, RowError, TaskSettings, UnreadableReferenceError
from dartes.tasks.countdown import CountdownTask

TAGS = CountdownTask.from_spec(TaskSettings("countdown"))
BOXED = CountdownTask.from_spec(TaskSettings("countdown", answer_format="Boxed"))
ROW: dict[str, JSON] = {"numbers": [3, 5, 7], "target": 22}


@pytest.mark.parametrize(
    ("expression", "passed"),
    [
        ("3*5+7", True),
        (" (7 + (3 * 5)) ", True),
        ("5*3--7", True),
        ("3*5+7=22", False),
        ("3*5+8", False),
        ("3*5+7+0", False),
        ("3*5+7*1", False),
        ("22", False),
        ("35-7", False),
        ("3*5-7", False),
        ("95**88**77", False),
        ("3*5+7 # 22", False),
        ("(" * 10**5 + "3*5+7" + ")" * 10**5, False),
        ("", False),
        ("\ud800", False),
        ("3/(5-5)+7", False),
    ],
)
def test_an_expression_passes_when_it_uses_each_number_once_and_reaches_the_target(
    expression: str, passed: bool
) -> None:
    for task, answer in ((TAGS, f"<answer>{expression}</answer>"), (BOXED, f"\\boxed{{{expression}}}")):
        grade = task.grade(ROW, "let me see</think>\n" + answer)
        assert grade.passed is passed
        assert bool(grade.reason) is not passed


def test_only_the_last_block_of_the_right_kind_counts() -> None:
    right, wrong = "<answer>3*5+7</answer>", "<answer>3+5+7</answer>"
    assert TAGS.grade(ROW, wrong + right).passed
    assert not TAGS.grade(ROW, right + wrong).passed
    assert not TAGS.grade(ROW, "\\boxed{3*5+7}").passed
    assert not BOXED.grade(ROW, right).passed
    assert TAGS.grade(ROW, "3*5+7").reason == "no answer block"


def test_the_target_may_be_missed_by_less_than_a_hundred_thousandth() -> None:
    row: dict[str, JSON] = {"numbers": [1, 3], "target": 0.33333}
    assert TAGS.grade(row, "<answer>1/3</answer>").passed
    assert not TAGS.grade({**row, "target": 0.3333}, "<answer>1/3</answer>").passed


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("hm</think>\n<answer>1</answer>", 1.0),
        ("hm</think>\n<answer>not even a number</answer>", 1.0),
        ("hm</think> <answer>1</answer>", 0.6),
        ("hm</think>\n<answer>1</answer>\n", 0.6),
        ("hm</think>", 0.1),
        ("<answer>1</answer>", 0.5),
        ("<answer>1", 0.0),
        ("", 0.0),
    ],
)
def test_the_format_score_is_full_for_the_exact_form_only(completion: str, score: float) -> None:
    assert TAGS.grade(ROW, completion).auxiliary == pytest.approx(score)
    boxed = completion.replace("<answer>", "\\boxed{").replace("</answer>", "}")
    assert BOXED.grade(ROW, boxed).auxiliary == pytest.approx(score)


def test_prompts_name_numbers_and_target_and_end_with_the_open_tag() -> None:
    for task in (TAGS, BOXED):
        prompt = task.prompt(ROW)
        assert isinstance(prompt, str)
        assert "[3, 5, 7]" in prompt
        assert "22" in prompt
        assert prompt.endswith("<think>")
    chat = CountdownTask.from_spec(TaskSettings("countdown", system="Play.")).prompt(ROW)
    assert not isinstance(chat, str)
    assert not chat[-1].content.rstrip().endswith("<think>")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"target": 5}, r"column 'numbers' is missing \(there are: target\)"),
        ({"numbers": [], "target": 5}, "column 'numbers' must be a list of 1 to 16 numbers"),
        ({"numbers": "3,4", "target": 5}, "must be a list"),
        ({"numbers": [1.5], "target": 5}, "must hold whole numbers from 0 to"),
        ({"numbers": [True], "target": 5}, "must hold whole numbers"),
        ({"numbers": [-1], "target": 5}, "must hold whole numbers"),
        ({"numbers": [10**12], "target": 5}, "must hold whole numbers"),
        ({"numbers": [1], "target": "5"}, "column 'target' must be a number up to"),
        ({"numbers": [1], "target": 1e300}, "column 'target' must be a number up to"),
    ],
)
def test_a_row_without_a_game_is_refused(row: dict[str, JSON], message: str) -> None:
    with pytest.raises(RowError, match=message):
        TAGS.check_row(row)


def test_a_target_out_of_bounds_is_an_unreadable_reference() -> None:
    with pytest.raises(UnreadableReferenceError):
        TAGS.check_row({"numbers": [1], "target": 1e300})


def test_the_numbers_may_be_called_nums() -> None:
    row: Row = {"nums": [3, 5, 7], "target": 22}
    TAGS.check_row(row)
    assert TAGS.prompt(row) == TAGS.prompt(ROW)
    assert TAGS.grade(row, "<answer>3*5+7</answer>").passed


def test_reference_and_answer_are_values() -> None:
    assert TAGS.reference(ROW) == "22"
    assert TAGS.grade(ROW, "<answer>3*5+7</answer>").answer == "22"
    assert TAGS.grade(ROW, "<answer>7+5*3</answer>").answer == "22"
    assert TAGS.grade(ROW, "<answer>7+5/3</answer>").answer == "26/3"
    assert TAGS.grade(ROW, "<answer>22</answer>").answer == ""


def test_an_unknown_answer_format_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"task.answerFormat: must be Tags or Boxed, not 'Json'"):
        CountdownTask.from_spec(TaskSettings("countdown", answer_format="Json"))


@given(st.text() | st.text(alphabet="357+-*/() <>answer{}\\boxed", max_size=40))
def test_any_answer_gets_a_grade(completion: str) -> None:
    for task in (TAGS, BOXED):
        grade = task.grade(ROW, completion)
        assert grade.score == float(grade.passed)
        assert grade.auxiliary in (0.0, 0.1, 0.5, 0.6, 1.0)


def test_tasks_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(BOXED)) == BOXED
