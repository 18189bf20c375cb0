"""Prompt templates replace names of columns and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.tasks.base import Message, Row, RowError
from dartes.tasks.templates import Template, build_prompt


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{a}+{b}=", "1+2="),
        ("no columns", "no columns"),
        ("\\boxed{} and {1} and { a } and {a!r} and {a.real} and {a[0]} and {a:>9}", None),
        ('{"answer": "X"} for {a}', '{"answer": "X"} for 1'),
        ("{{a}} is {a}", "{a} is 1"),
        ("{numbers} {text}", "[3, 4] {a}"),
        ("{flag} {half} {nothing}", "true 0.5 null"),
        ("{a", "{a"),
    ],
)
def test_only_a_bare_column_name_in_braces_is_replaced(text: str, filled: str | None) -> None:
    row: Row = {"a": 1, "b": 2, "numbers": [3, 4], "text": "{a}", "flag": True, "half": 0.5, "nothing": None}
    assert Template(text).fill(row) == (text if filled is None else filled)


@given(st.text())
def test_what_is_filled_in_is_never_read_as_a_template(value: str) -> None:
    assert Template("<{x}|{x}>").fill({"x": value, "y": "no"}) == f"<{value}|{value}>"


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    template = Template("{question} {hint}")
    assert template.columns == {"question", "hint"}
    with pytest.raises(RowError, match=r"column 'hint' is missing \(there are: answer, question\)"):
        template.check({"question": "q", "answer": "a"})


def test_a_prompt_is_raw_or_a_chat_with_a_system_message_where_there_is_one() -> None:
    template = Template("{a}?")
    assert build_prompt(template, None, {"a": 1}, chat=False) == "1?"
    assert build_prompt(template, None, {"a": 1}, chat=True) == (Message("user", "1?"),)
    assert build_prompt(template, "Be brief.", {"a": 1}, chat=True) == (
        Message("system", "Be brief."),
        Message("user", "1?"),
    )
