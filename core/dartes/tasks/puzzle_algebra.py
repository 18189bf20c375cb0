"""Whether two texts are the same polynomial or rational function: compared at points, modulo a large prime.

A tokenizer and a recursive-descent parser over `+ - * / **`, brackets, numbers and one-letter names. Numbers
stay below the prime whatever the text says, so time is linear in its length; nothing of Python is reachable.

    sum     = product { ("+" | "-") product }
    product = signed { ("*" | "/") signed }
    signed  = { "+" | "-" } power
    power   = atom [ ("**" | "^") whole number up to EXPONENT_LIMIT ]
    atom    = number | name | "(" sum ")"
"""

import re
from collections.abc import Mapping

PRIME = (1 << 127) - 1
LENGTH_LIMIT = 2_000
DEPTH_LIMIT = 32
DIGITS_LIMIT = 30
EXPONENT_LIMIT = 64
POINTS = 4
"""Points at which two functions are compared: different ones agree at all with no chance worth the name."""

_TOKEN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|[A-Za-z]|\*\*|[-+*/^()])")


class AlgebraError(ValueError):
    """The text is not an expression within the bounds; the message says why."""


def same_function(one: str, other: str) -> bool:
    """Whether two expressions are equal for all values of their names; raises `AlgebraError`."""
    return all(
        _value(one, names) == _value(other, names) for names in (_names(point) for point in range(POINTS))
    )


def same_up_to_constant(one: str, other: str, variable: str) -> bool:
    """Whether two expressions differ by nothing that depends on `variable`; raises `AlgebraError`."""
    fixed = _names(0)
    differences = {
        (_value(one, names) - _value(other, names)) % PRIME
        for names in ({**fixed, variable: _names(point)[variable]} for point in range(POINTS))
    }
    return len(differences) == 1


def _names(point: int) -> Mapping[str, int]:
    """A value for each name at one point; far apart, and none that a text could be written for by chance."""
    letters = [chr(code) for start in (ord("A"), ord("a")) for code in range(start, start + 26)]
    return {letter: pow(3, 1_000 * point + 17 * place + 29, PRIME) for place, letter in enumerate(letters)}


def _value(text: str, names: Mapping[str, int]) -> int:
    if len(text) > LENGTH_LIMIT:
        raise AlgebraError(f"longer than {LENGTH_LIMIT} characters")
    parser = _Parser(_tokens(text), names)
    value = parser.sum(0)
    if parser.here:
        raise AlgebraError(f"unexpected '{parser.here}'")
    return value


def _tokens(text: str) -> list[str]:
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise AlgebraError("something other than numbers, one-letter names, + - * / ** and brackets")
        tokens.append(match[1])
        position = match.end()
    return tokens


class _Parser:
    """One pass over the tokens; `here` is the token to be read next, empty at the end."""

    def __init__(self, tokens: list[str], names: Mapping[str, int]) -> None:
        self._rest = iter(tokens)
        self._names = names
        self.here = next(self._rest, "")

    def _take(self) -> str:
        token, self.here = self.here, next(self._rest, "")
        return token

    def sum(self, depth: int) -> int:
        value = self._product(depth)
        while self.here in ("+", "-"):
            plus = self._take() == "+"
            term = self._product(depth)
            value = (value + term if plus else value - term) % PRIME
        return value

    def _product(self, depth: int) -> int:
        value = self._signed(depth)
        while self.here in ("*", "/"):
            times = self._take() == "*"
            factor = self._signed(depth)
            if not times and not factor:
                raise AlgebraError("division by zero")
            value = value * (factor if times else pow(factor, -1, PRIME)) % PRIME
        return value

    def _signed(self, depth: int) -> int:
        negative = False
        while self.here in ("+", "-"):
            negative ^= self._take() == "-"
        value = self._power(depth)
        return -value % PRIME if negative else value

    def _power(self, depth: int) -> int:
        base = self._atom(depth)
        if self.here not in ("**", "^"):
            return base
        self._take()
        exponent = self._take()
        if not exponent.isdigit() or len(exponent) > DIGITS_LIMIT or int(exponent) > EXPONENT_LIMIT:
            raise AlgebraError(f"a power that is no whole number up to {EXPONENT_LIMIT}")
        if self.here in ("**", "^"):
            raise AlgebraError("a power of a power without brackets")
        return pow(base, int(exponent), PRIME)

    def _atom(self, depth: int) -> int:
        token = self._take()
        if token == "(":
            if depth == DEPTH_LIMIT:
                raise AlgebraError(f"brackets more than {DEPTH_LIMIT} deep")
            value = self.sum(depth + 1)
            if self._take() != ")":
                raise AlgebraError("a bracket that does not close")
            return value
        if token in self._names:
            return self._names[token]
        whole, _, decimals = token.partition(".")
        if not whole.isdigit() or len(token) > DIGITS_LIMIT:
            raise AlgebraError(f"unexpected '{token[:DIGITS_LIMIT]}'" if token else "it ends too early")
        return int(whole + decimals) * pow(10, -len(decimals), PRIME) % PRIME
