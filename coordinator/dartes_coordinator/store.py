"""Writing the run's truth: one SQLite transaction per iteration, fenced by the incarnation.

A commit succeeds only while this process is the newest that opened the store; a late coordinator on a
lost node is told so inside its own transaction. What a transaction holds is decided elsewhere.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dartes.errors import DrainedError, TransientError
from dartes.rpc.encoding import pack_bits, pack_floats
from dartes.state.reader import StoredEvaluation, StoredIteration, StoredSnapshot
from dartes.state.schema import SCHEMA_VERSION, TABLES


class StoreFullError(TransientError):
    """The disk took no more; what was committed is safe and the same commit can be tried again."""


class FencedError(DrainedError):
    """A newer coordinator has opened this store."""


@dataclass(frozen=True)
class Attestation:
    """A worker's digest of its weights after `iteration` updates."""

    iteration: int
    worker: str
    digest: str
    rebuilt: bool


@dataclass(frozen=True)
class Event:
    """Something worth telling people, with a stable reason."""

    time: float
    reason: str
    text: str


class Store:
    """The store of one run, opened for writing by one incarnation."""

    def __init__(self, connection: sqlite3.Connection, incarnation: int) -> None:
        self._connection = connection
        self.incarnation = incarnation

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open or create the store and become its newest incarnation."""
        # isolation_level=None: transactions are written out, none is opened behind our back.
        connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        with _full_disk_named(path):
            # A rollback journal works on any block volume that can move to another node; WAL needs one host.
            connection.execute("PRAGMA journal_mode=DELETE")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            fresh = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None
            if fresh:
                for statement in TABLES:
                    connection.execute(statement)
                _put(connection, "schema_version", str(SCHEMA_VERSION))
                _put(connection, "incarnation", "0")
            incarnation = _current_incarnation(connection) + 1
            _put(connection, "incarnation", str(incarnation))
            connection.execute("COMMIT")
        _sync_folder(path.parent)
        return cls(connection, incarnation)

    @property
    def path(self) -> Path:
        """The file behind this store."""
        found = self._connection.execute("PRAGMA database_list").fetchone()
        return Path(found[2])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def transaction(self, before_commit: Callable[[], None] | None = None) -> Iterator[sqlite3.Connection]:
        """A fenced transaction; `before_commit` runs last inside it (fault injection).

        Raises
        ------
        FencedError
            A newer incarnation has opened the store.
        StoreFullError
            The disk is full; nothing of the transaction is left.
        """
        with _full_disk_named(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                newest = _current_incarnation(self._connection)
                if newest != self.incarnation:
                    raise FencedError(
                        f"this coordinator is incarnation {self.incarnation}, but incarnation {newest} has "
                        "taken over the run"
                    )
                yield self._connection
                if before_commit is not None:
                    before_commit()
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def put_meta(self, values: dict[str, str | bytes]) -> None:
        """Set values of the meta table in one transaction."""
        with self.transaction() as connection:
            for key, value in values.items():
                _put(connection, key, value)

    def commit(
        self,
        iteration: StoredIteration | None,
        evaluations: Sequence[StoredEvaluation] = (),
        attestations: Sequence[Attestation] = (),
        events: Sequence[Event] = (),
        meta: dict[str, str | bytes] | None = None,
        before_commit: Callable[[], None] | None = None,
    ) -> None:
        """Record an iteration, or only what lies beside it, in one transaction."""
        with self.transaction(before_commit) as connection:
            if iteration is not None:
                connection.execute(
                    "INSERT INTO iterations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    _iteration_columns(iteration),
                )
            for evaluation in evaluations:
                connection.execute(
                    "INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        evaluation.iteration,
                        evaluation.set_name,
                        len(evaluation.passed),
                        pack_bits(evaluation.passed),
                        pack_bits(evaluation.truncated),
                        json.dumps(evaluation.beside, sort_keys=True),
                    ),
                )
            connection.executemany(
                "INSERT OR REPLACE INTO attestations VALUES (?, ?, ?, ?)",
                [(a.iteration, a.worker, a.digest, int(a.rebuilt)) for a in attestations],
            )
            connection.executemany(
                "INSERT INTO events (time, reason, text) VALUES (?, ?, ?)",
                [(e.time, e.reason, e.text) for e in events],
            )
            for key, value in (meta or {}).items():
                _put(connection, key, value)

    def add_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Record a snapshot that a worker has written."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)",
                (snapshot.iteration, snapshot.row_hash, snapshot.digest, snapshot.file),
            )

    def drop_snapshots(self, iterations: Sequence[int]) -> None:
        """Forget snapshots whose files are gone or about to go."""
        with self.transaction() as connection:
            connection.executemany("DELETE FROM snapshots WHERE iteration = ?", [(k,) for k in iterations])

    def copy_to(self, path: Path) -> None:
        """Write a consistent copy of the store to a new file."""
        target = sqlite3.connect(path)
        try:
            with _full_disk_named(path):
                self._connection.backup(target)
        finally:
            target.close()


def _iteration_columns(it: StoredIteration) -> tuple[Any, ...]:
    return (
        it.iteration,
        it.stage,
        it.epoch,
        it.problems.astype("<u4").tobytes(),
        pack_bits(it.replayed),
        _bit_rows(it.passed),
        _bit_rows(it.truncated),
        None if it.scores is None else zlib.compress(pack_floats(it.scores)),
        None if it.auxiliary is None else zlib.compress(pack_floats(it.auxiliary)),
        None if it.parent_passed is None else pack_bits(it.parent_passed),
        it.row,
        it.row_hash,
        json.dumps(it.beside, sort_keys=True),
    )


def _bit_rows(bits: NDArray[np.bool_]) -> bytes:
    return np.packbits(bits, axis=1, bitorder="little").tobytes()


def _put(connection: sqlite3.Connection, key: str, value: str | bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def _current_incarnation(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT value FROM meta WHERE key = 'incarnation'").fetchone()[0])


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _full_disk_named(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC}:
            raise StoreFullError(
                f"{path.parent}: the disk is full ({error}); free some space, everything committed is kept"
            ) from error
        raise
