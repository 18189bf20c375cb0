"""Reads problems from local JSON files: one object per line (`.jsonl`), or one list of objects (`.json`).

Every complaint names the file and the line. Lines are read one at a time and bounded, so that a wrong file (a
checkpoint, a log) is refused quickly and not loaded.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path

from dartes.data.errors import DatasetError
from dartes.tasks.base import JSON, Row

LINE_LIMIT = 1024 * 1024
"""Bytes of the longest line of a `.jsonl` file, its end included."""

FILE_LIMIT = 256 * 1024 * 1024
"""Bytes of the largest `.json` file; it is parsed in one piece. `.jsonl` has no such limit."""

SUFFIXES = (".jsonl", ".json")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _InvalidValueError(ValueError):
    """Valid JSON that this project does not take."""


def resolve_file(path: Path, split: str) -> Path:
    """The file to read: `path` whole, or `<split>.jsonl` / `<split>.json` where `path` is a folder."""
    if path.is_dir():
        found = [path / f"{split}{suffix}" for suffix in SUFFIXES]
        for file in found:
            if file.is_file():
                return file
        raise DatasetError(f"dataset.source: {path} is a folder without {found[0].name} or {found[1].name}")
    if path.suffix not in SUFFIXES:
        raise DatasetError(
            f"dataset.source: {path} must end with .jsonl or .json, or be a folder of such files"
        )
    if not path.is_file():
        raise DatasetError(f"dataset.source: there is no file {path}")
    return path


def rows_of_file(path: Path) -> Iterator[tuple[str, Row]]:
    """Every row with the place it stands at ("FILE line 3"), in file order; raises `DatasetError`."""
    try:
        yield from _rows_of_lines(path) if path.suffix == ".jsonl" else _rows_of_list(path)
    except OSError as error:
        raise DatasetError(f"dataset.source: cannot read {path}: {error.strerror}") from error


def _rows_of_lines(path: Path) -> Iterator[tuple[str, Row]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LINE_LIMIT + 1):
            number += 1
            place = f"{path} line {number}"
            if len(line) > LINE_LIMIT:
                raise DatasetError(
                    f"{place}: longer than {LINE_LIMIT:,} bytes; is this a file of one problem per line?"
                )
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            if not line.strip():
                raise DatasetError(f"{place}: empty line; remove it")
            yield place, _object(_parse(line.rstrip(b"\r\n"), place), place)


def _rows_of_list(path: Path) -> Iterator[tuple[str, Row]]:
    size = path.stat().st_size
    if size > FILE_LIMIT:
        raise DatasetError(
            f"{path}: {size:,} bytes; a .json file may have {FILE_LIMIT:,}, use .jsonl for more"
        )
    rows = _parse(path.read_bytes().removeprefix(_BYTE_ORDER_MARK), str(path))
    if not isinstance(rows, list):
        raise DatasetError(
            f"{path}: must hold a list of problems, not {_kind(rows)}; or use .jsonl, one a line"
        )
    for number, row in enumerate(rows, start=1):
        place = f"{path} item {number}"
        yield place, _object(row, place)


def _object(value: JSON, place: str) -> Row:
    if not isinstance(value, dict):
        raise DatasetError(f'{place}: must be an object such as {{"question": ...}}, not {_kind(value)}')
    return value


def _parse(data: bytes, place: str) -> JSON:
    try:
        value: JSON = json.loads(
            data.decode(),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{place}: not UTF-8 (byte {error.start + 1} is 0x{data[error.start]:02x})"
        ) from error
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


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _InvalidValueError(f"column '{twice}' appears twice")
    return result


def _refuse_constant(word: str) -> JSON:
    raise _InvalidValueError(f"{word} is not a number that JSON has")


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise _InvalidValueError(f"the number {word[:40]} is too large")
    return value


def _kind(value: JSON) -> str:
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
