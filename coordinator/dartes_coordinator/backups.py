"""Verified copies of the store, and the choice of the newest good one when the store is damaged.

A copy counts only after it was read back; a damaged store is moved aside, never deleted.
"""

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from dartes.errors import DartesError
from dartes.journal import JournalError, JournalHeader, JournalRow, row_hash
from dartes.state import NoStateError, RunFolder, RunReader

from dartes_coordinator.store import Store


class DamagedStoreError(DartesError):
    """A store does not hold what was committed to it."""


@dataclass(frozen=True)
class Restored:
    """What a fall-back to a backup means for the run."""

    message: str
    iteration: int


def check_store(folder: RunFolder, path: Path) -> int:
    """Check the pages and the chain of journal rows of a store; returns its number of iterations.

    Raises
    ------
    DamagedStoreError
        Says what is wrong.
    """
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            verdict = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        finally:
            connection.close()
        if verdict != "ok":
            raise DamagedStoreError(f"{path.name}: {verdict.splitlines()[0]}")
        with RunReader.open(folder, path) as reader:
            header = reader.meta("journal_header")
            rows = reader.journal_rows()
    except NoStateError:
        return 0  # created, and killed before its first transaction
    except sqlite3.DatabaseError as error:
        raise DamagedStoreError(f"{path.name}: {error}") from error
    if header is None:
        return 0
    try:
        previous = JournalHeader.decode(header).hash()
        for expected, (iteration, encoded, digest) in enumerate(rows):
            row = JournalRow.decode(encoded)
            previous = row_hash(previous, row)
            if iteration != expected or row.iteration != expected or previous != digest:
                raise DamagedStoreError(f"{path.name}: the journal's chain breaks at iteration {expected}")
    except JournalError as error:
        raise DamagedStoreError(f"{path.name}: {error}") from error
    return len(rows)


def make_backup(store: Store, folder: RunFolder, iteration: int, keep: int) -> Path:
    """Copy the store, check the copy, give it its final name and drop all but the newest `keep`."""
    folder.backups.mkdir(exist_ok=True)
    for leftover in folder.backups.glob("*.partial"):
        leftover.unlink()
    final = folder.backups / f"state-{iteration:08d}.sqlite"
    partial = final.with_suffix(".partial")
    store.copy_to(partial)
    check_store(folder, partial)
    with partial.open("rb") as copied:
        os.fsync(copied.fileno())
    partial.replace(final)
    for old in _backups(folder)[keep:]:
        old.unlink()
    return final


def restore_if_damaged(folder: RunFolder) -> Restored | None:
    """Put the newest good backup in the place of a damaged store; None where the store is good or new.

    Raises
    ------
    DamagedStoreError
        The store is damaged and no backup is good. The message lists what was tried.
    """
    if not folder.store.exists():
        return None if not _backups(folder) else _restore(folder, "state.sqlite is missing")
    try:
        check_store(folder, folder.store)
    except DamagedStoreError as error:
        return set_aside(folder, str(error))
    return None


def set_aside(folder: RunFolder, reason: str) -> Restored:
    """Move the damaged store away and restore the newest good backup; raises as `restore_if_damaged`."""
    folder.damaged.mkdir(exist_ok=True)
    number = len(list(folder.damaged.iterdir()))
    folder.store.replace(folder.damaged / f"state-{number}.sqlite")
    # A rollback journal belongs to the store it was written for and must not be played onto another.
    hot_journal = folder.store.with_name(folder.store.name + "-journal")
    if hot_journal.exists():
        hot_journal.replace(folder.damaged / f"state-{number}.sqlite-journal")
    return _restore(folder, reason)


def _restore(folder: RunFolder, reason: str) -> Restored:
    tried = [reason]
    for backup in _backups(folder):
        try:
            iteration = check_store(folder, backup)
        except DamagedStoreError as error:
            tried.append(str(error))
            continue
        partial = folder.store.with_suffix(".partial")
        partial.write_bytes(backup.read_bytes())
        with partial.open("rb") as copied:
            os.fsync(copied.fileno())
        partial.replace(folder.store)
        return Restored(
            message=f"{'; '.join(tried)}. The backup {backup.name} is used instead: "
            f"{iteration} iterations are kept, later ones are computed again",
            iteration=iteration,
        )
    raise DamagedStoreError(
        f"{folder.path}: the state is damaged and no good backup is left ({'; '.join(tried)}). "
        f"If {folder.journal.name} is whole, `dartes export` still rebuilds the model from it; "
        "to train again, use a new folder"
    )


def _backups(folder: RunFolder) -> list[Path]:
    return sorted(folder.backups.glob("state-*.sqlite"), reverse=True)
