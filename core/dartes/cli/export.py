"""`dartes export`: the fine-tuned model as a folder that other tools load, from base model and journal."""

import os
from pathlib import Path

from dartes.checkpoint import Snapshot, SnapshotError, open_checkpoint, read_snapshot
from dartes.journal import Exported, Journal, export, read_good_prefix
from dartes.model_source import resolve_model
from dartes.noise import ServedDtype
from dartes.spec import load_job
from dartes.state import RunFolder


def export_run(folder: RunFolder, output: Path, iteration: int | None, dtype: ServedDtype | None) -> Exported:
    """Write the model after `iteration` iterations (all, if None).

    Needs the run's job file, its journal and the base model, not the store. The dtype is the one members were
    served in unless told otherwise.

    Raises
    ------
    ConfigurationError
        The base model is another one, the iteration is not in the journal, or the output exists.
    """
    job = load_job(folder.job)
    spec = job.job.spec
    good = read_good_prefix(folder.journal)
    if good.lost is not None and (iteration is None or iteration > len(good.journal.rows)):
        raise SnapshotError(f"{good.lost}; give --iteration {len(good.journal.rows)} or less to export that")
    checkpoint = open_checkpoint(resolve_model(spec.model.source, spec.model.revision, job.base_dir))
    last = len(good.journal.rows) if iteration is None else iteration
    served = dtype or ServedDtype(spec.served_type.lower())
    return export(
        checkpoint,
        good.journal,
        output,
        served,
        iteration=iteration,
        snapshot=nearest_snapshot(folder, good.journal, last),
        threads=os.cpu_count() or 1,
    )


def nearest_snapshot(folder: RunFolder, journal: Journal, iteration: int) -> Snapshot | None:
    """The newest good snapshot of this journal that is not after `iteration`."""
    for path in sorted(folder.snapshots.glob("iteration-*.safetensors"), reverse=True):
        try:
            snapshot = read_snapshot(path)
        except SnapshotError:
            continue  # the journal alone gives the same bits, only later
        known = snapshot.iteration <= len(journal.rows)
        if (
            known
            and snapshot.iteration <= iteration
            and journal.hash_at(snapshot.iteration) == snapshot.row_hash
        ):
            return snapshot
    return None
