"""The journal as a portable file: write, append, read strictly, or read what is good of a damaged one.

File: magic, header length uint32, header, header hash; then per row its length uint32, its bytes, its
hash. All little endian. Any changed, missing or added byte is found, with the iteration it belongs to.
"""

import os
import secrets
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from dartes.durable import sync_folder
from dartes.ids import Iteration
from dartes.journal.errors import DamagedJournalError, JournalError
from dartes.journal.records import HASH_BYTES, HEADER_LIMIT, ROW_LIMIT, JournalHeader, JournalRow, row_hash

MAGIC: Final = b"dartesJ\x01"
SUFFIX: Final = ".dartes"

_LENGTH: Final = struct.Struct("<I")


@dataclass(frozen=True)
class Journal:
    """A verified journal: rows[k] is iteration k, hashes[k] the row hash after it."""

    header: JournalHeader
    rows: tuple[JournalRow, ...]
    hashes: tuple[bytes, ...]

    @property
    def last_hash(self) -> bytes:
        """Hash of the last row (of the header where there is none); two journals are the same if it is."""
        return self.hash_at(len(self.rows))

    def hash_at(self, iteration: int) -> bytes:
        """Row hash of the weights after `iteration` applied iterations, 0..len(rows)."""
        if not 0 <= iteration <= len(self.rows):
            raise JournalError(f"journal: has {len(self.rows)} iterations, {iteration} was asked for")
        return self.hashes[iteration - 1] if iteration else self.header.hash()


@dataclass(frozen=True)
class GoodPrefix:
    """What a damaged journal still holds: `journal`, and a sentence about what is lost (None: nothing)."""

    journal: Journal
    lost: str | None


def write_journal(path: Path, header: JournalHeader, rows: Iterable[JournalRow]) -> bytes:
    """Write a whole journal (temporary file, synced, renamed over `path`) and return its last row hash."""
    partial = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    try:
        with partial.open("xb") as file:
            previous = _write_header(file, header)
            for expected, row in enumerate(rows):
                _require_next(row, expected)
                raw, previous = _row_bytes(previous, row)
                file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)
    return previous


def append_row(path: Path, previous: bytes, row: JournalRow) -> bytes:
    """Append one row, synced, and return its hash; takes the same time however long the journal is.

    `previous` must be the hash with which the file ends, so a row can't follow the wrong one or a torn one.

    Raises
    ------
    DamagedJournalError
        The file ends with another hash: it was cut short, or another process has appended to it.
    """
    # Unbuffered: what a buffer still holds would be written again by the truncation that undoes it.
    with path.open("r+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - HASH_BYTES))
        if file.read(HASH_BYTES) != previous:
            raise DamagedJournalError(
                f"{path}: doesn't end with the row before iteration {row.iteration}: cut short, or extended "
                "by another process; write it again from the run's store",
                row.iteration,
            )
        try:
            raw, digest = _row_bytes(previous, row)
            rest = memoryview(raw)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            # A torn row would make the whole file unreadable for the strict reader.
            file.truncate(end)
            raise
    return digest


def read_journal(path: Path) -> Journal:
    """Read and verify a journal.

    Raises
    ------
    DamagedJournalError
        Any byte is wrong or missing; the message and `.iteration` name the first iteration lost.
    JournalError
        Not a journal, or written by a newer version.
    """
    good = read_good_prefix(path)
    if good.lost is not None:
        raise DamagedJournalError(good.lost, len(good.journal.rows))
    return good.journal


def read_good_prefix(path: Path) -> GoodPrefix:
    """Read the good part of a journal and say what is lost; raises only where even the header is."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise JournalError(f"{path}: can't be read: {error.strerror}") from error
    with file:
        header = _read_header(path, file)
        rows: list[JournalRow] = []
        hashes: list[bytes] = []
        previous = header.hash()
        lost: str | None = None
        while lost is None and (prefix := file.read(_LENGTH.size)):
            row = _read_row(file, prefix, previous, len(rows))
            if isinstance(row, str):
                lost = f"{path}: damaged at iteration {len(rows)}: {row}; iterations before it are good"
            else:
                rows.append(row)
                previous = row_hash(previous, row)
                hashes.append(previous)
    return GoodPrefix(Journal(header, tuple(rows), tuple(hashes)), lost)


def _write_header(file: BinaryIO, header: JournalHeader) -> bytes:
    raw = header.encode()
    if len(raw) > HEADER_LIMIT:
        raise JournalError(f"journal header: {len(raw)} bytes, at most {HEADER_LIMIT} allowed")
    digest = header.hash()
    file.write(MAGIC + _LENGTH.pack(len(raw)) + raw + digest)
    return digest


def _row_bytes(previous: bytes, row: JournalRow) -> tuple[bytes, bytes]:
    """A row as it stands in the file, and its hash."""
    raw = row.encode()
    digest = row_hash(previous, row)
    return _LENGTH.pack(len(raw)) + raw + digest, digest


def _require_next(row: JournalRow, expected: int) -> None:
    if row.iteration != expected:
        raise JournalError(f"journal: row of iteration {row.iteration} where {expected} must stand")


def _read_header(path: Path, file: BinaryIO) -> JournalHeader:
    start = file.read(len(MAGIC) + _LENGTH.size)
    if not start.startswith(MAGIC) or len(start) < len(MAGIC) + _LENGTH.size:
        raise JournalError(f"{path}: not a journal of this version (it doesn't begin as one)")
    (length,) = _LENGTH.unpack_from(start, len(MAGIC))
    if length > HEADER_LIMIT:
        raise DamagedJournalError(f"{path}: damaged: a header of {length} bytes; nothing can be read", None)
    raw, digest = file.read(length), file.read(HASH_BYTES)
    if len(raw) != length or len(digest) != HASH_BYTES:
        raise DamagedJournalError(f"{path}: damaged: ends inside its header; nothing can be read", None)
    try:
        header = JournalHeader.decode(raw)
    except JournalError as error:
        raise DamagedJournalError(f"{path}: {error}", None) from error
    if header.hash() != digest:
        raise DamagedJournalError(f"{path}: damaged: the header doesn't match its hash", None)
    return header


def _read_row(file: BinaryIO, prefix: bytes, previous: bytes, expected: int) -> JournalRow | str:
    """The next row, or what is wrong with it."""
    if len(prefix) < _LENGTH.size:
        return "the file ends inside the row"
    (length,) = _LENGTH.unpack(prefix)
    if length > ROW_LIMIT:
        return f"a row of {length} bytes, at most {ROW_LIMIT} allowed"
    raw, digest = file.read(length), file.read(HASH_BYTES)
    if len(raw) != length or len(digest) != HASH_BYTES:
        return "the file ends inside the row"
    try:
        row = JournalRow.decode(raw)
    except JournalError as error:
        return str(error)
    if row_hash(previous, row) != digest:
        return "the row doesn't match its hash"
    if row.iteration != Iteration(expected):
        return f"the row says iteration {row.iteration}"
    return row
