"""Python values as JSON between a program and its checker: built-in kinds keep their type, others a number.

What is decoded is made of built-in types alone, so that no object of a program, with methods that lie, ever
stands in a checker.
"""

import math
from collections import deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

KIND, VALUE = "kind", "value"
_BIG_BITS = 1000


def encode(value: Any, refer: Callable[[Any], int]) -> Any:
    """A value as JSON can hold it; `refer` gives the number under which another object is kept.

    Subclasses of built-in types become the built-in type.
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int(value)
        return number if number.bit_length() <= _BIG_BITS else _kind("int", hex(number))
    if isinstance(value, float):
        real = float(value)
        return real if math.isfinite(real) else _kind("float", repr(real))
    if isinstance(value, list):
        return [encode(item, refer) for item in value]
    return _encode_other(value, refer)


def decode(data: Any, resolve: Callable[[int], Any]) -> Any:
    """The inverse of `encode`; `resolve` gives what stands for an object of the other side.

    Raises ValueError, TypeError, KeyError or ArithmeticError for what `encode` does not make.
    """
    if isinstance(data, list):
        return [decode(item, resolve) for item in data]
    if not isinstance(data, dict):
        return data
    kind, value = data[KIND], data[VALUE]
    if kind == "reference":
        return resolve(value)
    if kind == "dict":
        return {decode(key, resolve): decode(item, resolve) for key, item in value}
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](decode(item, resolve) for item in value)
    return _SIMPLE[kind][1](value)


_COLLECTIONS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
}
_SIMPLE: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int": (int, lambda text: int(text, 16), hex),
    "float": (float, float, repr),
    "complex": (complex, lambda pair: complex(*map(float, pair)), lambda z: [repr(z.real), repr(z.imag)]),
    "bytes": (bytes, bytes.fromhex, lambda data: data.hex()),
    "bytearray": (bytearray, bytearray.fromhex, lambda data: data.hex()),
    "range": (range, lambda ends: range(*ends), lambda r: [r.start, r.stop, r.step]),
    "datetime": (datetime, datetime.fromisoformat, lambda moment: moment.isoformat()),
    "date": (date, date.fromisoformat, lambda day: day.isoformat()),
    "time": (time, time.fromisoformat, lambda clock: clock.isoformat()),
    "timedelta": (
        timedelta,
        lambda parts: timedelta(*parts),
        lambda span: [span.days, span.seconds, span.microseconds],
    ),
    "Decimal": (Decimal, Decimal, str),
    "Fraction": (Fraction, Fraction, str),
}


def _encode_other(value: Any, refer: Callable[[Any], int]) -> Any:
    if isinstance(value, dict):
        pairs = [[encode(key, refer), encode(item, refer)] for key, item in value.items()]
        return _kind("dict", pairs)
    for kind, collection in (("tuple", tuple), ("set", set), ("frozenset", frozenset), ("deque", deque)):
        if isinstance(value, collection):
            return _kind(kind, [encode(item, refer) for item in value])
    for kind, (simple, _, write) in _SIMPLE.items():
        if isinstance(value, simple):
            return _kind(kind, write(value))
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return encode(value.item(), refer)
    return _kind("reference", refer(value))


def _kind(kind: str, value: Any) -> dict[str, Any]:
    return {KIND: kind, VALUE: value}
