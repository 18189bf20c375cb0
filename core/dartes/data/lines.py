"""Reads problems from JSON: one object per line (`.jsonl`, `.jsonl.gz`), or one list of objects (`.json`).

Lines are read one at a time and bounded, so that a wrong file (a checkpoint, a log) is refused quickly and
not loaded. Every complaint names the file and the line.
"""

import gzip
import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from dartes.data.errors import DatasetError
from dartes.data.json_text import as_row, kind_of, parse_json
from dartes.data.parts import Part, Placed

LINE_LIMIT: Final = 64 * 2**20
"""Bytes of the longest line of a text file, its end included; code problems carry megabytes of tests."""

FILE_LIMIT: Final = 256 * 2**20
"""Bytes of the largest `.json` file; it is parsed in one piece. `.jsonl` has no such limit."""

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Lines(Protocol):
    """A file that is read line by line."""

    def readline(self, size: int, /) -> bytes:
        """The next line, or as much of it as `size` bytes; nothing at the end."""
        ...


def rows_of_lines(part: Part) -> Iterator[Placed]:
    """One object a line."""
    with part.open() as file:
        yield from _rows(file, part.name)


def rows_of_packed_lines(part: Part) -> Iterator[Placed]:
    """One object a line, compressed by gzip; unpacked as it is read."""
    try:
        with part.open() as packed, gzip.open(packed, "rb") as file:
            yield from _rows(file, part.name)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DatasetError(f"{part.name}: damaged, or not compressed by gzip ({error})") from error


def bounded_lines(file: Lines, name: str) -> Iterator[tuple[str, bytes]]:
    """Each line with its place, without a byte order mark; raises `DatasetError` for one over the limit."""
    number = 0
    while line := file.readline(LINE_LIMIT + 1):
        number += 1
        place = f"{name} line {number}"
        if len(line) > LINE_LIMIT:
            raise DatasetError(
                f"{place}: longer than {LINE_LIMIT:,} bytes; is this a file of one problem per line?"
            )
        yield place, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def _rows(file: Lines, name: str) -> Iterator[Placed]:
    for place, line in bounded_lines(file, name):
        if not line.strip():
            raise DatasetError(f"{place}: empty line; remove it")
        yield place, as_row(parse_json(line.rstrip(b"\r\n"), place), place)


def rows_of_list(part: Part) -> Iterator[Placed]:
    """A list of objects, the whole file."""
    with part.open() as file:
        content = file.read(FILE_LIMIT + 1)
    if len(content) > FILE_LIMIT:
        raise DatasetError(
            f"{part.name}: a .json file may have {FILE_LIMIT:,} bytes; use .jsonl or .parquet for more"
        )
    content = content.removeprefix(BYTE_ORDER_MARK)
    # An object where a list should begin: most often one problem a line, under the wrong name.
    rows = {} if content.lstrip()[:1] == b"{" else parse_json(content, part.name)
    del content
    if not isinstance(rows, list):
        raise DatasetError(
            f"{part.name}: must hold a list of problems, not {kind_of(rows)}; a file of one problem a line "
            "ends with .jsonl"
        )
    for number, row in enumerate(rows, start=1):
        place = f"{part.name} item {number}"
        yield place, as_row(row, place)
