"""`dartes export`: the fine-tuned model as a folder that other tools load, from base model and journal."""

import json
import os
from pathlib import Path

from dartes.checkpoint import PROVENANCE_FILE, Snapshot, SnapshotError, open_checkpoint, read_snapshot
from dartes.cli.folder import require_run
from dartes.errors import ConfigurationError
from dartes.journal import DamagedJournalError, Exported, Journal, export, read_good_prefix
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
        No run here, the base model is another one, the iteration is not in the journal, or the output exists.
        DamagedJournalError where the journal is damaged before that iteration.
    TransientError
        The disk is full.
    """
    require_run(folder)
    job = load_job(folder.job)
    spec = job.job.spec
    good = read_good_prefix(folder.journal)
    count = len(good.journal.rows)
    if good.lost is not None and (iteration is None or iteration > count):
        raise DamagedJournalError(
            f"{good.lost}; give --iteration {count} or less to export that, or `dartes run` again to have "
            "the journal written anew from the run's store",
            count,
        )
    if iteration is not None and iteration > count:
        raise ConfigurationError(
            f"--iteration {iteration}: the run has {count} iterations; allowed: 0 to {count}"
        )
    checkpoint = open_checkpoint(resolve_model(spec.model.source, spec.model.revision, job.base_dir))
    return export(
        checkpoint,
        good.journal,
        output,
        dtype or ServedDtype(spec.served_type.lower()),
        iteration=iteration,
        snapshot=nearest_snapshot(folder, good.journal, count if iteration is None else iteration),
        threads=os.cpu_count() or 1,
    )


def nearest_snapshot(folder: RunFolder, journal: Journal, iteration: int) -> Snapshot | None:
    """The newest good snapshot of this journal that is not after `iteration`."""
    for path in sorted(folder.snapshots.glob("iteration-*.safetensors"), reverse=True):
        try:
            # The quick look first: reading all of a snapshot takes as long as it is large.
            snapshot = read_snapshot(path, verify=False)
            at = snapshot.iteration
            if at <= min(iteration, len(journal.rows)) and journal.hash_at(at) == snapshot.row_hash:
                return read_snapshot(path)
        except SnapshotError:
            continue  # the journal alone gives the same bits, only later
    return None


def exported_hash(output: Path) -> str | None:
    """The journal hash (hex) of the model in a folder that `dartes` exported; None for anything else."""
    try:
        provenance = json.loads((output / PROVENANCE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(provenance.get("journal_hash")) if isinstance(provenance, dict) else None
