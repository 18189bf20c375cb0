"""Whether two expressions with powers too large for computer algebra are equal: compared modulo primes.

Only what is whole by its form is read: numbers, letters, plus, minus, times, divided by, and powers with a
whole number above. Values stay below the primes, so time is bounded by the text's length and the exponents'.

    sum     = product { ("+" | "-") product }
    product = [ "-" ] power { [ "*" | "/" ] power }
    power   = atom [ "^" "{" whole number up to EXPONENT_LIMIT "}" ]
    atom    = number | letter | bracket | "\\frac" bracket bracket
"""

import re
from collections.abc import Mapping

LENGTH_LIMIT = 300
DEPTH_LIMIT = 12
DIGITS_LIMIT = 40
EXPONENT_LIMIT = 1_000_000
"""Largest exponent of one power; powers of powers are computed one after the other."""

PRIMES = (
    328_859_441_831_918_393_065_320_744_420_250_772_509,
    288_976_861_188_233_778_685_145_625_618_229_661_177,
)
"""Of no special form, so that no short expression is equal to another one modulo both by its making."""

_TOKEN = re.compile(r"\s*(\\frac|\\pi|[0-9]+(?:\.[0-9]+)?|[A-Za-z]|[-+*/^(){}])\s*")
_EXPONENT = re.compile(r"-?[0-9]{1,7}")
_CLOSING = {"(": ")", "{": "}"}


class _UnreadableError(ValueError):
    """The text is not an expression of the grammar, or not within its bounds."""


def same_value(one: str, other: str) -> bool:
    """Whether both are expressions of the grammar, and equal for all values of their letters."""
    if max(len(one), len(other)) > LENGTH_LIMIT:
        return False
    try:
        return all(
            _Reader(one, prime, point).value() == _Reader(other, prime, point).value()
            for prime in PRIMES
            for point in range(2)
        )
    except _UnreadableError:
        return False


def _letters(prime: int, point: int) -> Mapping[str, int]:
    """A value for each letter, and for pi as one more."""
    names = [chr(code) for start in (ord("A"), ord("a")) for code in range(start, start + 26)]
    return {name: pow(7, 1_000 * point + 37 * n + 211, prime) for n, name in enumerate([*names, "\\pi"])}


class _Reader:
    """One pass over an expression, which gives its value modulo a prime."""

    def __init__(self, text: str, prime: int, point: int) -> None:
        self._tokens = _tokens(text)
        self._prime = prime
        self._letters = _letters(prime, point)
        self._at = 0

    def value(self) -> int:
        value = self._sum(0)
        if self._here():
            raise _UnreadableError
        return value

    def _here(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._here()
        self._at += 1
        return token

    def _sum(self, depth: int) -> int:
        value = self._product(depth)
        while self._here() in {"+", "-"}:
            sign = 1 if self._take() == "+" else -1
            value += sign * self._product(depth)
        return value % self._prime

    def _product(self, depth: int) -> int:
        sign = -1 if self._here() == "-" else 1
        if self._here() == "-":
            self._take()
        value = sign * self._power(depth)
        while (token := self._here()) and token not in {"+", "-", ")", "}", "^"}:
            if token in {"*", "/"}:
                self._take()
            elif token[0].isdigit():
                raise _UnreadableError  # `x 2` may be anything
            factor = self._power(depth)
            value = value * (self._inverse(factor) if token == "/" else factor) % self._prime
            if token == "/" and (self._here() not in {"", "+", "-", ")", "}", "*", "/"}):
                raise _UnreadableError  # `1/2x` may be a half of x, or one over 2x
        return value % self._prime

    def _power(self, depth: int) -> int:
        base = self._atom(depth)
        if self._here() != "^":
            return base
        self._take()
        exponent = self._exponent()
        if self._here() == "^":
            raise _UnreadableError
        return pow(base if exponent >= 0 else self._inverse(base), abs(exponent), self._prime)

    def _exponent(self) -> int:
        digits = self._take()
        if digits == "{":
            digits = self._take()
            if digits == "-":
                digits += self._take()
            if self._take() != "}":
                raise _UnreadableError
        if not _EXPONENT.fullmatch(digits) or abs(int(digits)) > EXPONENT_LIMIT:
            raise _UnreadableError
        return int(digits)

    def _atom(self, depth: int) -> int:
        token = self._take()
        if token == "\\frac":
            above = self._bracket(self._take(), depth)
            return above * self._inverse(self._bracket(self._take(), depth)) % self._prime
        if token in _CLOSING:
            return self._bracket(token, depth)
        if token in self._letters:
            return self._letters[token]
        whole, _, decimals = token.partition(".")
        if not whole.isdigit() or len(token) > DIGITS_LIMIT:
            raise _UnreadableError
        return int(whole + decimals) * self._inverse(10 ** len(decimals)) % self._prime

    def _bracket(self, opening: str, depth: int) -> int:
        if opening not in _CLOSING or depth == DEPTH_LIMIT:
            raise _UnreadableError
        value = self._sum(depth + 1)
        if self._take() != _CLOSING[opening]:
            raise _UnreadableError
        return value

    def _inverse(self, value: int) -> int:
        if not value % self._prime:
            raise _UnreadableError
        return pow(value, -1, self._prime)


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _UnreadableError
        tokens.append(match[1])
        position = match.end()
    return tokens
