"""Given choices: three layouts, and one rule for the letter that an answer settles on."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes.tasks.base import Message, RowError, TaskSettings, UnreadableReferenceError
from dartes.tasks.multiple_choice import MultipleChoiceTask, chosen_letter, yes_or_no

TASK = MultipleChoiceTask.from_spec(TaskSettings("multiple-choice"))

MMLU: dict[str, Any] = {
    "question": "Which is a metal?",
    "subject": "chemistry",
    "choices": ["neon", "iron", "sulphur", "iodine"],
    "answer": 1,
}
SCIKNOWEVAL: dict[str, Any] = {
    "question": "Which is an acid?",
    "choices": {"text": ["NaOH", "KOH", "HCl", "NaCl"], "label": ["A", "B", "C", "D"]},
    "answerKey": "C",
    "domain": "Chemistry",
}
BOOLQ: dict[str, Any] = {"question": "is ice cold", "passage": "Ice is frozen water.", "answer": True}


def _text(row: dict[str, Any]) -> str:
    message = TASK.prompt(row)[0]
    assert isinstance(message, Message)
    return message.content


@pytest.mark.parametrize(
    ("row", "reference", "right", "wrong"),
    [
        (MMLU, "B. iron", "Answer: B", "Answer: A"),
        (MMLU | {"answer": "B"}, "B. iron", '{"answer": "b"}', "Answer: C"),
        (SCIKNOWEVAL, "C. HCl", "It must be C.", "It must be D."),
        (
            SCIKNOWEVAL | {"choices": {"text": ["no", "yes"], "label": ["1", "2"]}, "answerKey": "2"},
            "B. yes",
            "Answer: B",
            "Answer: 2",
        ),
        (BOOLQ, "yes", "\\boxed{Yes}", "\\boxed{no}"),
        (BOOLQ | {"answer": "false"}, "no", "\\boxed{0}", "\\boxed{1}"),
        (BOOLQ | {"answer": 1}, "yes", "\\boxed{\\text{True}}", "yes"),
    ],
)
def test_a_layout_gives_its_choices_and_its_answer(
    row: dict[str, Any], reference: str, right: str, wrong: str
) -> None:
    TASK.check_row(row)
    assert TASK.reference(row) == reference
    assert TASK.grade(row, right).passed
    grade = TASK.grade(row, wrong)
    assert not grade.passed
    assert grade.score == grade.auxiliary == 0.0


def test_the_prompt_letters_the_choices_and_shows_the_passage() -> None:
    assert "Which is a metal?\n\nA. neon\nB. iron\nC. sulphur\nD. iodine\n" in _text(MMLU)
    assert "C. HCl" in _text(SCIKNOWEVAL)
    assert "Ice is frozen water." in _text(BOOLQ)
    assert "is ice cold" in _text(BOOLQ)


def test_a_prompt_of_the_jobs_own_gets_the_options_too() -> None:
    task = MultipleChoiceTask.from_spec(
        TaskSettings("multiple-choice", prompt="{question}|{options}", system="S")
    )
    user = task.prompt(MMLU)[1]
    assert isinstance(user, Message)
    assert user.content == "Which is a metal?|A. neon\nB. iron\nC. sulphur\nD. iodine"


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ('{"answer": "A"}', "A"),
        ('{"answer": "A"} {"Answer" : " b "} Answer: C', "B"),
        ("answer: A. No, Answer: C. D", "C"),
        ("**Answer**: B", "B"),
        ("**Answer: (D)**", "D"),
        ("Answer: \\boxed{C}", "C"),
        ("Answer: Because of B", "B"),
        ("The answer is C", "C"),
        ("A or B? I take (B).", "B"),
        ("E", ""),
        ("a b c d", ""),
        ("ABBA", ""),
        ("D's and B-flat", "B"),
        ("", ""),
        ("Answer: \uff21", ""),
        ("Answer: a mixture of both, so (B)", "B"),
        ("Answer: B\n\nExplanation: the other answer: a gas, is wrong.", "B"),
        ("Answer: a", "A"),
        ("answer: a.", "A"),
        ("answer: b because a is a gas", "B"),
        ("answer: a\nB is a metal.", "A"),
        ("answer: a  gas, so B", "B"),
        ("{'answer': 'B'}", "B"),
        ("{'answer\": 'B'} C", "C"),
        ("Answer: _B_", "B"),
        ("Answer: _B_x, C", "C"),
        ("**Answer: (B)** A is a gas", "B"),
        ("Answer: \\boxed{\\text{B}} and A", "B"),
        ("The answer is B.", "B"),
        ("The answer is B. A is a noble gas.", "B"),
        ("The answer is **B**, because A is a gas", "B"),
        ("The correct answer is (C)", "C"),
        ("The correct answer is (C)\nD is a gas.", "C"),
        ("The answer is A. Wait, it is D.", "D"),
        ("The answer is A at first sight; D is right.", "D"),
        ("The answer is A or D.", "D"),
        ("The answer is a gas, hence D", "D"),
    ],
)
def test_the_last_match_of_the_first_rule_counts(text: str, letter: str) -> None:
    assert chosen_letter(text, 4) == letter


def test_only_the_letters_of_the_choices_count() -> None:
    assert chosen_letter("J", 10) == "J"
    assert chosen_letter("B then C", 2) == "B"
    assert chosen_letter("Answer: J", 9) == ""
    assert chosen_letter("Answer: I think it is B", 10) == "B"
    assert chosen_letter("Answer: I", 10) == "I"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("\\boxed{no} \\boxed{ YES }", "yes"),
        ("\\boxed{yes} \\boxed{maybe}", ""),
        ("\\boxed{yes, no}", ""),
        ("yes", ""),
        ("\\boxed{0}", "no"),
        ("\\boxed{yes", ""),
        ("\\boxed{Yes.}", "yes"),
        ("\\boxed{\\textbf{yes}}", "yes"),
        ("\\boxed{\\text{no}}", "no"),
        ("\\boxed{\\mathrm{yes}}.", "yes"),
        ("\\boxed{\\textbf{\\text{No.}}}", "no"),
        ("\\boxed {yes}", "yes"),
        ("\\boxed{\\text{not yes}}", ""),
        ("\\boxed{.1}", ""),
        ("\\boxed{\\text{yes}\\text{no}}", ""),
    ],
)
def test_yes_and_no_are_read_in_the_last_box_alone(text: str, word: str) -> None:
    assert yes_or_no(text) == word


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"choices": ["a", "b"], "answer": 0}, "column 'question' is missing"),
        ({"question": "?", "choices": ["a"], "answer": 0}, "column 'choices' must hold 2 to 10 texts"),
        ({"question": "?", "choices": ["a", 5], "answer": 0}, "column 'choices' must hold texts"),
        ({"question": "?", "choices": ["a", "b"]}, "column 'answer' is missing"),
        (
            {"question": "?", "choices": ["a", "b"], "answer": True},
            "column 'answer' must hold an index or a letter",
        ),
        ({"question": "?", "passage": "p", "answer": None}, "column 'answer' must be true or false"),
        ({"question": "?", "answer": True}, "column 'passage' is missing"),
        (
            {"question": "?", "choices": ["a", "b"], "answerKey": "A"},
            "column 'choices' must hold text and label",
        ),
        (SCIKNOWEVAL | {"choices": {"text": ["a", "b"], "label": ["A"]}}, "one label for each text"),
        (SCIKNOWEVAL | {"answerKey": 2}, "column 'answerKey' must hold text"),
    ],
)
def test_a_row_of_another_layout_is_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises(RowError, match=message) as caught:
        TASK.check_row(row)
    assert not isinstance(caught.value, UnreadableReferenceError)


@pytest.mark.parametrize(
    "row",
    [
        MMLU | {"answer": 4},
        MMLU | {"answer": "E"},
        SCIKNOWEVAL | {"answerKey": "E"},
        BOOLQ | {"answer": "maybe"},
    ],
)
def test_an_answer_that_is_none_of_the_choices_is_unreadable(row: dict[str, Any]) -> None:
    with pytest.raises(UnreadableReferenceError):
        TASK.check_row(row)


def test_settings_that_the_task_does_not_have_are_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="task.options.layout: task 'multiple-choice' has no such option"
    ):
        MultipleChoiceTask.from_spec(TaskSettings("multiple-choice", options={"layout": "MMLU"}))


_PIECES = [
    '"answer"',
    ": ",
    '"',
    "answer",
    "Answer:",
    "A",
    "B",
    "c",
    "D",
    " ",
    "(",
    ")",
    "*",
    "x",
    "'",
    "\\boxed{",
    "}",
    "_",
    "a",
    " is ",
    ".",
    "not",
]


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join) | st.text(max_size=60))
def test_letters_agree_with_a_slow_reader(text: str) -> None:
    assert chosen_letter(text, 4) == _slow_letter(text)


def _slow_letter(text: str) -> str:
    """Try every position from the end, one rule after the other."""
    letter = r"(?:[A-Db-d]|a(?![ \t]+[A-Za-z]))(?!_*[A-Za-z0-9])"
    opening = r"[*(_\[]*(?:\\[a-z]+\{)*\(?\s*"
    rules = (
        r"""(?:"(?i:answer)"|'(?i:answer)')\s*:\s*(?:"\s*([A-Da-d])\s*"|'\s*([A-Da-d])\s*')""",
        rf"(?<!\w)(?i:answer)[*_]*\s*:\s*{opening}({letter})",
        rf"(?<!\w)(?i:answer)\s+is:?\s+{opening}({letter})(?=[)\]}}*_\"']*(?:[.]|\s*(?:\Z|\n)))",
        r"(?<![\w'\u2019])([A-D])(?![\w'\u2019])",
    )
    for pattern in rules:
        for start in range(len(text), -1, -1):
            found = re.compile(pattern, re.ASCII).match(text, start)
            if found:
                if "is:?" in pattern and re.search(r"(?<!\w)not(?!\w)", text[found.end() :], re.ASCII):
                    break
                return next(group for group in found.groups() if group).upper()
    return ""
