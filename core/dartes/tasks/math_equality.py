"""Whether an answer says the same as a reference, as mathematics: exact where it can be, else by math-verify.

Most answers are numbers, and those never reach computer algebra.
"""

import re
from fractions import Fraction
from functools import lru_cache

from dartes.tasks.math_bounds import POWER_REFUSAL, refusal
from dartes.tasks.math_latex import LENGTH_LIMIT, Number, normalise, number, squeezed
from dartes.tasks.math_powers import same_value
from dartes.tasks.math_structure import Group, Node, assigned, in_order, same, structure, written
from dartes.tasks.math_words import MULTIPLIERS

DECIMAL_DIGITS = 6
"""Significant digits from which a decimal may stand for the fraction that rounds to it."""

CACHED = 4096

_RELATION = re.compile(r"[=<>]|\\(?:leq|geq|neq|in)(?![A-Za-z])")
_TEXT = re.compile(r"\\text ?\{([^{}]*)\}")
# A number in another base is its digits: the answer may leave the base out, but not name another one.
_BASED = re.compile(r"(-?[0-9A-Z]+)_\{[0-9]{1,3}\}")
_SCALE = re.compile(
    r"(?:\\circ|\u00b0)\s{0,4}\}?\s{0,4}(?:\\(?:text|mathrm|textrm|mbox)\s{0,4}\{\s{0,4})?([CF])(?![A-Za-z])"
)
_LABELLED = re.compile(
    r"\\text ?\{\(([A-J])\)\}\s*((?=[^0-9]{0,40}[0-9])[^,\s/|&+*=<>](?:(?!\\text ?\{\().)*)"
)
_LETTER_IN_BRACKETS = re.compile(r"\(([A-Za-z])\)")


@lru_cache(CACHED)
def is_readable(reference: str) -> bool:
    """Whether some answer can be right: there is something, and its braces match."""
    text = squeezed(normalise(reference))
    return bool(text) and text.count("{") == text.count("}")


@lru_cache(CACHED)
def equal(reference: str, answer: str, tolerance: Fraction | None = None) -> bool:
    """Whether an answer equals a reference, both as written in a box.

    Parameters
    ----------
    tolerance
        For numbers: the largest difference that still counts as equal.
    """
    one, other = normalise(reference), normalise(answer)
    if not other or not one or _scales_differ(reference, answer):
        return False
    if squeezed(one) == squeezed(other):
        return True
    if max(len(one), len(other)) > LENGTH_LIMIT:
        return False
    (label, labelled), (other_label, other_labelled) = _without_label(one), _without_label(other)
    if label and other_label and label != other_label:
        return False
    if _is_letter(one, other_label) or _is_letter(other, label):
        return True
    one, other = _without_approximation(labelled), _without_approximation(other_labelled)
    return same(*_comparable(one, other), _Comparison(tolerance).same)


def _comparable(one: str, other: str) -> tuple[Node, Node]:
    """The forms of two texts, without the name that a value is given where this says nothing."""
    (left, left_value), (right, right_value) = assigned(one), assigned(other)
    # `x=5` is as good as `5`, but an equation is not what stands behind its equals sign.
    if (
        left == right
        or (not left and not _RELATION.search(one))
        or (not right and not _RELATION.search(other))
    ):
        one, other = left_value, right_value
    elif (left or right).startswith("(") and not (left and right):  # `(x,y)=(1,2)` against `x=1, y=2`
        names = left or right
        return in_order(structure(left_value), names), in_order(structure(right_value), names)
    first, second = structure(one), structure(other)
    if isinstance(first, Group) and first.kind == "()":
        second = in_order(second)
    elif isinstance(second, Group) and second.kind == "()":
        first = in_order(first)
    return first, second


@lru_cache(CACHED)
def key(answer: str) -> str:
    """One text for an answer: equal for equal texts, numbers, and lists in any order."""
    text = normalise(answer)
    if len(text) > LENGTH_LIMIT:
        return text
    value = assigned(text)[1]
    return written(structure(_words(value) if "\\text" in value else value))


