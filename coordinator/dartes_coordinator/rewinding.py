"""Going back to an older iteration of a run, once: what came after it is set aside and then forgotten.

Whoever asks names the request by a key, which is written down in the transaction that forgets; a coordinator
that is started again with the same request goes on. What is computed afterwards is nobody's business here.
"""

import json
import logging
import os
import time
from dataclasses import dataclass

from dartes.durable import sync_folder
from dartes.errors import ConfigurationError
from dartes.state import NoStateError, RunFolder, RunReader
from dartes_coordinator.backups import check_store, remove_backups
from dartes_coordinator.full_disk import full_disk_named
from dartes_coordinator.outputs import Outputs
from dartes_coordinator.store import Event, Store

log = logging.getLogger(__name__)

META_KEY = "rewound"


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
                if (reader.meta_json(META_KEY) or {}).get("key") == rewind.key:
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


def go_back(folder: RunFolder, store: Store, rewind: Rewind, keep: int) -> None:
    """Carry out a request that is due, on a store that this process has opened for writing.

    It can be killed at any point: until the transaction the run is as it was, and the next start begins anew.

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
    mark = {META_KEY: json.dumps({"key": rewind.key, "iteration": rewind.iteration, "committed": committed})}
    if committed == rewind.iteration:
        store.put_meta(mark)
        return
    kept = _set_aside(folder, store, rewind, committed)
    # Numbered higher than all that the run will write for a while, they would be taken for the newest.
    remove_backups(folder)
    # All can be made again from the store. A journal with iterations that the store hasn't would be taken for
    # a sign of damage, and a summary for that of a finished run.
    for stale in (folder.journal, folder.metrics, folder.summary, folder.curves):
        stale.unlink(missing_ok=True)
    text = (
        f"the run goes on from iteration {rewind.iteration} as asked; {committed - rewind.iteration} later "
        f"iterations are forgotten, the state as it was is kept in {kept}"
    )
    log.warning("Rewound: %s", text)
    store.forget_from(rewind.iteration, mark, Event(time.time(), "Rewound", text))
    for file in files:
        (folder.snapshots / file).unlink(missing_ok=True)
    if rewind.iteration:
        Outputs(folder).back_up(store, rewind.iteration, keep)


def _set_aside(folder: RunFolder, store: Store, rewind: Rewind, committed: int) -> str:
    """Keep a checked copy of the whole state; returns its path inside the run folder."""
    final = folder.rewound / f"state-{committed:08d}-{rewind.key}.sqlite"
    partial = final.with_suffix(".partial")
    with full_disk_named(folder.path):
        folder.rewound.mkdir(exist_ok=True)
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
