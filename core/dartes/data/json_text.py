"""Reads JSON text strictly: UTF-8, each column once, finite numbers. Every complaint begins with its place.

Knows JSON and places ("set.jsonl line 3"), nothing of files or of what the values are for.
"""

import json
import math
from collections.abc import Iterable
from typing import Final

from dartes.data.errors import DatasetError
from dartes.tasks.base import JSON, Row


class _InvalidValueError(ValueError):
    """Valid JSON that this project does not take."""


def parse_json(data: bytes, place: str) -> JSON:
    """The value that `data` holds; raises `DatasetError` with the place, and line and column within it."""
    try:
        value: JSON = _DECODE(data.decode())
    except UnicodeDecodeError as error:
        raise not_utf8(error, place) from error
    except json.JSONDecodeError as error:
        where = f"{place}, line {error.lineno}" if error.lineno > 1 else place
        raise DatasetError(f"{where}: not JSON: {error.msg} (column {error.colno})") from error
    except _InvalidValueError as error:
        raise DatasetError(f"{place}: {error}") from error
    except RecursionError as error:
        raise DatasetError(f"{place}: nested too deeply") from error
    except ValueError as error:  # Python's own limit on the digits of a whole number
        raise DatasetError(f"{place}: a number with too many digits") from error
    return value


def as_row(value: JSON, place: str) -> Row:
    """`value` as a row, which is an object; raises `DatasetError` for anything else."""
    if not isinstance(value, dict):
        raise DatasetError(f'{place}: must be an object such as {{"question": ...}}, not {kind_of(value)}')
    return value


def not_utf8(error: UnicodeDecodeError, place: str) -> DatasetError:
    """The complaint about bytes that are no text."""
    return DatasetError(f"{place}: not UTF-8 (byte {error.start + 1} is 0x{error.object[error.start]:02x})")


def repeated(names: Iterable[str]) -> str | None:
    """The first name that was there before; None where each is there once."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def kind_of(value: JSON) -> str:
    """What a value is, in a person's words: "a list", "text"."""
    if value is None:
        return "null"
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    return names[type(value)]


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise _InvalidValueError(f"column '{repeated(name for name, _ in pairs)}' appears twice")
    return result


def _refuse_constant(word: str) -> JSON:
    raise _InvalidValueError(f"{word} is not a number that JSON has")


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise _InvalidValueError(f"the number {word[:40]} is too large")
    return value


_DECODE: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite
).decode