class _Comparison:
    """Compares single expressions under one tolerance."""

    def __init__(self, tolerance: Fraction | None) -> None:
        self._tolerance = tolerance

    def same(self, one: str, other: str) -> bool:
        if one == other:
            return bool(one)
        if (based := _BASED.fullmatch(one)) or _BASED.fullmatch(other):
            return based is not None and based[1] == other
        first, second = number(one), number(other)
        if first is not None and second is not None:
            return numbers_equal(first, second, self._tolerance)
        if "\\text" in one or "\\text" in other:
            return bool(_words(one)) and _words(one) == _words(other)
        if _spoken(one) and _spoken(one) == _spoken(other):
            return True
        if refusals := {refusal(one), refusal(other)} - {""}:
            return refusals == {POWER_REFUSAL} and same_value(one, other)
        from dartes.tasks.math_symbolic import equal as symbolically_equal

        return symbolically_equal(one, other)


def numbers_equal(reference: Number, answer: Number, tolerance: Fraction | None = None) -> bool:
    """Exactly, or within the tolerance; a percentage also equals the number before its sign."""
    one, other = reference.value, answer.value
    if reference.percent != answer.percent:
        part = Fraction(1, 100)
        return other in ((one * part, one) if reference.percent else (one / part, one))
    if one == other:
        return True
    if tolerance is not None:
        return abs(one - other) <= tolerance
    return _rounds_to(answer, one, reference) or _rounds_to(reference, other, answer)


def _rounds_to(decimal: Number, value: Fraction, of: Number) -> bool:
    """Whether a decimal of enough digits is what a fraction rounds to."""
    if decimal.places is None or decimal.significant < DECIMAL_DIGITS or of.places is not None:
        return False
    return 2 * abs(decimal.value - value) <= Fraction(1, 10) ** decimal.places


def _scales_differ(one: str, other: str) -> bool:
    """Whether one is in degrees Celsius and the other in degrees Fahrenheit."""
    first, second = _SCALE.search(one), _SCALE.search(other)
    return first is not None and second is not None and first[1] != second[1]


def _without_label(text: str) -> tuple[str, str]:
    """The letter of a choice in front of its value, if there is one, and the value."""
    match = _LABELLED.fullmatch(text)
    if match is None or _is_list(match[2]) or set(re.findall(r"[a-z]+", match[2].lower())) & MULTIPLIERS:
        return "", text
    return match[1], match[2]


def _is_letter(text: str, label: str) -> bool:
    """Whether a text is a choice's letter alone, the one that the other text begins with."""
    return bool(label) and _spoken(_TEXT.sub(r"\1", text)) == label.casefold()


def _is_list(text: str) -> bool:
    form = structure(text)
    return isinstance(form, Group) and form.kind == "list"


def _without_approximation(text: str) -> str:
    """What stands before `\\approx`, where that really rounds to the number behind it; else all."""
    exact, sign, behind = text.partition("\\approx")
    rounded = number(behind)
    if not sign or rounded is None or rounded.percent:
        return text
    half = Fraction(1, 2) / Fraction(10) ** (rounded.places or 0)
    value = assigned(exact)[1]
    if (known := number(value)) is not None:
        return exact.strip() if abs(known.value - rounded.value) <= half and not known.percent else text
    from dartes.tasks.math_symbolic import is_near

    return exact.strip() if is_near(value, rounded.value, half) else text


def _words(text: str) -> str:
    """Text as words: case, spaces and brackets around one letter do not matter."""
    return _spoken(_TEXT.sub(r"\1", text)) or squeezed(_TEXT.sub(r"\1", text)).casefold()


def _spoken(text: str) -> str:
    plain = "".join(text.split())
    if match := _LETTER_IN_BRACKETS.fullmatch(plain):
        plain = match[1]
    return plain.casefold() if plain.isalpha() else ""
