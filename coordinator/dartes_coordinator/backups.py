"""Verified copies of the store, and the choice of the newest good one when the store is damaged.

A copy counts only after it was read back; what is damaged is moved aside, never deleted, and only once
something good is there to take its place.
"""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dartes.durable import sync_folder
from dartes.errors import RESTORED
from dartes.journal import JournalError, JournalHeader, JournalRow, read_good_prefix, row_hash
from dartes.state import DamagedStoreError, NoStateError, RunFolder, RunReader
from dartes_coordinator.full_disk import full_disk_named
from dartes_coordinator.store import MetaValues, Store, prepare_copy

Check = Callable[[Path], int]
"""Checks a store, returns its number of iterations, raises DamagedStoreError."""

MetaFor = Callable[[int], MetaValues]
"""Values of the meta table for a restored store, by its number of iterations."""


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
        with RunReader.open(folder, path) as reader:
            reader.check_pages()
            header = reader.meta("journal_header")
            rows = reader.journal_rows()
    except NoStateError:
        return 0  # created, and killed before its first transaction
    try:
        previous = b"" if header is None else JournalHeader.decode(header).hash()
        for expected, (iteration, encoded, digest) in enumerate(rows):
            row = JournalRow.decode(encoded)
            previous = row_hash(previous, row)
            if iteration != expected or row.iteration != expected or previous != digest:
                raise DamagedStoreError(f"{path.name}: the journal's chain breaks at iteration {expected}")
    except JournalError as error:
        raise DamagedStoreError(f"{path.name}: {error}") from error
    return len(rows)


def make_backup(store: Store, folder: RunFolder, iteration: int, keep: int) -> Path:
    """Copy the store, check the copy, give it its final name and drop all but the newest `keep`.

    Raises
    ------
    StoreFullError
        The disk is full; nothing of the copy is left.
    DamagedStoreError
        The copy is not good; nothing of it is left.
    """
    final = folder.backups / f"state-{iteration:08d}.sqlite"
    partial = final.with_suffix(".partial")
    with full_disk_named(folder.path):
        folder.backups.mkdir(exist_ok=True)
        for leftover in folder.backups.glob("*.partial*"):
            leftover.unlink()
        try:
            store.copy_to(partial)
            check_store(folder, partial)
            _sync(partial)
            partial.replace(final)
        finally:
            partial.unlink(missing_ok=True)
        sync_folder(folder.backups)
        for old in _backups(folder)[keep:]:
            old.unlink()
    return final


def restore_if_damaged(
    folder: RunFolder,
    check_backup: Check,
    meta_for: MetaFor = lambda _: {},
    emptied: Callable[[], bool] = lambda: False,
) -> Restored | None:
    """Put the newest good backup in the place of a damaged store; None where the store is good or new.

    `meta_for` gives what the restored store is to hold in its meta table besides; `emptied` says whether a
    store without iterations has lost them on purpose, and older backups are only still to be deleted.

    Raises
    ------
    DamagedStoreError
        The store is damaged and no backup is good. Everything is left as it was; the message lists what was
        tried.
    """
    if not folder.store.exists():
        return (
            set_aside(folder, f"{folder.store.name} is missing", check_backup, meta_for)
            if _has_past(folder)
            else None
        )
    try:
        iterations = check_store(folder, folder.store)
    except DamagedStoreError as error:
        return set_aside(folder, str(error), check_backup, meta_for)
    if iterations == 0 and _has_past(folder) and not emptied():
        return set_aside(folder, f"{folder.store.name} has lost all iterations", check_backup, meta_for)
    return None


def set_aside(
    folder: RunFolder,
    reason: str,
    check_backup: Check,
    meta_for: MetaFor = lambda _: {},
    wall_time: Callable[[], float] = time.time,
) -> Restored:
    """Move the damaged store away and restore the newest good backup; raises as `restore_if_damaged`."""
    tried, bad = [reason], []
    for backup in _backups(folder):
        try:
            iteration = check_backup(backup)
        except DamagedStoreError as error:
            tried.append(str(error))
            bad.append(backup)
            continue
        break
    else:
        raise DamagedStoreError(
            f"{folder.path}: the state is damaged and no good backup is left ({'; '.join(tried)}). "
            f"If {folder.journal.name} is whole, `dartes export` still rebuilds the model from it; "
            "to train again, use a new folder"
        )
    with full_disk_named(folder.path):
        partial = folder.store.with_suffix(".partial")
        for leftover in folder.path.glob(partial.name + "*"):
            leftover.unlink()  # an interrupted restoration's rollback journal would be played onto this one
        shutil.copyfile(backup, partial)
        # Incarnations that were handed out after the backup must never come again. A restart takes longer
        # than a second, so the time is above all of them.
        prepare_copy(partial, int(wall_time()), meta_for(iteration))
        _sync(partial)
        # A rollback journal belongs to the store it was written for and must not be played onto another.
        hot_journal = folder.store.with_name(folder.store.name + "-journal")
        # A bad backup would count among the newest ones when old ones are dropped.
        for damaged in (folder.store, hot_journal, *bad):
            _move_aside(folder, damaged)
        partial.replace(folder.store)
        sync_folder(folder.path)
    return Restored(
        message=f"{'; '.join(tried)}. The backup {backup.name} {RESTORED}: "
        f"{iteration} iterations are kept, later ones are computed again",
        iteration=iteration,
    )


def remove_backups(folder: RunFolder) -> None:
    """Delete all backups: the run has been set aside as a whole."""
    for backup in _backups(folder):
        backup.unlink()


def _has_past(folder: RunFolder) -> bool:
    """Whether something in the folder says that iterations were committed."""
    if _backups(folder):
        return True
    try:
        return bool(read_good_prefix(folder.journal).journal.rows)
    except JournalError:
        return False


def _move_aside(folder: RunFolder, path: Path) -> None:
    if not path.exists():
        return
    folder.damaged.mkdir(exist_ok=True)
    number = 0
    while (target := folder.damaged / f"{path.name}.{number}").exists():
        number += 1
    path.replace(target)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _backups(folder: RunFolder) -> list[Path]:
    """Newest first."""
    return sorted(folder.backups.glob("state-*.sqlite"), reverse=True)
