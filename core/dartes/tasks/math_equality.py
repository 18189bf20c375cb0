"""Whether an answer says the same as a reference, as mathematics: exact where it can be, else by math-verify.

Most answers are numbers, and those never reach computer algebra.
"""

import re
from fractions import Fraction
from functools import lru_cache

from dartes.tasks.math_bounds import refusal
from dartes.tasks.math_latex import LENGTH_LIMIT, Number, normalise, number, squeezed
from dartes.tasks.math_structure import assigned, same, structure, written

DECIMAL_DIGITS = 6
"""Significant digits from which a decimal may stand for the fraction that rounds to it."""

CACHED = 4096

_RELATION = re.compile(r"[=<>]|\\(?:leq|geq|neq|in)(?![A-Za-z])")
_TEXT = re.compile(r"\\text ?\{([^{}]*)\}")
# A number in another base is its digits: the answer may leave the base out, but not name another one.
_BASED = re.compile(r"(-?[0-9A-Z]+)_\{[0-9]{1,3}\}")
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
    if not other or not one:
        return False
    if squeezed(one) == squeezed(other):
        return True
    if max(len(one), len(other)) > LENGTH_LIMIT:
        return False
    (left, right), (left_value, right_value) = zip(assigned(one), assigned(other), strict=True)
    # `x=5` is as good as `5`, but an equation is not what stands behind its equals sign.
    if (
        left == right
        or (not left and not _RELATION.search(one))
        or (not right and not _RELATION.search(other))
    ):
        one, other = left_value, right_value
    return same(structure(one), structure(other), _Comparison(tolerance).same)


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
        if refusal(one) or refusal(other):
            return False
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


def _words(text: str) -> str:
    """Text as words: case, spaces and brackets around one letter do not matter."""
    return _spoken(_TEXT.sub(r"\1", text)) or squeezed(_TEXT.sub(r"\1", text)).casefold()


def _spoken(text: str) -> str:
    plain = "".join(text.split())
    if match := _LETTER_IN_BRACKETS.fullmatch(plain):
        plain = match[1]
    return plain.casefold() if plain.isalpha() else ""
