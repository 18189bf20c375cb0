"""The folder in which a worker keeps snapshots of weights: which one to start from, and which old ones go.

The folder may be this worker's own or shared by all; in a cluster nobody else tidies it.
"""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dartes.checkpoint import Checkpoint, CheckpointError, SnapshotError
from dartes.noise import ServedDtype
from dartes.v1 import population_pb2 as wire
from dartes_worker.master import MasterWeights

log = logging.getLogger(__name__)

_NAME: Final = "iteration-{:08d}.safetensors"
_PARTIALS: Final = ".iteration-*.partial-*"

ABANDONED_SECONDS: Final = 3600.0
"""A half-written file that nobody has touched for this long belongs to a worker that was killed."""


def snapshot_path(folder: Path, iteration: int) -> Path:
    """The file of the weights after `iteration` updates; makes the folder where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / _NAME.format(iteration)


def newest_good(
    folder: Path,
    known: Sequence[wire.SnapshotInfo],
    checkpoint: Checkpoint,
    served: ServedDtype,
    threads: int,
) -> MasterWeights | None:
    """The weights of the newest snapshot that the coordinator knows and this folder holds whole, or None."""
    for info in sorted(known, key=lambda one: -one.iteration):
        path = folder / info.file
        if not path.exists():  # whoever wrote it may have a folder of its own
            log.info("the snapshot of iteration %d is not kept here", info.iteration)
            continue
        try:
            master = MasterWeights.load_snapshot(path, checkpoint, served, threads=threads)
        except (CheckpointError, SnapshotError) as error:
            log.warning("%s; trying an older one or the base model", error)
            continue
        if master.version.row_hash == info.row_hash and master.version.iteration == info.iteration:
            log.info("starting from the snapshot of iteration %d", info.iteration)
            return master
        log.warning("%s: is of another run; not used", path)
    return None


def prune(folder: Path, iteration: int, keep: int, now: float | None = None) -> list[str]:
    """Delete what is of no use any more once `iteration` has been written; returns the names.

    The newest `keep` stay, and one more: until the coordinator has recorded the new one, it still names that.
    Later iterations go too: they are of a history that a damaged store has lost.
    """
    stamp = time.time() if now is None else now
    kept = _NAME.format(iteration)
    names = sorted(path.name for path in folder.glob(_NAME.replace("{:08d}", "*")))
    earlier = [name for name in names if name <= kept]
    gone = [*earlier[: -(keep + 1)], *(name for name in names if name > kept)]
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
