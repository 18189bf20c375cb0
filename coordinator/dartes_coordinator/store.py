"""Writing the run's truth: one SQLite transaction per iteration, fenced by the incarnation.

A commit succeeds only while this process is the newest that opened the store; a late coordinator on a
lost node is told so inside its own transaction. What a transaction holds is decided elsewhere.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dartes.durable import sync_folder
from dartes.errors import DrainedError, TransientError
from dartes.state import StoredEvaluation, StoredIteration, StoredSnapshot
from dartes.state.columns import completion_columns, evaluation_columns, iteration_columns
from dartes.state.errors import extended_code, is_damage
from dartes.state.schema import SCHEMA_VERSION, TABLES
from dartes_coordinator.full_disk import StoreFullError, UnwritableError, full_message

BUSY_SECONDS = 5.0
"""How long a commit waits for a reader or another writer before it is tried again later."""

MOST_COMPLETION_BYTES = 32 * 1024 * 1024
"""Of all answers that are kept to be read; beyond it those of the oldest evaluations go."""

_FULL_CODES = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC}
_BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

MetaValues = Mapping[str, str | bytes]


class StoreBusyError(UnwritableError):
    """Another process holds the store."""


class FencedError(DrainedError):
    """A newer coordinator has opened this store, or the store was taken away."""


@dataclass(frozen=True)
class Attestation:
    """A worker's digest of its weights after `iteration` updates."""

    iteration: int
    worker: str
    digest: str
    rebuilt: bool


@dataclass(frozen=True)
class Event:
    """Something worth telling people, with a stable reason; `time` in seconds since 1970."""

    time: float
    reason: str
    text: str


class Store:
    """The store of one run, opened for writing by one incarnation."""

    def __init__(self, connection: sqlite3.Connection, path: Path, incarnation: int) -> None:
        self._connection = connection
        self.path = path
        self.incarnation = incarnation

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open or create the store and become its newest incarnation.

        Raises
        ------
        UnwritableError
            The disk is full, or another process is at it.
        """
        # isolation_level=None: transactions are written out, none is opened behind our back.
        connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
        try:
            with _errors_named(path):
                # A rollback journal works on any volume that can move to another node; WAL needs one host.
                connection.execute("PRAGMA journal_mode=DELETE")
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("BEGIN IMMEDIATE")
                found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone()
                if found is None:
                    for statement in TABLES:
                        connection.execute(statement)
                    _put(
                        connection, {"schema_version": str(SCHEMA_VERSION), "incarnation": "0", "starts": "0"}
                    )
                incarnation = _number(connection, "incarnation") + 1
                starts = _number(connection, "starts") + 1
                _put(connection, {"incarnation": str(incarnation), "starts": str(starts)})
                connection.execute("COMMIT")
            sync_folder(path.parent)
        except BaseException:
            connection.close()
            raise
        return cls(connection, path, incarnation)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def transaction(self, before_commit: Callable[[], None] | None = None) -> Iterator[sqlite3.Connection]:
        """A fenced transaction; `before_commit` runs last inside it (fault injection).

        Raises
        ------
        FencedError
            A newer incarnation has opened the store, or its file is no longer where it was.
        UnwritableError
            The disk is full or the store is held by others; nothing of the transaction is left.
        """
        with _errors_named(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                newest = _number(self._connection, "incarnation")
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

    def put_meta(self, values: MetaValues) -> None:
        """Set values of the meta table in one transaction."""
        self.commit(None, meta=values)

    def commit(
        self,
        iteration: StoredIteration | None,
        evaluations: Sequence[StoredEvaluation] = (),
        attestations: Sequence[Attestation] = (),
        events: Sequence[Event] = (),
        meta: MetaValues | None = None,
        before_commit: Callable[[], None] | None = None,
    ) -> None:
        """Record an iteration, or only what lies beside it, in one transaction."""
        with self.transaction(before_commit) as connection:
            if iteration is not None:
                columns = iteration_columns(iteration)
                connection.execute(f"INSERT INTO iterations VALUES ({_marks(columns)})", columns)
            for evaluation in evaluations:
                columns = evaluation_columns(evaluation)
                connection.execute(f"INSERT OR REPLACE INTO evaluations VALUES ({_marks(columns)})", columns)
                _put_completions(connection, evaluation)
            _trim_completions(connection, evaluations)
            connection.executemany(
                "INSERT OR REPLACE INTO attestations VALUES (?, ?, ?, ?)",
                [(a.iteration, a.worker, a.digest, int(a.rebuilt)) for a in attestations],
            )
            connection.executemany(
                "INSERT INTO events (time, reason, text) VALUES (?, ?, ?)",
                [(e.time, e.reason, e.text) for e in events],
            )
            _put(connection, meta or {})

    def keep_snapshot(self, snapshot: StoredSnapshot, forget: Sequence[int]) -> None:
        """Record a snapshot that a worker has written, and forget older ones by iteration."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)",
                (snapshot.iteration, snapshot.row_hash, snapshot.digest, snapshot.file),
            )
            connection.executemany("DELETE FROM snapshots WHERE iteration = ?", [(k,) for k in forget])

    def forget_from(self, iteration: int, meta: MetaValues, event: Event) -> None:
        """Forget iteration `iteration`, counted from 0, and all that came of it; the run is no longer done.

        Evaluations of the weights that stay are forgotten too: those that are due come with the next
        iteration, as they did the first time.
        """
        with self.transaction() as connection:
            for table in ("iterations", "evaluations", "completions"):
                connection.execute(f"DELETE FROM {table} WHERE iteration >= ?", (iteration,))
            for table in ("attestations", "snapshots"):
                connection.execute(f"DELETE FROM {table} WHERE iteration > ?", (iteration,))
            connection.execute("DELETE FROM meta WHERE key IN ('finished_at', 'weight_digest')")
            connection.execute(
                "INSERT INTO events (time, reason, text) VALUES (?, ?, ?)",
                (event.time, event.reason, event.text),
            )
            _put(connection, {"status": "running", **meta})

    def copy_to(self, path: Path) -> None:
        """Write a consistent copy of the store to a new file."""
        target = sqlite3.connect(path)
        try:
            with _errors_named(path):
                self._connection.backup(target)
        finally:
            target.close()


