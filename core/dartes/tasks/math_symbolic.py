"""Asks math-verify whether two small LaTeX expressions are equal, of those that `math_bounds` lets through.

SymPy can evaluate text as Python. No text of a model gets that far: characters and commands are listed in
`math_bounds`, numbers are converted here, and in a grader process the way itself is closed (`seal`).
"""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from types import FrameType
from typing import Any

from dartes.errors import ConfigurationError
from dartes.tasks.math_bounds import refusal

RELATIVE_TOLERANCE = 1e-5
CACHED = 4096

_ROUNDING, _PRECISION = 6, 15
_WARM_UP = (("(x+1)^{2}", "x^{2}+2x+1"), ("\\sqrt{2}/2", "\\frac{1}{\\sqrt{2}}"), ("y=2x+3", "2x-y+3=0"))
_REFUSED_EVENTS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "subprocess.Popen",
    "socket.",
)


class OutOfTimeError(BaseException):
    """Computing took too long. No `Exception`, because computer algebra catches those and goes on."""


def prepare() -> None:
    """Load everything that is loaded on first use, so that the first answer does not pay for it."""
    for one, other in _WARM_UP:
        if not equal(one, other):
            raise ConfigurationError(f"math-verify does not find {one} equal to {other}: reinstall it")


def seal() -> None:
    """From here on in this process SymPy evaluates no text, and nothing starts a program or connects."""
    from sympy.parsing import sympy_parser  # type: ignore[import-untyped]

    sympy_parser.eval_expr = _refuse
    sys.addaudithook(_audit)


def _refuse(*_: object) -> None:
    raise ValueError("text is not evaluated here")


def _audit(event: str, _: object) -> None:
    if event.startswith(_REFUSED_EVENTS):
        raise PermissionError(f"{event} is refused in this process")


@contextmanager
def time_limit(cpu_seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` after this much CPU time; without effect outside a process's main thread.

    CPU time, so that a busy machine fails no answer. A computation that never returns to Python is ended by
    the grading pool, with its process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _on_alarm)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _on_alarm(_: int, __: FrameType | None) -> None:
    raise OutOfTimeError


@lru_cache(CACHED)
def equal(reference: str, answer: str) -> bool:
    """Whether two expressions are equal as mathematics; False where either is refused or cannot be read."""
    if refusal(reference) or refusal(answer):
        return False
    gold, found = _parsed(reference), _parsed(answer)
    if gold is None or found is None or _apart(gold, found):
        return False
    verify = _libraries()[1]
    return bool(verify(gold, found, _ROUNDING, _PRECISION, timeout_seconds=None)) and _near(gold, found)


@lru_cache(CACHED)
def is_near(text: str, number: Fraction, distance: Fraction) -> bool:
    """Whether a constant expression is at most so far from a number; False where it cannot be read."""
    parsed = None if refusal(text) else _parsed(text)
    value = None if parsed is None else _value(parsed, {})
    if value is None or value.imag:
        return False
    return abs(value.real - float(number)) <= float(distance) * (1 + RELATIVE_TOLERANCE)


@lru_cache(CACHED)
def _parsed(text: str) -> Any:
    reader = _libraries()[0]
    try:
        return reader(text)
    except Exception:  # noqa: BLE001 - the LaTeX parser raises whatever comes, and Exception itself
        return None


def _apart(gold: Any, found: Any) -> bool:
    """Whether two expressions have different values at one point: most unequal ones, and cheap to see."""
    import sympy  # type: ignore[import-untyped]

    if not all(isinstance(it, sympy.Expr) and not isinstance(it, sympy.Symbol) for it in (gold, found)):
        return False
    symbols = sorted(gold.free_symbols | found.free_symbols, key=str)
    point = {symbol: sympy.Rational(73 + 31 * n, 97) for n, symbol in enumerate(symbols)}
    one, other = _value(gold, point), _value(found, point)
    if one is None or other is None or (point and (one.imag or other.imag)):
        return False  # with an imaginary part: across a branch cut, equal expressions may differ
    return abs(one - other) > RELATIVE_TOLERANCE * max(abs(one), abs(other))


def _near(gold: Any, found: Any) -> bool:
    """Whether two constants really are near each other: math-verify rounds to places, whatever their size."""
    if not (getattr(gold, "is_number", False) and getattr(found, "is_number", False)):
        return True
    if gold == found:
        return True
    one, other = _value(gold, {}), _value(found, {})
    if one is None or other is None:
        return False
    return abs(one - other) <= RELATIVE_TOLERANCE * max(abs(one), abs(other))


def _value(expression: Any, point: dict[Any, Any]) -> complex | None:
    try:
        return complex(expression.doit().subs(point).evalf(_PRECISION))
    except Exception:  # noqa: BLE001 - computer algebra raises whatever comes up inside it
        return None


@lru_cache(1)
def _libraries() -> tuple[Any, Any]:
    """The LaTeX reader and math-verify's comparison; raises `ConfigurationError` where they are missing."""
    try:
        import sympy
        from latex2sympy2_extended.latex2sympy2 import (  # type: ignore[import-untyped]
            _Latex2Sympy,
        )
        from math_verify.grader import (  # type: ignore[import-untyped]
            should_treat_as_complex,
            verify,
        )
    except ImportError as error:
        raise ConfigurationError(
            f"task 'math' needs math-verify ({error}): pip install '.[tasks]' in a clone"
        ) from error
    logging.getLogger("math_verify").setLevel(logging.ERROR)

    class Reader(_Latex2Sympy):  # type: ignore[misc]
        """Converts numbers by itself: SymPy's own way from text to number evaluates the text."""

        def parse_number(self, text: str) -> Any:
            plain = text.replace(",", "")
            return sympy.Float(plain) if "." in plain or "e" in plain.lower() else sympy.Integer(int(plain))

    def read(text: str) -> Any:
        return Reader(is_real=not should_treat_as_complex(text)).parse(text)

    return read, verify
