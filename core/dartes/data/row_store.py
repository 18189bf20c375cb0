"""Keeps the rows of a data set as canonical JSON and decodes one when it is asked for.

A row costs its text and 8 bytes; beyond a limit the text lies in a file without a name, so that a million
problems take little memory. Knows bytes and offsets, nothing of where rows come from.
"""

import json
import os
import tempfile
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, overload

from dartes.data.errors import DatasetError
from dartes.errors import TransientError
from dartes.tasks.base import Row

MEMORY_LIMIT: Final = 32 * 2**20
"""Bytes of text that stay in memory; a larger data set goes to a temporary file as a whole."""

_WRITE_BYTES: Final = 2**20
_READ_BYTES: Final = 2**18
_DECODE: Final = json.JSONDecoder().decode


class StoredRows(Sequence[Row]):
    """Rows in their order, each decoded at every access; safe to read from several threads.

    `text` is all rows' JSON end to end, or the descriptor of an open file that holds it, which is closed with
    this object; `ends` is where each row ends.
    """

    def __init__(self, text: bytes | int, ends: "array[int]") -> None:
        self._text = text
        self._ends = ends
        if isinstance(text, int):
            weakref.finalize(self, os.close, text)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """One row, or a list of rows for a slice."""
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        start = self._start(position)
        return _decoded(self._bytes(start, self._ends[position]))

    def __iter__(self) -> Iterator[Row]:
        """Every row in turn; a few, or one long one, are in memory at a time."""
        first = begin = 0
        while first < len(self):
            last = max(first + 1, bisect_right(self._ends, begin + _READ_BYTES, first))
            text = self._bytes(begin, self._ends[last - 1])
            start = 0
            for end in self._ends[first:last]:
                yield _decoded(text[start : end - begin])
                start = end - begin
            first, begin = last, begin + len(text)

    def _start(self, position: int) -> int:
        return self._ends[position - 1] if position else 0

    def _bytes(self, start: int, end: int) -> bytes:
        if isinstance(self._text, bytes):
            return self._text[start:end]
        pieces = []
        while start < end:
            piece = os.pread(self._text, end - start, start)
            if not piece:
                raise TransientError("the temporary file of the data set has become shorter; start again")
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)


class RowWriter:
    """Collects the lines of a data set. Close it, or take its rows, which then own the file."""

    def __init__(self, memory_limit: int = MEMORY_LIMIT) -> None:
        self._limit = memory_limit
        self._ends = array("Q")
        self._size = 0
        self._pending = bytearray()
        self._file: int | None = None

    def append(self, line: bytes) -> None:
        """Add a row as JSON; raises `DatasetError` where the temporary folder has no room."""
        self._pending += line
        self._size += len(line)
        self._ends.append(self._size)
        if len(self._pending) > (self._limit if self._file is None else _WRITE_BYTES):
            self._spill()

    def __len__(self) -> int:
        return len(self._ends)

    def rows(self) -> StoredRows:
        """What was added; nothing may be added afterwards."""
        if self._file is None:
            return StoredRows(bytes(self._pending), self._ends)
        self._spill()
        file, self._file = self._file, None
        return StoredRows(file, self._ends)

    def close(self) -> None:
        """Give up what was collected; nothing to do where the rows were taken."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file, name = tempfile.mkstemp(prefix="dartes-rows-")
                Path(name).unlink()  # it goes with its last reader, however that ends
            rest = memoryview(self._pending)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise DatasetError(
                f"the data set needs more than {self._size:,} bytes in {tempfile.gettempdir()}: "
                f"{error.strerror}; set TMPDIR to a folder with room for it"
            ) from error
        self._pending = bytearray()


def _decoded(line: bytes) -> Row:
    row: Row = _DECODE(line.decode())
    return row
