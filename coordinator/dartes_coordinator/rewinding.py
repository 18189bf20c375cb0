"""Going back to an older iteration of a run, once: what came after it is set aside and then forgotten.

Whoever asks names the request by a key, which is written down in the transaction that forgets; a coordinator
that is started again with the same request goes on. What is computed afterwards is nobody's business here.
"""

import json
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dartes.durable import sync_folder
from dartes.errors import ConfigurationError
from dartes.state import NoStateError, RunFolder, RunReader
from dartes_coordinator.backups import check_store, remove_backups
from dartes_coordinator.full_disk import full_disk_named
from dartes_coordinator.outputs import Outputs
from dartes_coordinator.store import Event, Store

log = logging.getLogger(__name__)

META_KEY = "rewound"

_LEFTOVERS = "leftovers"
"""In the mark of a request as long as files are to be deleted: names of those among the snapshots."""


@dataclass(frozen=True)
class Rewind:
    """A request to go on from the state after `iteration` committed iterations.

    `key` tells requests apart (of a job in a cluster its uid): each is carried out once.
    """

    iteration: int
    key: str


def due_in(folder: RunFolder, rewind: Rewind | None) -> Rewind | None:
    """The request where it is still to be carried out in this folder.

    Raises
    ------
    ConfigurationError
        The run has fewer iterations than the request names.
    """
    if rewind is None:
        return None
    committed = 0
    if folder.store.exists():
        try:
            with RunReader.open(folder) as reader:
                if _bears_mark(reader, rewind):
                    return None
                committed = reader.iteration_count()
        except NoStateError:
            pass  # created, and killed before its first transaction
    if rewind.iteration > committed:
        raise ConfigurationError(
            f"{folder.path}: can't go on from iteration {rewind.iteration}: "
            f"{committed} iterations are committed; name one from 0 to {committed}, or none for the last one"
        )
    return rewind


def is_done(folder: RunFolder, path: Path, rewind: Rewind) -> bool:
    """Whether a store, or a backup of one, has a request behind it."""
    try:
        with RunReader.open(folder, path) as reader:
            return _bears_mark(reader, rewind)
    except NoStateError:
        return False


def mark_beyond(rewind: Rewind | None, iterations: int) -> dict[str, str]:
    """What a restored store is to say of a request: that it is done, where the store ends before it.

    What the backup lacks is computed again, up to that iteration and beyond. A refusal would fail a job for
    good because its volume was damaged.
    """
    if rewind is None or rewind.iteration <= iterations:
        return {}
    return _mark(rewind, iterations)


def go_back(folder: RunFolder, store: Store, rewind: Rewind, keep: int) -> None:
    """Carry out a request that is due, on a store that this process has opened for writing.

    It can be killed at any point: until the transaction the run is as it was, and the next start begins anew;
    after it the next start has what is left to `clear_up`.

    Raises
    ------
    UnwritableError
        The disk is full; the run is as it was.
    DamagedStoreError
        The copy to be set aside is not good; the run is as it was.
    """
    with RunReader.open(folder) as reader:
        committed = reader.iteration_count()
        files = [s.file for s in reader.snapshots() if s.iteration > rewind.iteration]
    if committed == rewind.iteration:
        store.put_meta(_mark(rewind, committed))
        _back_up(folder, store, rewind.iteration, keep)  # the older ones lack the mark
        return
    kept = _set_aside(folder, store, rewind, committed)
    text = (
        f"the run goes on from iteration {rewind.iteration} as asked; {committed - rewind.iteration} later "
        f"iterations are forgotten, the state as it was is kept in {kept}"
    )
    log.warning("Rewound: %s", text)
    # What is deleted afterwards is written down with it: a start that finds it there goes on with that.
    store.forget_from(rewind.iteration, _mark(rewind, committed, files), Event(time.time(), "Rewound", text))
    clear_up(folder, store, keep)


def has_leftovers(folder: RunFolder) -> bool:
    """Whether the run has gone back, and files of what it forgot may still be there."""
    try:
        with RunReader.open(folder) as reader:
            return _LEFTOVERS in (reader.meta_json(META_KEY) or {})
    except NoStateError:
        return False


def clear_up(folder: RunFolder, store: Store, keep: int) -> None:
    """Delete what is left of forgotten iterations, where the run has just gone back, and back it up anew."""
    with RunReader.open(folder) as reader:
        mark = reader.meta_json(META_KEY) or {}
    if _LEFTOVERS not in mark:
        return
    # Numbered higher than all that the run will write for a while, they would be taken for the newest.
    remove_backups(folder)
    # All can be made again from the store. A journal with iterations that the store hasn't would be taken for
    # a sign of damage, and a summary for that of a finished run.
    for stale in (folder.journal, folder.metrics, folder.summary, folder.curves):
        stale.unlink(missing_ok=True)
    for file in mark.pop(_LEFTOVERS):
        (folder.snapshots / file).unlink(missing_ok=True)
    # Before the backup: where that is restored, nothing is to be deleted again.
    store.put_meta({META_KEY: json.dumps(mark)})
    _back_up(folder, store, int(mark["iteration"]), keep)


def _mark(rewind: Rewind, committed: int, leftovers: Sequence[str] | None = None) -> dict[str, str]:
    values = {"key": rewind.key, "iteration": rewind.iteration, "committed": committed}
    return {META_KEY: json.dumps(values if leftovers is None else {**values, _LEFTOVERS: [*leftovers]})}


def _bears_mark(reader: RunReader, rewind: Rewind) -> bool:
    return bool((reader.meta_json(META_KEY) or {}).get("key") == rewind.key)


def _back_up(folder: RunFolder, store: Store, iteration: int, keep: int) -> None:
    if iteration:
        Outputs(folder).back_up(store, iteration, keep)


def _set_aside(folder: RunFolder, store: Store, rewind: Rewind, committed: int) -> str:
    """Keep a checked copy of the whole state; returns its path inside the run folder."""
    final = folder.rewound / f"state-{committed:08d}-{rewind.key}.sqlite"
    partial = final.with_suffix(".partial")
    with full_disk_named(folder.path):
        folder.rewound.mkdir(exist_ok=True)
        for leftover in folder.rewound.glob("*.partial*"):
            leftover.unlink()  # a killed copy's rollback journal would be played onto this one
        try:
            store.copy_to(partial)
            check_store(folder, partial)
            with partial.open("rb") as file:
                os.fsync(file.fileno())
            partial.replace(final)
        finally:
            partial.unlink(missing_ok=True)
        sync_folder(folder.rewound)
    return f"{folder.rewound.name}/{final.name}"
