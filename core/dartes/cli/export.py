"""`dartes export`: the fine-tuned model as a folder that other tools load, from base model and journal.

The export pod and `kubectl dartes export` go through here too, so that all three give the same bits.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from dartes.checkpoint import PROVENANCE_FILE, Snapshot, SnapshotError, open_checkpoint, read_snapshot
from dartes.cli.folder import require_run
from dartes.destinations.choice import Choice, Wanted, choose, recorded_evaluations
from dartes.journal import DamagedJournalError, Exported, GoodPrefix, Journal, export, read_good_prefix
from dartes.model_source import resolve_model
from dartes.noise import ServedDtype
from dartes.spec import LoadedJob, load_job
from dartes.state import RunFolder


@dataclass(frozen=True)
class ModelPlace:
    """Where the base model is: source and revision as in a job file, and where relative paths start."""

    source: str
    revision: str | None
    base_dir: Path

    @staticmethod
    def of(job: LoadedJob) -> "ModelPlace":
        """The base model of a job."""
        return ModelPlace(job.job.spec.model.source, job.job.spec.model.revision, job.base_dir)


@dataclass(frozen=True)
class PreparedExport:
    """All that an export needs but a place: the journal's row hash says which model it will be.

    `note` is a sentence about the chosen iteration; `snapshots` is a run folder that may have some.
    """

    journal: Journal
    iteration: int
    model: ModelPlace
    dtype: ServedDtype
    snapshots: RunFolder | None = None
    note: str | None = None

    @property
    def row_hash(self) -> bytes:
        """The journal's row hash after the chosen iteration: the identity of the model."""
        return self.journal.hash_at(self.iteration)

    def write(self, output: Path) -> Exported:
        """Write the model as a new folder.

        Raises
        ------
        ConfigurationError
            The base model isn't there or is another one, or the output exists.
        TransientError
            The disk is full, or the hub can't be reached.
        """
        model = resolve_model(self.model.source, self.model.revision, self.model.base_dir)
        return export(
            open_checkpoint(model),
            self.journal,
            output,
            self.dtype,
            iteration=self.iteration,
            snapshot=None
            if self.snapshots is None
            else nearest_snapshot(self.snapshots, self.journal, self.iteration),
            threads=os.cpu_count() or 1,
        )


def prepare_export(
    folder: RunFolder, wanted: Wanted, dtype: ServedDtype | None, job_file: Path | None = None
) -> PreparedExport:
    """Read what an export of a run folder needs; `job_file` is taken in place of the folder's own.

    The dtype is the one members were served in unless told otherwise.

    Raises
    ------
    ConfigurationError
        No run here, or the iteration is not in the journal. DamagedJournalError where the journal is damaged
        before that iteration.
    """
    if job_file is None:
        require_run(folder)
    job = load_job(job_file or folder.job)
    spec = job.job.spec
    good = read_good_prefix(folder.journal)
    require_good(good, wanted, "or `dartes run` again to have the journal written anew from the run's store")
    sets = spec.evaluation.sets
    evaluations = recorded_evaluations(folder) if wanted is Choice.BEST else []
    chosen = choose(wanted, len(good.journal.rows), evaluations, sets[0].name if sets else None)
    return PreparedExport(
        good.journal,
        chosen.iteration,
        ModelPlace.of(job),
        dtype or ServedDtype(spec.served_type.lower()),
        folder,
        chosen.note,
    )


def require_good(good: GoodPrefix, wanted: Wanted, remedy: str) -> None:
    """Raise DamagedJournalError where the journal is damaged before what is wanted."""
    count = len(good.journal.rows)
    if good.lost is not None and (isinstance(wanted, Choice) or wanted > count):
        raise DamagedJournalError(
            f"{good.lost}; give --iteration {count} or less to export that, {remedy}", count
        )


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
    return prepare_export(folder, Choice.LAST if iteration is None else iteration, dtype).write(output)


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


def exported_line(done: Exported) -> str:
    """What an export says when it is done."""
    return f"{done.output}: the model after {done.iteration} iterations, weight digest {done.digest.total}"


def exported_hash(output: Path) -> str | None:
    """The journal hash (hex) of the model in a folder that `dartes` exported; None for anything else."""
    try:
        provenance = json.loads((output / PROVENANCE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(provenance.get("journal_hash")) if isinstance(provenance, dict) else None
