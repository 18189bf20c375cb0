"""Which expressions computer algebra may get: known commands, small numbers and powers, little depth.

A short text such as `9^{9^{9}}` asks for more memory than there is. What is refused here is compared as text.
"""

import re
from math import prod

from dartes.tasks.math_words import COMPUTED

LENGTH_LIMIT = 300
DEPTH_LIMIT = 12
DIGITS_LIMIT = 20
EXPONENT_LIMIT = 1000
"""Largest exponent of a number, all towers and nested powers multiplied out."""

SUM_EXPONENT_LIMIT = 12
"""Largest exponent of a bracket that holds letters, which algebra might multiply out."""

FACTORIAL_LIMIT = 60
BINOMIAL_LIMIT = 200

POWER_REFUSAL = "a power that is too large"

_CHARACTERS = re.compile(r"[A-Za-z0-9\\{}()\[\]+\-*/^_=<>,.|! ]*")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_SUBSCRIPT = re.compile(r"_(?:\{[0-9A-Za-z]{1,8}\}|[0-9A-Za-z])")
_BASE = re.compile(r"[0-9)}\]] ?_")
_DIGITS = re.compile(r"[0-9]+")
_BINOMIAL = re.compile(r"\\binom ?\{([^{}]*)\} ?\{([^{}]*)\}")
_LONG_E_NOTATION = re.compile(r"[0-9.][eE][+-]?[0-9]{3}")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{5,}")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def refusal(text: str) -> str:
    """Why an expression is not computed with, or nothing."""
    if not text or len(text) > LENGTH_LIMIT:
        return "too long"
    if not _CHARACTERS.fullmatch(text) or _WORD.search(text):
        return "not an expression"
    if any(name not in COMPUTED for name in _COMMAND.findall(text)):
        return "a command that is not computed with"
    if "\\" in _COMMAND.sub("", text) or "_" in _SUBSCRIPT.sub("", text) or _BASE.search(text):
        return "not an expression"
    if any(len(digits) > DIGITS_LIMIT for digits in _DIGITS.findall(text)):
        return "a number that is too long"
    if _LONG_E_NOTATION.search(text):
        return "a number that is too large"
    pairs = _pairs(text)
    if pairs is None:
        return "brackets that do not match, or too deep"
    if _factorials_too_large(text, pairs) or _binomials_too_large(text):
        return "a factorial or binomial that is too large"
    return POWER_REFUSAL if _powers_too_large(text, pairs) else ""


def _pairs(text: str) -> dict[int, int] | None:
    """Where each opening bracket's partner is, and the reverse."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for position, character in enumerate(text):
        if character in _PAIRS:
            opened.append(position)
            if len(opened) > DEPTH_LIMIT:
                return None
        elif character in _PAIRS.values():
            if not opened:
                return None
            found[position] = opened.pop()
            found[found[position]] = position
    return None if opened else found


def _before(text: str, position: int, pairs: dict[int, int]) -> str:
    """What an operator at `position` applies to."""
    end = position
    while end and text[end - 1] == " ":
        end -= 1
    if not end:
        return ""
    if end - 1 in pairs:
        start = pairs[end - 1]
        if command := re.search(r"\\[A-Za-z]+ ?(?:\{[^{}]*\}|\[[^\[\]]*\])? ?$", text[:start]):
            start = command.start()
        return text[start:end]
    found = re.search(r"(?:\\[A-Za-z]+|[0-9.]+|.)$", text[:end])
    return found[0] if found else ""


def _behind(text: str, position: int, pairs: dict[int, int]) -> str:
    start = position + 1
    while start < len(text) and text[start] == " ":
        start += 1
    if start in pairs:
        return text[start : pairs[start] + 1]
    found = re.compile(r"\\[A-Za-z]+|-?[0-9]+|.").match(text, start)
    return found[0] if found else ""


def _bound(text: str) -> int:
    """No value made of these numbers by plus, minus, times and divided by is larger."""
    return prod(int(digits) + 1 for digits in _DIGITS.findall(text))


def _powers_too_large(text: str, pairs: dict[int, int]) -> bool:
    for position, character in enumerate(text):
        if character != "^":
            continue
        base, exponent = _before(text, position, pairs), _behind(text, position, pairs)
        if not exponent or "!" in exponent or "\\binom" in exponent or "\\exp" in exponent:
            return True
        if exponent.count("^") > 1 or (re.search(r"[0-9)}\]] ?\^", exponent)):
            return True
        # Powers inside the base multiply; inside the exponent a letter stands below them.
        inner = prod(_bound(_behind(base, at, _pairs(base) or {})) for at, it in enumerate(base) if it == "^")
        size = _bound(exponent) * inner
        letters = re.search(r"[A-Za-z]", _COMMAND.sub("", base)) is not None
        is_group = len(base) > 1 and base[-1] in ")]}"
        if size > (SUM_EXPONENT_LIMIT + 1 if letters and is_group else EXPONENT_LIMIT + 1):
            return True
    return False


def _factorials_too_large(text: str, pairs: dict[int, int]) -> bool:
    for position, character in enumerate(text):
        if character == "!":
            base = _before(text, position, pairs)
            if not base or "!" in base or "^" in base or "\\" in base or _bound(base) > FACTORIAL_LIMIT + 1:
                return True
    return False


def _binomials_too_large(text: str) -> bool:
    found = _BINOMIAL.findall(text)
    if len(found) != text.count("\\binom"):
        return True
    return any("^" in one or "!" in one or _bound(one) > BINOMIAL_LIMIT + 1 for pair in found for one in pair)