def prepare_copy(path: Path, least: int, meta: MetaValues) -> None:
    """Set the incarnation of a store that nobody has open to at least `least`, and values of its meta."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        with _errors_named(path):
            if _number(connection, "incarnation") < least:
                _put(connection, {"incarnation": str(least)})
            _put(connection, meta)
    finally:
        connection.close()


def _marks(columns: Sequence[object]) -> str:
    return ", ".join("?" * len(columns))


def _put_completions(connection: sqlite3.Connection, evaluation: StoredEvaluation) -> None:
    iteration, name = evaluation.iteration, evaluation.set_name
    connection.execute("DELETE FROM completions WHERE iteration = ? AND set_name = ?", (iteration, name))
    rows = [completion_columns(iteration, name, completion) for completion in evaluation.completions]
    if rows:
        connection.executemany(f"INSERT INTO completions VALUES ({_marks(rows[0])})", rows)


def _trim_completions(connection: sqlite3.Connection, evaluations: Sequence[StoredEvaluation]) -> None:
    if not any(evaluation.completions for evaluation in evaluations):
        return
    sizes = connection.execute(
        "SELECT iteration, SUM(LENGTH(CAST(prompt AS BLOB)) + LENGTH(CAST(text AS BLOB))) FROM completions"
        " GROUP BY iteration ORDER BY iteration DESC"
    ).fetchall()
    total = sizes[0][1]
    for iteration, size in sizes[1:]:  # those of the newest evaluation stay, whatever their size
        total += size
        if total > MOST_COMPLETION_BYTES:
            connection.execute("DELETE FROM completions WHERE iteration <= ?", (iteration,))
            return


def _put(connection: sqlite3.Connection, values: MetaValues) -> None:
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(values.items()))


def _number(connection: sqlite3.Connection, key: str) -> int:
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return 0 if found is None else int(found[0])


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = extended_code(error)
        if code == sqlite3.SQLITE_READONLY_DBMOVED:
            raise FencedError(f"{path}: was moved or deleted while this coordinator ran") from error
        if code in _FULL_CODES:
            raise StoreFullError(full_message(path.parent, error)) from error
        if code & 0xFF in _BUSY_CODES:
            raise StoreBusyError(f"{path}: held by another process ({error})") from error
        if is_damage(error) and code != sqlite3.SQLITE_ERROR:
            raise TransientError(
                f"{path}: damaged ({error}); the next start falls back to the newest good backup"
            ) from error
        raise
