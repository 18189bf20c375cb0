"""Mathematical answers against slow independent checkers: fractions, and floating point for expressions."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dartes.tasks.base import TaskSettings
from dartes.tasks.math import MathTask
from dartes.tasks.math_equality import equal
from dartes.tasks.math_latex import normalise, number

pytestmark = pytest.mark.slow

TASK = MathTask.from_spec(TaskSettings("math"))


def passes(reference: str, answer: str) -> bool:
    row = {"problem": "?", "answer": reference}
    TASK.check_row(row)
    return TASK.grade(row, f"So it is \\boxed{{{answer}}}.").passed


_PIECES = [
    "1",
    "2",
    "12",
    "0",
    ".",
    ",",
    "-",
    "+",
    "/",
    " ",
    "\\frac",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "\\{",
    "\\}",
    "x",
    "=",
    "\\text{",
    "%",
    "^",
    "\\sqrt",
    "\\pm",
    "\\cup",
    "<",
    "\\leq",
    "\\pi",
    "!",
    "_",
    "\\\\",
    "&",
    "\\begin{pmatrix}",
    "\\end{pmatrix}",
    "$",
    "\\%",
    "\ud800",
    "\u0661",
    "e",
    "10^",
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=14).map("".join) | st.text(max_size=40))
def test_any_text_in_a_box_gets_a_grade_and_only_equals_itself(text: str) -> None:
    row = {"problem": "?", "answer": "\\frac{355}{113}"}
    grade = TASK.grade(row, f"\\boxed{{{text}}}")
    assert grade.auxiliary == 0.0
    if grade.passed:
        assert _slow_value(text) == Fraction(355, 113)
    assert normalise(normalise(text)) is not None
    if normalise(text).strip():
        assert equal(text, text)


@dataclass(frozen=True, slots=True)
class Term:
    """An expression as LaTeX, and its value where x is 0.7 and y is 1.9."""

    text: str
    value: float


def _sum(one: Term, other: Term) -> Term:
    return Term(f"({one.text}+{other.text})", one.value + other.value)


def _product(one: Term, other: Term) -> Term:
    return Term(f"({one.text})({other.text})", one.value * other.value)


def _quotient(one: Term, other: Term) -> Term:
    return Term(f"\\frac{{{one.text}}}{{{other.text}}}", one.value / other.value if other.value else math.nan)


def _root(one: Term, _: Term) -> Term:
    return Term(f"\\sqrt{{{one.text}}}", math.sqrt(one.value) if one.value >= 0 else math.nan)


def _square(one: Term, _: Term) -> Term:
    return Term(f"({one.text})^2", one.value**2)


_LEAVES = st.sampled_from(
    [Term("x", 0.7), Term("y", 1.9), Term("2", 2.0), Term("3", 3.0), Term("\\pi", math.pi)]
)
_TERMS = st.recursive(
    _LEAVES,
    lambda inner: st.builds(
        lambda make, one, other: make(one, other),
        st.sampled_from([_sum, _product, _quotient, _root, _square]),
        inner,
        inner,
    ),
    max_leaves=4,
)


@settings(max_examples=40, deadline=None)
@given(_TERMS, _TERMS)
def test_no_expression_passes_whose_value_is_another(reference: Term, answer: Term) -> None:
    """The independent checker is arithmetic in floating point, term by term."""
    if passes(reference.text, answer.text) and not math.isnan(reference.value + answer.value):
        assert answer.value == pytest.approx(reference.value, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(_TERMS, _TERMS)
def test_a_sum_or_product_may_be_written_in_another_order(one: Term, other: Term) -> None:
    assert passes(_sum(one, other).text, _sum(other, one).text)
    assert passes(_product(one, other).text, _product(other, one).text)


_NUMBERS = st.fractions(-50, 50, max_denominator=12)


@settings(max_examples=150, deadline=None)
@given(_NUMBERS, _NUMBERS, st.sampled_from(["p/q", "frac", "mixed", "decimal", "percent", "spaced"]))
def test_numbers_are_equal_exactly_where_their_fractions_are(
    reference: Fraction, value: Fraction, style: str
) -> None:
    answer = _written(value, style)
    expected = _slow_value(answer)
    assert expected is not None
    reached = {expected, expected * 100} if style == "percent" else {expected}
    assert passes(str(reference), answer) == (reference in reached)


def _written(value: Fraction, style: str) -> str:
    sign, size = "-" if value < 0 else "", abs(value)
    whole, rest = divmod(size.numerator, size.denominator)
    if style == "frac":
        return f"{sign}\\dfrac{{{size.numerator}}}{{{size.denominator}}}"
    if style == "mixed" and whole and rest:
        return f"{sign}{whole}\\frac{{{rest}}}{{{size.denominator}}}"
    if style == "spaced" and whole and rest:
        return f"{sign}{whole} {rest}/{size.denominator}"
    if style == "decimal" and not 10**4 % size.denominator:
        return f"{sign}{float(size)}"
    if style == "percent":
        return f"{sign}{size.numerator}/{size.denominator}\\%"
    return f"{sign}{size.numerator}/{size.denominator}"


def _slow_value(text: str) -> Fraction | None:
    """What a text says as a number, read word by word."""
    plain = text.replace("$", "").strip()
    percent = plain.endswith("%")
    plain = plain.removesuffix("%").removesuffix("\\").strip()
    plain = re.sub(r"\\d?frac\{(-?[0-9]+)\}\{([0-9]+)\}", r" \1/\2", plain)
    negative = plain.startswith("-")
    try:
        parts = [Fraction(word) for word in plain.removeprefix("-").removeprefix("+").split()]
    except (ValueError, ZeroDivisionError):
        return None
    if not 1 <= len(parts) <= 2:
        return None
    value = sum(parts, Fraction(0)) / (100 if percent else 1)
    return -value if negative else value


@given(st.text(alphabet="0123456789.,-+/eE% ", max_size=12))
def test_numbers_are_read_as_a_slow_reader_reads_them(text: str) -> None:
    found = number(text)
    if found is None:
        return
    plain = text.strip().removesuffix("%").strip().replace(",", "")
    whole, slash, below = plain.rpartition("/")
    if slash:
        words = [*whole.replace("-", " -").replace("+", " ").split()]
        assert found.value == _mixed(whole, below)
        assert words
    else:
        assert found.value == Fraction(plain.replace(" ", ""))


def _mixed(above: str, below: str) -> Fraction:
    negative = above.strip().startswith("-")
    words = above.strip().lstrip("+-").split()
    first = Fraction(words[0]) if len(words) == 2 and len(words[1]) != 0 else Fraction(0)
    top = Fraction(words[-1]) if len(words) == 2 else Fraction("".join(words))
    value = first + top / Fraction(below.strip().replace(" ", ""))
    return -value if negative else value
