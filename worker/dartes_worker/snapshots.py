"""The folder in which a worker keeps snapshots of weights: which one to start from, and which old ones go.

The folder may be this worker's own or shared by all; in a cluster nobody else tidies it.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dartes.checkpoint import CheckpointError, SnapshotError
from dartes.v1 import population_pb2 as wire
from dartes_worker.weights.replica import Replica

log = logging.getLogger(__name__)

_NAME: Final = "iteration-{:08d}.safetensors"
_PARTIALS: Final = ".iteration-*.partial-*"

ABANDONED_SECONDS: Final = 3600.0
"""A half-written file that nobody has touched for this long belongs to a worker that was killed."""


def snapshot_path(folder: Path, iteration: int) -> Path:
    """The file of the weights after `iteration` updates; makes the folder where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / _NAME.format(iteration)


def load_newest_good(replica: Replica, folder: Path, known: Sequence[wire.SnapshotInfo]) -> bool:
    """Load the newest snapshot that the coordinator knows and this folder holds whole; False if none is."""
    for info in sorted(known, key=lambda one: -one.iteration):
        path = folder / info.file
        if not path.exists():  # whoever wrote it may have a folder of its own
            log.info("the snapshot of iteration %d is not kept here", info.iteration)
            continue
        try:
            version = replica.load_snapshot(path)
        except (CheckpointError, SnapshotError) as error:
            log.warning("%s; trying an older one or the base model", error)
            replica.discard()
            continue
        if version.row_hash == info.row_hash and version.iteration == info.iteration:
            log.info("starting from the snapshot of iteration %d", info.iteration)
            return True
        log.warning("%s: is of another run; not used", path)
        replica.discard()
    return False


def unrecorded(folder: Path, known: Sequence[wire.SnapshotInfo]) -> dict[str, int]:
    """The snapshots here that the coordinator does not know: name -> when it was written (ns).

    To be asked when the coordinator has just told what it knows: what comes later may be recorded later.
    """
    recorded = {info.file for info in known}
    found = {name: _written(folder / name) for name in _names(folder) if name not in recorded}
    return {name: written for name, written in found.items() if written is not None}


def prune(
    folder: Path, iteration: int, keep: int, unknown: Mapping[str, int], now: float | None = None
) -> list[str]:
    """Delete what is of no use any more once `iteration` has been written; returns the names.

    The newest `keep` stay, and one more: until the coordinator has recorded the new one, it still names that.
    Of later iterations those go that are `unknown` to the coordinator (see `unrecorded`): they are of a
    history that a damaged store has lost. Others have been written by faster workers that share the folder.
    """
    stamp = time.time() if now is None else now
    kept = _NAME.format(iteration)
    names = _names(folder)
    earlier = [name for name in names if name <= kept]
    # Not one that was written again under the same name since: that one is of the present history.
    lost = (n for n in names if n > kept and n in unknown and _written(folder / n) == unknown[n])
    gone = [*earlier[: -(keep + 1)], *lost]
    for partial in folder.glob(_PARTIALS):
        try:
            abandoned = stamp - partial.stat().st_mtime > ABANDONED_SECONDS
        except FileNotFoundError:
            continue  # its writer has just given it its name
        if abandoned:
            gone.append(partial.name)
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    return gone


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(_NAME.replace("{:08d}", "*")))


def _written(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None  # another worker has just deleted it
