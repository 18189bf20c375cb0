"""Numbers and blocks are read out of any text exactly, in bounded time."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.tasks.blocks import after_think_block, is_think_then, last_answer, last_box, opened_tag
from dartes.tasks.numbers import parse_decimal


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("72", 72),
        ("-3.50", Fraction(-7, 2)),
        ("+.5", Fraction(1, 2)),
        ("18.", 18),
        ("1,234,567", 1_234_567),
        ("2e3", 2_000),
        ("1e-2", Fraction(1, 100)),
    ],
)
def test_a_decimal_number_has_its_exact_value(word: str, value: Fraction) -> None:
    assert parse_decimal(word) == value


@pytest.mark.parametrize(
    "word",
    [
        *("", ".", "-", ",", "inf", "-Infinity", "nan", "1e999", "1e9999999", "0x10", "1_000", "$5", "5$"),
        *("1/2", "\u0663", "\uff15", "1" * 65, "--1", "1 2", "5\n", "\ud800"),
    ],
)
def test_what_is_not_a_plain_decimal_number_is_refused(word: str) -> None:
    assert parse_decimal(word) is None


@given(st.text(alphabet="0123456789+-.,eE ٣n\n", max_size=12))
def test_numbers_agree_with_a_slow_reader(word: str) -> None:
    # The slow reader: Python's own float, for words that hold nothing but ASCII digits and signs.
    plain = word.replace(",", "")
    exponent = re.search(r"[eE][+-]?(.*)", plain)
    expected: float | None
    try:
        expected = float(plain) if plain.isascii() and plain == plain.strip() and "n" not in plain else None
    except ValueError:
        expected = None
    if exponent and len(exponent[1]) > 2:
        expected = None
    found = parse_decimal(word)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert float(found) == expected


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("<answer>1+2</answer>", "1+2"),
        ("<answer>1</answer> no, <answer>2</answer>", "2"),
        ("<answer>1</answer><answer>2", "1"),
        ("<answer>a</answer>b</answer>", "a"),
        ("<answer>a<answer>b</answer>", "b"),
        ("<answer></answer>", ""),
        ("</answer><answer>", None),
        ("<answer>", None),
        ("", None),
    ],
)
def test_the_last_complete_answer_block_counts(text: str, inside: str | None) -> None:
    assert last_answer(text) == inside


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (r"\boxed{1+2}", "1+2"),
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1", None),
        (r"\boxed{1} and \boxed{2", None),
        (r"boxed{1}", None),
        ("", None),
    ],
)
def test_the_last_box_counts_with_its_nested_braces(text: str, inside: str | None) -> None:
    assert last_box(text) == inside


def test_a_think_block_is_what_closes_first() -> None:
    assert after_think_block("<think>a</think>b</think>c") == "b</think>c"
    assert after_think_block("<think>a") is None
    assert after_think_block("a</think><think>") is None
    assert opened_tag("Solve.\n<think>\n") == "<think>"
    assert opened_tag("Think in <think> tags.") == ""


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("<think>a\nb</think>\n<answer>1</answer>", True),
        ("<think></think>\n<answer>1</answer>", True),
        ("<think>a</think><answer>1</answer>", False),
        ("<think>a</think>\n\n<answer>1</answer>", False),
        ("<think>a</think>\n<answer>1</answer>.", False),
        (" <think>a</think>\n<answer>1</answer>", False),
        ("<think>a<think>b</think>\n<answer>1</answer>", False),
        ("<think><answer>2</answer></think>\n<answer>1</answer>", False),
        ("<answer>1</answer>", False),
    ],
)
def test_the_exact_form_is_one_think_block_a_newline_and_one_answer(text: str, exact: bool) -> None:
    inside = last_answer(text) or ""
    assert is_think_then(text, "<answer>", f"<answer>{inside}</answer>") is exact
