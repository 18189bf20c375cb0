"""Own scorers, for puzzles whose scorer in `reasoning-gym` would run text or take wrong answers for right.

Each gives 1.0 or 0.0, unless it says otherwise. Answers are parsed within bounds and compared; nothing in
them is executed.
"""

import json
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from dartes.tasks.base import JSON
from dartes.tasks.expressions import ExpressionError, evaluate
from dartes.tasks.math_words import UNITS
from dartes.tasks.numbers import parse_decimal
from dartes.tasks.puzzle_algebra import AlgebraError, same_function, same_up_to_constant
from dartes.tasks.puzzle_library import Scorer

_MOST_DIGITS = 400
_PROBABILITY = re.compile(r"[0-9]{1,20}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?|[0-9]{1,20}\s*/\s*[0-9]{1,20}")
_NEARNESS = Fraction(1, 10_000)
_QUANTITY = re.compile(
    r"(?:(?:so )?the (?:final )?answer is:?|answer:|=)?\s*[*$]{0,3}(?:\\boxed\{)?[$\u20ac\u00a3]?"
    r"([+-]?[0-9][0-9,]*(?:\.[0-9]+)?)\}?[*$]{0,3}%?\s*([a-z]{0,20}(?: [a-z]{1,20})?)\.?",
    re.IGNORECASE,
)
_QUANTITY_LIMIT = 120
_ORDERED_OTHERWISE = 0.2
"""Least score for the right words in another order."""


def _exact(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    del metadata
    return float(reference is not None and answer.strip() == reference.strip())


def _any_case(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    del metadata
    return float(reference is not None and answer.strip().lower() == reference.strip().lower())


def _without_blanks(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    del metadata
    return float(reference is not None and "".join(answer.split()) == "".join(reference.split()))


def _whole_number(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    """Whole numbers in any of Python's notations: 0x, 0o, 0b or decimal."""
    del metadata
    if reference is None or len(answer) > _MOST_DIGITS:
        return 0.0
    try:
        return float(int(answer.strip(), 0) == int(reference.strip(), 0))
    except ValueError:
        return 0.0


def _probability(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    """A decimal or a fraction within a ten thousandth of the reference, in proportion to it.

    The library's scorer also takes any beginning of the number for all of it, 0 for 0.25.
    """
    del metadata
    texts = ["".join(text.split()) for text in (answer, reference or "")]
    try:
        if not all(_PROBABILITY.fullmatch(text) for text in texts):
            return 0.0
        found, wanted = map(Fraction, texts)
    except ZeroDivisionError:
        return 0.0
    return float(abs(found - wanted) <= _NEARNESS * wanted)


def _same_json(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    if _exact(answer, reference, metadata):
        return 1.0
    try:
        return float(_typed(json.loads(answer)) == _typed(json.loads(reference or "")))
    except (ValueError, RecursionError):
        return 0.0


def _typed(value: Any) -> str:
    """JSON with sorted keys: equal for equal values, and true is not 1."""
    return json.dumps(value, sort_keys=True)


def _same_numbers(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    """JSON lists of numbers, or of texts that are numbers, in the same order."""
    del metadata
    try:
        found = [float(number) for number in json.loads(answer.replace("'", '"'))]
        wanted = [float(number) for number in json.loads((reference or "").replace("'", '"'))]
    except (ValueError, TypeError, RecursionError, OverflowError):
        return 0.0
    return float(found == wanted)


def _arithmetic(answer: str, numbers: JSON, target: JSON) -> float:
    """Each number used exactly once, and the target reached exactly."""
    if not isinstance(numbers, list) or not isinstance(target, int):
        raise TypeError("metadata lacks numbers or target")
    try:
        found = evaluate(answer.strip())
    except ExpressionError:
        return 0.0
    return float(found.value == target and sorted(found.numbers) == sorted(numbers))


def _countdown(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    del reference
    return _arithmetic(answer, metadata["numbers"], metadata["target"])


def _puzzle24(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    del reference
    return _arithmetic(answer, metadata["numbers"], 24)


def _queens(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    del reference
    valid = metadata["valid_answers"]
    return float(isinstance(valid, list) and answer.strip() in valid)


def _polynomial(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    del metadata
    try:
        return float(same_function(answer, reference or ""))
    except AlgebraError:
        return 0.0


def _antiderivative(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    """Equal to the reference up to a constant in the variable."""
    variable = metadata["variable"]
    if not isinstance(variable, str) or len(variable) != 1:
        raise TypeError("metadata lacks the variable")
    try:
        return float(same_up_to_constant(answer, reference or "", variable))
    except (AlgebraError, KeyError):
        return 0.0


def _quantity(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    """One number, with a currency sign or a unit; the library's scorer takes the first number of any text."""
    del metadata
    match = _QUANTITY.fullmatch(answer.strip()) if len(answer) <= _QUANTITY_LIMIT else None
    if match is None or not set(match[2].lower().split()) <= UNITS:
        return 0.0
    wanted = parse_decimal((reference or "").strip())
    return float(wanted is not None and parse_decimal(match[1]) == wanted)


def _sorted_words(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
    """The share of words in their places, of the longer list; at least 0.2 for the right words.

    The library's scorer takes no notice of words behind the right list.
    """
    del reference
    wanted = metadata["sorted_words"]
    if not isinstance(wanted, list) or not wanted:
        raise TypeError("metadata lacks the sorted words")
    found = [word.strip() for word in answer.split(",")]
    right_places = sum(one == other for one, other in zip(found, wanted, strict=False))
    share: float = right_places / max(len(found), len(wanted))
    right_words = sorted(found) == sorted(map(str, wanted))
    return max(share, _ORDERED_OTHERWISE) if right_words else share


OWN: Mapping[str, Callable[[str, str | None, Mapping[str, JSON]], float]] = {
    "binary_matrix": _exact,
    "bitwise_arithmetic": _whole_number,
    "coin_flip": _probability,
    "codeio": _same_json,
    "countdown": _countdown,
    "figlet_font": _any_case,
    "game_of_life_halting": _any_case,
    "gsm_symbolic": _quantity,
    "intermediate_integration": _without_blanks,
    "letter_jumble": _any_case,
    "n_queens": _queens,
    "number_sorting": _same_numbers,
    "polynomial_multiplication": _polynomial,
    "puzzle24": _puzzle24,
    "simple_integration": _antiderivative,
    "spell_backward": _any_case,
    "spiral_matrix": _exact,
    "string_insertion": _exact,
    "word_sorting": _sorted_words,
}
"""Own scorer by the puzzle's name."""


def own_scorer(name: str) -> Scorer | None:
    """The own scorer of a puzzle; None where it has none."""
    return OWN.get(name)
