"""From a store to where its run stands: the job compared with the run's, the state recomputed from bits."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dartes.difficulty import DifficultyState
from dartes.errors import ConfigurationError
from dartes.journal import JournalHeader, JournalRow
from dartes.report.metrics import metrics_of
from dartes.state import DamagedStoreError, NoStateError, RunFolder, RunReader
from dartes.state.history import recompute
from dartes_coordinator.backups import check_store
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.progress import Progress


@dataclass
class Loaded:
    """A run as recomputed, and what its journal and metrics hold."""

    progress: Progress
    data_digests: dict[str, str] = field(default_factory=dict)
    """As recorded, of every data set that the run has ever had, also of those that it has no longer."""
    rows: list[JournalRow] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)


def load_run(folder: RunFolder, plan: RunPlan, path: Path | None = None, upto: int | None = None) -> Loaded:
    """Recompute a run, or its first `upto` iterations, from the folder's store or from `path`, a backup.

    Raises
    ------
    DamagedStoreError
        The stored bits do not lead to what is stored.
    """
    progress = Progress(DifficultyState(plan.problem_counts))
    loaded = Loaded(progress)
    with RunReader.open(folder, path) as reader:
        loaded.data_digests = _recorded_digests(reader)
        progress.header = reader.meta("journal_header")
        progress.reward_digest = reader.meta_text("reward_digest")
        progress.fingerprints = _fingerprints(reader)
        progress.snapshots = {s.iteration: s for s in reader.snapshots()}
        progress.evaluated(reader.evaluations(upto))
        if progress.header is None:
            return loaded
        progress.hashes = [JournalHeader.decode(progress.header).hash()]
        iterations = reader.iterations(stop=upto)
        for decision in recompute(plan.settings, progress.state, iterations, progress.hashes[0]):
            stored, scored = decision.stored, decision.scored
            evaluated = [e for e in progress.evaluations if e.iteration == stored.iteration]
            loaded.metrics.append(metrics_of(stored, decision.batch, scored, evaluated))
            loaded.rows.append(decision.row)
            progress.note(stored, scored)
    return loaded


def check_deeply(folder: RunFolder, plan: RunPlan, path: Path, upto: int | None = None) -> int:
    """Check pages, chain and every decision of a store; returns its iterations, raises DamagedStoreError.

    Of decisions only the first `upto` are checked, if given: the job may now end before the others.
    """
    iterations = check_store(folder, path)
    try:
        load_run(folder, plan, path, upto)
    except NoStateError as error:
        raise DamagedStoreError(f"{path.name}: is empty") from error
    return iterations


def require_same_run(folder: RunFolder, plan: RunPlan, upto: int | None = None) -> None:
    """Compare a job with what was recorded of the run that the folder's store holds, if any.

    `upto` is the number of iterations that are to stay; all if None.

    Raises
    ------
    ConfigurationError
        It is another job's run, names every field that differs; or the job now ends before what is done.
    """
    try:
        reader = RunReader.open(folder)
    except NoStateError:
        return
    with reader:
        problems = [
            *_changed_fields(reader, plan),
            *_changed_data(reader, plan),
            *_shorter(reader, plan, upto),
        ]
    if problems:
        raise ConfigurationError(
            f"{folder.path}: the job can't go on here: {'; '.join(problems)}. Use another folder, or the job "
            "file that the run was started with"
        )


def _changed_fields(reader: RunReader, plan: RunPlan) -> list[str]:
    if reader.meta_text("algorithm_digest") in {None, plan.algorithm_digest}:
        return []
    recorded = reader.meta_json("algorithm_fields") or {}
    return [
        f"{name} was {recorded.get(name)!r}, is {plan.algorithm_fields.get(name)!r}"
        for name in sorted({*recorded, *plan.algorithm_fields})
        if recorded.get(name) != plan.algorithm_fields.get(name)
    ] or ["its algorithm digest is another: it was started with another version of dartes"]


def _changed_data(reader: RunReader, plan: RunPlan) -> list[str]:
    """Sets may come and go, but one of the same name must measure the same."""
    return [
        f"the data set {name!r} had digest {digest[:16]}, now {plan.data_digests[name][:16]}"
        + ("" if name == "train" else " (an evaluation set with other problems needs another name)")
        for name, digest in sorted(_recorded_digests(reader).items())
        if plan.data_digests.get(name, digest) != digest
    ]


def _recorded_digests(reader: RunReader) -> dict[str, str]:
    recorded: dict[str, str] = reader.meta_json("data_digests") or {}
    return recorded


def _shorter(reader: RunReader, plan: RunPlan, upto: int | None) -> list[str]:
    """Only the length of a run without stages may change; that of stages is a field that decides."""
    if len(plan.settings.stages) > 1:
        return []
    done, epoch = reader.iteration_count() if upto is None else upto, reader.last_epoch(upto)
    (stage,), problems = plan.settings.stages, []
    if stage.iterations is not None and stage.iterations < done:
        problems.append(f"es.iterations is {stage.iterations}, but {done} iterations are done")
    if stage.epochs is not None and epoch is not None and stage.epochs <= epoch:
        problems.append(f"es.epochs is {stage.epochs}, but the run is in its epoch {epoch + 1}")
    return problems


def _fingerprints(reader: RunReader) -> list[str]:
    return [json.dumps(f, sort_keys=True) for f in reader.meta_json("fingerprints") or []]
