"""The files beside the store: journal, metrics, summary, backups. All but the backups can be made again.

A full disk here never stops an iteration: what could not be written is written at the next chance.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dartes.difficulty import AlgorithmSettings, Batch, Scored
from dartes.errors import TransientError
from dartes.journal import JournalError, JournalHeader, JournalRow, append_row, write_journal
from dartes.report.metrics import metrics_of
from dartes.report.summary import summarise, write_json
from dartes.state import DamagedStoreError, RunFolder, RunReader, StoredEvaluation, StoredIteration
from dartes_coordinator.backups import check_store, make_backup
from dartes_coordinator.full_disk import StoreFullError, UnwritableError, full_disk_named
from dartes_coordinator.store import Store

log = logging.getLogger(__name__)


class Outputs:
    """Files of one run folder that follow the store."""

    def __init__(self, folder: RunFolder, wall_time: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.wall_time = wall_time
        self._journal_end: bytes | None = None
        """Hash with which the journal ends; None = it has to be written whole from the store."""
        self._metrics: list[str] = []
        """Lines that wait for room on the disk."""

    def start_journal(self, header: bytes) -> None:
        """Write a journal without rows."""
        self._tolerating_full_disk(lambda: self._write_journal(header, ()))

    def rewrite(self, header: bytes, rows: Iterable[JournalRow], metrics: Iterable[dict[str, Any]]) -> None:
        """Write journal and metrics anew from what the store holds. Raises StoreFullError."""
        partial = self.folder.metrics.with_name(self.folder.metrics.name + ".partial")
        with full_disk_named(self.folder.path):
            self._write_journal(header, rows)
            with partial.open("w", encoding="utf-8") as file:
                file.writelines(_line(entry) for entry in metrics)
            partial.replace(self.folder.metrics)

    def append(
        self, stored: StoredIteration, batch: Batch, scored: Scored, evaluations: list[StoredEvaluation]
    ) -> dict[str, Any]:
        """Extend journal and metrics by a committed iteration; returns its line of the metrics."""
        line = metrics_of(stored, batch, scored, evaluations)
        self._metrics.append(_line(line))
        self._tolerating_full_disk(lambda: self._extend_journal(JournalRow.decode(stored.row)))
        self._tolerating_full_disk(self._extend_metrics)
        return line

    def finish(self, name: str, settings: AlgorithmSettings, first_set: str | None) -> None:
        """Write what still waits, and the summary; `first_set` chooses the best. Raises StoreFullError."""
        with RunReader.open(self.folder) as reader:
            summary = summarise(reader, name, settings, first_set)
        with full_disk_named(self.folder.path):
            if self._journal_end is None:
                self._journal_from_store()
            self._extend_metrics()
            write_json(self.folder.summary, summary)

    def back_up(self, store: Store, iteration: int, keep: int) -> None:
        """Make a verified backup; what hinders it costs the backup, not the run.

        Raises
        ------
        TransientError
            The store itself is damaged: the next start falls back to an older backup.
        """
        try:
            make_backup(store, self.folder, iteration, keep)
        except UnwritableError as error:
            log.warning("no backup at iteration %d: %s", iteration, error)
        except DamagedStoreError as error:
            try:
                check_store(self.folder, self.folder.store)
            except DamagedStoreError as own:
                raise TransientError(f"{own}; the next start falls back to the newest good backup") from own
            log.warning("no backup at iteration %d: the copy was not good (%s)", iteration, error)

    def journal_rows(self, start: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        """(iteration, encoded row, row hash) from the store."""
        with RunReader.open(self.folder) as reader:
            return reader.journal_rows(start, limit)

    def drop_snapshots(self, files: Sequence[str]) -> None:
        """Delete the files of snapshots that the store no longer names."""
        for file in files:
            (self.folder.snapshots / file).unlink(missing_ok=True)

    def _extend_journal(self, row: JournalRow) -> None:
        if self._journal_end is None:
            self._journal_from_store()
            return
        end, self._journal_end = self._journal_end, None
        try:
            self._journal_end = append_row(self.folder.journal, end, row)
        except (JournalError, FileNotFoundError) as error:
            log.warning("%s; it is written anew", error)
            self._journal_from_store()

    def _journal_from_store(self) -> None:
        with RunReader.open(self.folder) as reader:
            header = reader.meta("journal_header")
            rows = [JournalRow.decode(row) for _, row, _ in reader.journal_rows()]
        if header is not None:
            self._write_journal(header, rows)

    def _write_journal(self, header: bytes, rows: Iterable[JournalRow]) -> None:
        self._journal_end = write_journal(self.folder.journal, JournalHeader.decode(header), rows)

    def _extend_metrics(self) -> None:
        lines = "".join(self._metrics).encode()
        # Unbuffered: what a buffer could not write it would try again when it is closed.
        file = os.open(self.folder.metrics, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        before = os.fstat(file).st_size
        try:
            while lines:
                lines = lines[os.write(file, lines) :]
        except OSError:
            os.ftruncate(file, before)  # half a line would spoil the file for its readers
            raise
        finally:
            os.close(file)
        self._metrics.clear()

    def _tolerating_full_disk(self, write: Callable[[], object]) -> None:
        try:
            with full_disk_named(self.folder.path):
                write()
        except StoreFullError as error:
            log.warning("journal and metrics wait: %s", error)


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"
