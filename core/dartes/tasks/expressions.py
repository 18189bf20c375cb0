"""Evaluates an arithmetic expression found in untrusted text, exactly and in bounded time and memory.

A tokenizer and a recursive-descent parser over `+ - * /`, brackets and whole numbers; values are exact
fractions. No power, no names, no calls: nothing of Python is reachable.

    sum     = product { ("+" | "-") product }
    product = signed { ("*" | "/") signed }
    signed  = { "+" | "-" } atom
    atom    = number | "(" sum ")"
"""

import re
from dataclasses import dataclass
from fractions import Fraction

LENGTH_LIMIT = 1_000
"""Characters of the longest expression that is read."""

DEPTH_LIMIT = 32
"""Brackets that may be open at once."""

DIGITS_LIMIT = 18
"""Digits of the longest number."""

BITS_LIMIT = 1_024
"""Bits of the largest numerator or denominator on the way."""

_TOKEN = re.compile(r" *([0-9]+|[-+*/()])")


class ExpressionError(ValueError):
    """The text is not an expression within the bounds; the message says why."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An expression's exact value and the numbers written in it, in their order."""

    value: Fraction
    numbers: tuple[int, ...]


def evaluate(text: str) -> Evaluation:
    """The value of an expression; spaces around and between its parts are ignored.

    Raises
    ------
    ExpressionError
        For anything but an expression within the limits above, and for a division by zero.
    """
    if len(text) > LENGTH_LIMIT:
        raise ExpressionError(f"longer than {LENGTH_LIMIT} characters")
    parser = _Parser(_tokens(text))
    value = parser.sum(depth=0)
    if parser.here:
        raise ExpressionError(f"unexpected '{parser.here}'")
    return Evaluation(value, tuple(parser.numbers))


def _tokens(text: str) -> list[str]:
    tokens = []
    position = 0
    end = len(text.rstrip(" "))
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ExpressionError("something other than digits, + - * /, brackets and spaces")
        tokens.append(match[1])
        position = match.end()
    return tokens


class _Parser:
    """One pass over the tokens; `here` is the token to be read next, empty at the end."""

    def __init__(self, tokens: list[str]) -> None:
        self._rest = iter(tokens)
        self.here = next(self._rest, "")
        self.numbers: list[int] = []

    def _take(self) -> str:
        token, self.here = self.here, next(self._rest, "")
        return token

    def sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while self.here in ("+", "-"):
            plus = self._take() == "+"
            term = self._product(depth)
            value = _bounded(value + term if plus else value - term)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._signed(depth)
        while self.here in ("*", "/"):
            times = self._take() == "*"
            factor = self._signed(depth)
            if not times and not factor:
                raise ExpressionError("division by zero")
            value = _bounded(value * factor if times else value / factor)
        return value

    def _signed(self, depth: int) -> Fraction:
        negative = False
        while self.here in ("+", "-"):
            negative ^= self._take() == "-"
        value = self._atom(depth)
        return -value if negative else value

    def _atom(self, depth: int) -> Fraction:
        token = self._take()
        if token == "(":
            if depth == DEPTH_LIMIT:
                raise ExpressionError(f"brackets more than {DEPTH_LIMIT} deep")
            value = self.sum(depth + 1)
            if self._take() != ")":
                raise ExpressionError("a bracket that does not close")
            return value
        if not token.isdigit():
            raise ExpressionError(f"a number is missing before '{token}'" if token else "it ends too early")
        if len(token) > DIGITS_LIMIT or (token[0] == "0" and len(token) > 1):
            raise ExpressionError(f"a number with a leading zero or more than {DIGITS_LIMIT} digits")
        self.numbers.append(int(token))
        return Fraction(int(token))


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > BITS_LIMIT:
        raise ExpressionError(f"a value of more than {BITS_LIMIT} bits")
    return value
