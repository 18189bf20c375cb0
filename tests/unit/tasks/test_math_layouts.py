"""Mathematics data sets: each layout gives its problem and its answer, and says what is wrong with a row."""

from typing import Any

import pytest

from dartes.errors import ConfigurationError
from dartes.spec.task import TaskSpec
from dartes.tasks.base import (
    Message,
    RowError,
    TaskSettings,
    UnreadableReferenceError,
    check_rows,
)
from dartes.tasks.math import MathTask
from dartes.tasks.rules import grading_rules

TASK = MathTask.from_spec(TaskSettings("math"))

LAYOUTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "MATH": (
        {
            "problem": "Halve 7.",
            "level": "Level 3",
            "type": "Prealgebra",
            "solution": "At first $\\boxed{3}$; exactly, $7/2=\\boxed{\\frac{7}{2}}$.",
        },
        "\\frac{7}{2}",
        "3.5",
    ),
    "MATH500": (
        {
            "problem": "Where do the lines meet?",
            "solution": "At $\\boxed{(1,2)}$.",
            "answer": "\\left( 1, 2 \\right)",
            "subject": "Algebra",
            "level": 2,
            "unique_id": "test/algebra/1.json",
        },
        "\\left( 1, 2 \\right)",
        "(1,2)",
    ),
    "Minerva, boxed": (
        {"problem": "How fast?", "solution": "So \\boxed{4.5e3}.", "type": "Motion", "idx": 0},
        "4.5e3",
        "4500",
    ),
    "Minerva, list": ({"question": "How fast?", "answer": ["4.5e3"]}, "4.5e3", "4.5 \\times 10^3"),
    "OlympiadBench": (
        {
            "id": 1,
            "question": "Solve it.",
            "solution": ["Try.", "Or so."],
            "final_answer": ["$2$, $-1$"],
            "is_multiple_answer": True,
            "unit": None,
            "answer_type": "Numerical",
            "error": None,
        },
        "$2$, $-1$",
        "-1, 2",
    ),
    "OlympiadBench, several": (
        {"question": "Solve it.", "final_answer": ["2", "\\sqrt{2}"], "error": None},
        "2, \\sqrt{2}",
        "\\sqrt2 \\text{ and } 2",
    ),
    "OlympiadBench, tolerance": (
        {"question": "Measure it.", "final_answer": ["9.8"], "unit": "m/s", "error": "1e-1"},
        "9.8",
        "9.75",
    ),
    "AIME 2024": ({"id": 60, "problem": "Count.", "solution": "...", "answer": "204"}, "204", "204"),
    "AIME 2025": ({"problem": "Count.", "answer": 70}, "70", "70"),
    "AIME, capitals": ({"ID": "I-1", "Problem": "Count.", "Solution": "...", "Answer": 33}, "33", "33"),
    "AMC": ({"id": 0, "problem": "Count.", "answer": 27.0, "url": "..."}, "27", "27"),
    "AMC, fraction": ({"id": 0, "problem": "Count.", "answer": 0.125}, "0.125", "\\frac18"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_gives_its_problem_and_its_answer(name: str) -> None:
    row, reference, answer = LAYOUTS[name]
    TASK.check_row(row)
    assert TASK.reference(row) == reference
    assert TASK.grade(row, f"\\boxed{{{answer}}}").passed
    assert not TASK.grade(row, "\\boxed{-77}").passed
    prompt = TASK.prompt(row)
    assert isinstance(prompt[0], Message)
    problem = row.get("problem", row.get("question", row.get("Problem")))
    assert prompt[0].content.startswith(str(problem))


def test_a_tolerance_has_an_end() -> None:
    row = LAYOUTS["OlympiadBench, tolerance"][0]
    assert TASK.grade(row, "\\boxed{9.9}").passed
    assert not TASK.grade(row, "\\boxed{9.91}").passed


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "?"}, r"column 'problem' is missing \(there are: text\)"),
        ({"problem": "?"}, r"column 'answer' is missing \(there are: problem\)"),
        ({"problem": 5, "answer": "5"}, "column 'problem' must hold text, not 5"),
        (
            {"problem": "?", "answer": True},
            "column 'answer' must hold text, a number, or a list of these, not True",
        ),
        ({"problem": "?", "answer": {"a": 1}}, "column 'answer' must hold text"),
        ({"problem": "?", "solution": 5}, "column 'solution' must hold text"),
        ({"problem": "?", "answer": "5", "error": []}, "column 'error' must hold a number"),
        ({"problem": "?", "answer": ["1"] * 65}, "column 'answer' holds 65 answers; 64 are allowed"),
    ],
)
def test_a_row_of_another_layout_is_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises(RowError, match=message) as caught:
        TASK.check_row(row)
    assert not isinstance(caught.value, UnreadableReferenceError)


@pytest.mark.parametrize(
    "answers",
    [
        {"solution": "no box"},
        {"solution": "\\boxed{}"},
        {"solution": "\\boxed{never closed"},
        {"answer": ""},
        {"answer": None},
        {"answer": []},
        {"answer": "x" * 2001},
        {"answer": "{1"},
        {"answer": float("nan")},
    ],
)
def test_a_reference_that_cannot_be_read_is_told_from_a_wrong_layout(answers: dict[str, Any]) -> None:
    row = {"problem": "?", **answers}
    with pytest.raises(UnreadableReferenceError):
        TASK.check_row(row)
    with pytest.raises(UnreadableReferenceError):
        TASK.grade(row, "\\boxed{5}")


def test_one_reference_in_a_hundred_may_be_unreadable() -> None:
    rows = [{"problem": "?", "answer": "5"}] * 99 + [{"problem": "?", "solution": "no box"}]
    (warning,) = check_rows(TASK, rows, "dataset")
    assert "problem 100" in warning
    with pytest.raises(RowError, match="2 of 100 reference answers cannot be read"):
        check_rows(TASK, [*rows[1:], rows[-1]], "dataset")


def test_the_prompt_is_a_chat_unless_the_job_says_raw() -> None:
    row = {"question": "Is {problem} literal?", "answer": "5"}
    raw = MathTask.from_spec(TaskSettings("math", prompt="Q: {problem}\nA:", options={"promptShape": "Raw"}))
    assert raw.prompt(row) == "Q: Is {problem} literal?\nA:"
    chat = MathTask.from_spec(TaskSettings("math", system="Be exact."))
    assert [message.role for message in chat.prompt(row) if isinstance(message, Message)] == [
        "system",
        "user",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            TaskSettings("math", options={"promptShape": "Poem"}),
            "task.options.promptShape: must be one of Chat, Raw",
        ),
        (TaskSettings("math", options={"levels": 3}), "task.options.levels: task 'math' has no such option"),
        (TaskSettings("math", answer_format="Tags"), "task.answerFormat"),
        (TaskSettings("math", pass_threshold=0.5), "task.passThreshold"),
        (TaskSettings("math", system="s", options={"promptShape": "Raw"}), "task.system: a raw prompt"),
    ],
)
def test_settings_that_the_task_does_not_have_are_refused(settings: TaskSettings, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MathTask.from_spec(settings)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dartes.tasks.math.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install '\.\[tasks\]' in a clone"):
        MathTask.from_spec(TaskSettings("math"))


def test_there_is_no_auxiliary_weight_unless_the_job_sets_one() -> None:
    assert grading_rules(TaskSpec(kind="math")).auxiliary_weight == 0.0
