"""Read-only access to a run's store, safe while the coordinator writes to it.

Everything here returns what was recorded; recomputing what it led to is `dartes.state.history`.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dartes.errors import ConfigurationError
from dartes.rpc.encoding import unpack_bits
from dartes.state.folder import RunFolder
from dartes.state.schema import SCHEMA_VERSION


class NoStateError(ConfigurationError):
    """There is a store, but nothing was ever committed to it."""


@dataclass(frozen=True)
class StoredIteration:
    """One committed iteration: shapes are [B] for problems and [N, B] for member results."""

    iteration: int
    stage: int
    epoch: int
    problems: NDArray[np.int64]
    replayed: NDArray[np.bool_]
    passed: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    scores: NDArray[np.float32] | None
    auxiliary: NDArray[np.float32] | None
    parent_passed: NDArray[np.bool_] | None
    row: bytes
    row_hash: bytes
    beside: dict[str, Any]


@dataclass(frozen=True)
class StoredEvaluation:
    """One evaluation set on the weights after `iteration` updates; bits per problem."""

    iteration: int
    set_name: str
    passed: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    beside: dict[str, Any]

    @property
    def accuracy(self) -> float:
        """Share of problems passed."""
        return float(np.count_nonzero(self.passed)) / len(self.passed)


@dataclass(frozen=True)
class StoredSnapshot:
    """A snapshot that a worker reported: file name inside the snapshots folder, and its digest."""

    iteration: int
    row_hash: bytes
    digest: str
    file: str


class RunReader:
    """A read-only connection to the store of a run folder."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    def open(cls, folder: RunFolder, store: Path | None = None) -> Self:
        """Open the folder's store (or `store`, a backup of it).

        Raises
        ------
        ConfigurationError
            No run has been started in this folder, or its store is of another version. NoStateError where
            it is still empty.
        """
        path = store or folder.store
        if not path.is_file():
            raise ConfigurationError(
                f"{folder.path}: no run here ({path.name} is missing); start one with `dartes run JOB --workdir`"
            )
        # immutable=0: a reader takes part in the locking, so a commit is seen whole or not at all.
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)
        reader = cls(connection)
        version = reader.meta_text("schema_version") if reader._has_tables() else None
        if version is None:
            connection.close()
            raise NoStateError(f"{path}: the run has not got as far as its first state yet")
        if version != str(SCHEMA_VERSION):
            connection.close()
            raise ConfigurationError(
                f"{path}: state version {version}, but this dartes reads version {SCHEMA_VERSION}"
            )
        return reader

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _has_tables(self) -> bool:
        found = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone()
        return found is not None

    def meta(self, key: str) -> bytes | None:
        """A value of the meta table as bytes, or None."""
        found = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if found is None:
            return None
        value = found[0]
        return value.encode() if isinstance(value, str) else bytes(value)

    def meta_text(self, key: str) -> str | None:
        """A value of the meta table as text, or None."""
        value = self.meta(key)
        return None if value is None else value.decode()

    def iteration_count(self) -> int:
        """Number of committed iterations."""
        found = self._connection.execute("SELECT COALESCE(MAX(iteration) + 1, 0) FROM iterations").fetchone()
        return int(found[0])

    def last_row_hash(self) -> bytes | None:
        """Hash of the newest journal row, or None before the first commit."""
        found = self._connection.execute(
            "SELECT row_hash FROM iterations ORDER BY iteration DESC LIMIT 1"
        ).fetchone()
        return None if found is None else bytes(found[0])

    def iterations(self, start: int = 0, stop: int | None = None) -> Iterator[StoredIteration]:
        """Committed iterations start..stop-1 in order, one at a time."""
        rows = self._connection.execute(
            "SELECT iteration, stage, epoch, problems, replayed, passed, truncated, scores, auxiliary,"
            " parent_passed, row, row_hash, beside FROM iterations WHERE iteration >= ? AND iteration < ?"
            " ORDER BY iteration",
            (start, 2**62 if stop is None else stop),
        )
        for row in rows:
            yield _stored_iteration(row)

    def journal_rows(self, start: int = 0, limit: int = -1) -> list[tuple[int, bytes, bytes]]:
        """(iteration, encoded journal row, row hash) from `start` on; at most `limit` if not negative."""
        rows = self._connection.execute(
            "SELECT iteration, row, row_hash FROM iterations WHERE iteration >= ? ORDER BY iteration LIMIT ?",
            (start, limit),
        )
        return [(int(k), bytes(row), bytes(digest)) for k, row, digest in rows]

    def evaluations(self) -> list[StoredEvaluation]:
        """All recorded evaluations by iteration, then set name."""
        rows = self._connection.execute(
            "SELECT iteration, set_name, problems, passed, truncated, beside FROM evaluations"
            " ORDER BY iteration, set_name"
        )
        return [
            StoredEvaluation(
                iteration=int(k),
                set_name=str(name),
                passed=unpack_bits(bytes(passed), int(count)),
                truncated=unpack_bits(bytes(truncated), int(count)),
                beside=json.loads(beside),
            )
            for k, name, count, passed, truncated, beside in rows
        ]

    def snapshots(self) -> list[StoredSnapshot]:
        """Reported snapshots, oldest first."""
        rows = self._connection.execute("SELECT iteration, row_hash, digest, file FROM snapshots ORDER BY 1")
        return [StoredSnapshot(int(k), bytes(h), str(d), str(f)) for k, h, d, f in rows]

    def attestations(self, iteration: int | None = None) -> list[tuple[int, str, str, bool]]:
        """(iteration, worker, weight digest, rebuilt), of one iteration or of all."""
        rows = self._connection.execute(
            "SELECT iteration, worker, digest, rebuilt FROM attestations WHERE ? IS NULL OR iteration = ?"
            " ORDER BY iteration, worker",
            (iteration, iteration),
        )
        return [(int(k), str(w), str(d), bool(r)) for k, w, d, r in rows]

    def events(self) -> list[tuple[float, str, str]]:
        """(time in seconds since 1970, reason, text), oldest first."""
        rows = self._connection.execute("SELECT time, reason, text FROM events ORDER BY id")
        return [(float(t), str(r), str(x)) for t, r, x in rows]


def _stored_iteration(row: tuple[Any, ...]) -> StoredIteration:
    (k, stage, epoch, problems, replayed, passed, truncated, scores, auxiliary, parent, journal, digest, beside) = row
    indices = np.frombuffer(problems, "<u4").astype(np.int64)
    size = len(indices)
    members = len(passed) // ((size + 7) // 8)
    return StoredIteration(
        iteration=int(k),
        stage=int(stage),
        epoch=int(epoch),
        problems=indices,
        replayed=unpack_bits(bytes(replayed), size),
        passed=_bit_rows(bytes(passed), members, size),
        truncated=_bit_rows(bytes(truncated), members, size),
        scores=_float_rows(scores, members, size),
        auxiliary=_float_rows(auxiliary, members, size),
        parent_passed=None if parent is None else unpack_bits(bytes(parent), size),
        row=bytes(journal),
        row_hash=bytes(digest),
        beside=json.loads(beside),
    )


def _bit_rows(payload: bytes, members: int, size: int) -> NDArray[np.bool_]:
    rows = np.frombuffer(payload, np.uint8).reshape(members, -1)
    return np.unpackbits(rows, axis=1, count=size, bitorder="little").astype(np.bool_)


def _float_rows(payload: bytes | None, members: int, size: int) -> NDArray[np.float32] | None:
    if payload is None:
        return None
    return np.frombuffer(zlib.decompress(payload), "<f4").astype(np.float32).reshape(members, size)
