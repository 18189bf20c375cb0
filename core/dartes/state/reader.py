"""Read-only access to a run's store, safe while the coordinator writes to it and after it was killed.

Everything here returns what was recorded; recomputing what it led to is `dartes.state.history`.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dartes.errors import ConfigurationError, TransientError
from dartes.state.columns import (
    COMPLETION_COLUMNS,
    EVALUATION_COLUMNS,
    ITERATION_COLUMNS,
    StoredCompletion,
    StoredEvaluation,
    StoredIteration,
    StoredSnapshot,
    completion_of,
    evaluation_of,
    iteration_of,
)
from dartes.state.errors import DamagedStoreError, NoStateError, is_damage
from dartes.state.folder import RunFolder
from dartes.state.schema import SCHEMA_VERSION

PAGE_ITERATIONS = 16
"""Iterations read at once: between pages no lock is held, so a long reading never delays a commit."""


class RunReader:
    """A connection to the store of a run folder that never changes a value.

    Every method raises DamagedStoreError where the store does not hold what was written to it, and
    TransientError where it can't be read now.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

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
                f"{folder.path}: no run here ({path.name} is missing); start one with "
                "`dartes run JOB --workdir`"
            )
        # mode=rw, with statements that write refused below: where a coordinator was killed inside a commit,
        # the store has to be rolled back before anybody can read it.
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=30)
        reader = cls(connection, path)
        try:
            reader._query("PRAGMA query_only = ON")
            reader._require_version()
        except BaseException:
            connection.close()
            raise
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

    def check_pages(self) -> None:
        """Raise DamagedStoreError where SQLite finds the file's pages wrong."""
        verdict = str(self._query("PRAGMA quick_check(1)")[0][0])
        if verdict != "ok":
            raise DamagedStoreError(f"{self._path.name}: {verdict.splitlines()[0]}")

    def meta(self, key: str) -> bytes | None:
        """A value of the meta table as bytes, or None."""
        found = self._query("SELECT value FROM meta WHERE key = ?", (key,))
        if not found:
            return None
        value = found[0][0]
        return value.encode() if isinstance(value, str) else bytes(value)

    def meta_text(self, key: str) -> str | None:
        """A value of the meta table as text, or None."""
        value = self.meta(key)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError as error:
            raise DamagedStoreError(f"{self._path.name}: {key} is not text") from error

    def meta_json(self, key: str) -> Any:
        """A value of the meta table that is JSON, parsed; None where there is none."""
        value = self.meta(key)
        try:
            return None if value is None else json.loads(value)
        except ValueError as error:
            raise DamagedStoreError(f"{self._path.name}: {key} is not JSON") from error

    def iteration_count(self) -> int:
        """Number of committed iterations."""
        return int(self._query("SELECT COALESCE(MAX(iteration) + 1, 0) FROM iterations")[0][0])

    def last_row_hash(self) -> bytes | None:
        """Hash of the newest journal row, or None before the first commit."""
        found = self._query("SELECT row_hash FROM iterations ORDER BY iteration DESC LIMIT 1")
        return bytes(found[0][0]) if found else None

    def last_epoch(self, stop: int | None = None) -> int | None:
        """Data epoch of the newest iteration (before `stop`), or None where there is none."""
        end = 2**62 if stop is None else stop
        found = self._query(
            "SELECT epoch FROM iterations WHERE iteration < ? ORDER BY iteration DESC LIMIT 1", (end,)
        )
        return int(found[0][0]) if found else None

    def iterations(self, start: int = 0, stop: int | None = None) -> Iterator[StoredIteration]:
        """Committed iterations start..stop-1 in order."""
        end = 2**62 if stop is None else stop
        while True:
            page = self._query(
                f"SELECT {ITERATION_COLUMNS} FROM iterations WHERE iteration >= ? AND iteration < ?"
                " ORDER BY iteration LIMIT ?",
                (start, end, PAGE_ITERATIONS),
            )
            for row in page:
                yield iteration_of(row)
            if len(page) < PAGE_ITERATIONS:
                return
            start = int(page[-1][0]) + 1

    def journal_rows(self, start: int = 0, limit: int = -1) -> list[tuple[int, bytes, bytes]]:
        """(iteration, encoded journal row, row hash) from `start` on; at most `limit` if not negative."""
        rows = self._query(
            "SELECT iteration, row, row_hash FROM iterations WHERE iteration >= ? ORDER BY iteration LIMIT ?",
            (start, limit),
        )
        return [(int(k), bytes(row), bytes(digest)) for k, row, digest in rows]

    def evaluations(self, stop: int | None = None) -> list[StoredEvaluation]:
        """Recorded evaluations (of iterations before `stop`) by iteration, then set name."""
        rows = self._query(
            f"SELECT {EVALUATION_COLUMNS} FROM evaluations WHERE iteration < ? ORDER BY iteration, set_name",
            (2**62 if stop is None else stop,),
        )
        return [evaluation_of(row) for row in rows]

    def completions(self, iteration: int, set_name: str) -> list[StoredCompletion]:
        """Answers that were kept as text, by row, then sample; empty where there are none (any more)."""
        rows = self._query(
            f"SELECT {COMPLETION_COLUMNS} FROM completions WHERE iteration = ? AND set_name = ?"
            " ORDER BY row, sample",
            (iteration, set_name),
        )
        return [completion_of(row) for row in rows]

    def iterations_with_completions(self, set_name: str) -> list[int]:
        """Evaluated iterations of which answers were kept as text, oldest first."""
        rows = self._query(
            "SELECT DISTINCT iteration FROM completions WHERE set_name = ? ORDER BY iteration", (set_name,)
        )
        return [int(row[0]) for row in rows]

    def snapshots(self) -> list[StoredSnapshot]:
        """Reported snapshots, oldest first."""
        rows = self._query("SELECT iteration, row_hash, digest, file FROM snapshots ORDER BY 1")
        return [StoredSnapshot(int(k), bytes(h), str(d), str(f)) for k, h, d, f in rows]

    def attestations(self, iteration: int | None = None) -> list[tuple[int, str, str, bool]]:
        """(iteration, worker, weight digest, rebuilt), of one iteration or of all."""
        rows = self._query(
            "SELECT iteration, worker, digest, rebuilt FROM attestations WHERE ? IS NULL OR iteration = ?"
            " ORDER BY iteration, worker",
            (iteration, iteration),
        )
        return [(int(k), str(w), str(d), bool(r)) for k, w, d, r in rows]

    def events(self) -> list[tuple[float, str, str]]:
        """(time in seconds since 1970, reason, text), oldest first."""
        rows = self._query("SELECT time, reason, text FROM events ORDER BY id")
        return [(float(t), str(r), str(x)) for t, r, x in rows]

    def _require_version(self) -> None:
        if not self._query("SELECT 1 FROM sqlite_master WHERE name = 'meta'"):
            raise NoStateError(f"{self._path}: the run has not got as far as its first state yet")
        version = self.meta_text("schema_version")
        if version != str(SCHEMA_VERSION):
            raise ConfigurationError(
                f"{self._path}: state version {version}, but this dartes reads version {SCHEMA_VERSION}. "
                "Go on here with the version of dartes that wrote it, or start the job in a new folder"
            )

    def _query(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                raise DamagedStoreError(f"{self._path.name}: {error}") from error
            raise TransientError(f"{self._path}: can't be read now ({error})") from error
