"""The files beside the store: journal, metrics, summary, backups. All but the backups can be made again.

A full disk here never stops a run: what could not be written is written whole at the next chance.
"""

import errno
import json
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from dartes.difficulty import AlgorithmSettings, Batch, Scored
from dartes.journal import JournalHeader, JournalRow, append_row, write_journal
from dartes.report.metrics import metrics_of
from dartes.report.summary import summarise, write_json
from dartes.state import RunFolder, RunReader, StoredEvaluation, StoredIteration, StoredSnapshot

from dartes_coordinator.backups import make_backup
from dartes_coordinator.store import Store, StoreFullError

log = logging.getLogger(__name__)


class Outputs:
    """Files of one run folder that follow the store."""

    def __init__(self, folder: RunFolder, wall_time: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.wall_time = wall_time
        self._stale = False

    def start_journal(self, header: bytes) -> bytes:
        """Write a journal without rows; returns the header's hash."""
        parsed = JournalHeader.decode(header)
        self._tolerating_full_disk(lambda: write_journal(self.folder.journal, parsed, ()))
        return parsed.hash()

    def rewrite(self, header: bytes, rows: Iterable[JournalRow], metrics: Iterable[dict[str, Any]]) -> None:
        """Write journal and metrics anew from what the store holds."""
        write_journal(self.folder.journal, JournalHeader.decode(header), rows)
        partial = self.folder.metrics.with_name("metrics.jsonl.partial")
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in metrics)
        partial.replace(self.folder.metrics)

    def append(
        self, stored: StoredIteration, batch: Batch, scored: Scored, evaluations: list[StoredEvaluation]
    ) -> None:
        """Extend journal and metrics by a committed iteration."""
        if self._stale:
            return  # a restart writes them anew; a gap in the middle would be worse than an end
        line = json.dumps(metrics_of(stored, batch, scored, evaluations)) + "\n"
        row = JournalRow.decode(stored.row)

        def write() -> None:
            with RunReader.open(self.folder) as reader:
                before = reader.journal_rows(stored.iteration - 1, 1) if stored.iteration else []
                header = reader.meta("journal_header")
            previous = before[0][2] if before else JournalHeader.decode(header or b"").hash()
            append_row(self.folder.journal, previous, row)
            with self.folder.metrics.open("a", encoding="utf-8") as file:
                file.write(line)

        self._tolerating_full_disk(write)

    def finish(self, name: str, settings: AlgorithmSettings) -> None:
        """Write the summary."""
        with RunReader.open(self.folder) as reader:
            summary = summarise(reader, name, settings)
        self._tolerating_full_disk(lambda: write_json(self.folder.summary, summary))

    def back_up(self, store: Store, iteration: int, keep: int) -> None:
        """Make a verified backup; a full disk costs the backup, not the run."""
        try:
            make_backup(store, self.folder, iteration, keep)
        except StoreFullError as error:
            log.warning("no backup at iteration %d: %s", iteration, error)

    def journal_rows(self, start: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        """(iteration, encoded row, row hash) from the store."""
        with RunReader.open(self.folder) as reader:
            return reader.journal_rows(start, limit)

    def drop_snapshots(self, snapshots: Iterable[StoredSnapshot]) -> None:
        """Delete the files of snapshots that the store no longer names."""
        for snapshot in snapshots:
            (self.folder.snapshots / snapshot.file).unlink(missing_ok=True)

    def _tolerating_full_disk(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            self._stale = True
            log.warning("%s: the disk is full; journal and metrics are written anew at the next start", error)
