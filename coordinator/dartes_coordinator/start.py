"""From a run folder to a coordinator: the job as a plan, the store checked or restored, the state recomputed."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

from dartes.data import load_dataset
from dartes.difficulty import AlgorithmSettings, DifficultyState, draw_batch
from dartes.errors import ConfigurationError
from dartes.ids import Iteration
from dartes.journal import JournalHeader
from dartes.report.metrics import metrics_of
from dartes.report.summary import summarise, write_json
from dartes.spec import JobSpec
from dartes.spec.algorithm import algorithm_digest, algorithm_fields
from dartes.spec.load import LoadedJob
from dartes.state import NoStateError, RunFolder, RunReader
from dartes.state.history import DivergenceError, recompute

from dartes_coordinator.backups import restore_if_damaged, set_aside
from dartes_coordinator.coordinator import Coordinator, Progress
from dartes_coordinator.faults import FaultPlan
from dartes_coordinator.outputs import Outputs
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.status import Pace
from dartes_coordinator.store import Store

log = logging.getLogger(__name__)


def plan_of(name: str, spec: JobSpec, base_dir: Path) -> RunPlan:
    """Resolve a job: load its data sets for their digests and sizes.

    Raises
    ------
    ConfigurationError
        A data set can't be read.
    """
    train = load_dataset(spec.dataset, base_dir)
    held_out = {s.name: load_dataset(s.dataset, base_dir) for s in spec.evaluation.sets}
    return RunPlan(
        name=name,
        settings=AlgorithmSettings.from_spec(spec),
        algorithm_digest=algorithm_digest(spec),
        algorithm_fields=algorithm_fields(spec),
        problem_count=len(train.rows),
        data_digests={"train": train.digest, **{key: d.digest for key, d in held_out.items()}},
        evaluation_sizes={key: len(d.rows) for key, d in held_out.items()},
        evaluate_every=spec.evaluation.every_iterations,
        evaluate_parent=spec.evaluation.parent,
        slices_per_member=spec.es.slices_per_member,
        snapshot_every=None if spec.checkpoint.weights is None else spec.checkpoint.weights.every_iterations,
        keep=spec.checkpoint.keep,
    )


def open_run(
    folder: RunFolder, job: LoadedJob, clock: Callable[[], float] = time.monotonic
) -> Coordinator | None:
    """Open the run in a folder; None where it is finished and nothing is left to do.

    Raises
    ------
    ConfigurationError
        The folder holds another job's run.
    DamagedStoreError
        The store is damaged and no backup is good.
    """
    plan = plan_of(job.job.metadata.name, job.job.spec, job.base_dir)
    restored = restore_if_damaged(folder)
    try:
        progress = _load(folder, plan)
    except DivergenceError as error:
        restored = set_aside(folder, f"state.sqlite: {error}")
        progress = _load(folder, plan)
    store = Store.open(folder.store)
    _claim(store, plan)
    if _is_finished(folder, plan, progress):
        with RunReader.open(folder) as reader:
            write_json(folder.summary, summarise(reader, plan.name, plan.settings))
        store.close()
        return None
    store.put_meta({"status": "running"})
    faults = FaultPlan.from_environment(store.incarnation)
    coordinator = Coordinator(plan, store, Outputs(folder), progress, faults, clock())
    if restored is not None:
        coordinator.event("Restored", restored.message, time.time())
    return coordinator


def _load(folder: RunFolder, plan: RunPlan) -> Progress:
    """Recompute the state from the stored bits and write journal and metrics anew."""
    progress = Progress(DifficultyState.new(plan.problem_count), None, [])
    if not folder.store.exists():
        return progress
    try:
        reader = RunReader.open(folder)
    except NoStateError:
        return progress
    with reader:
        _require_same_algorithm(folder, reader, plan)
        progress.header = reader.meta("journal_header")
        progress.snapshots = {s.iteration: s for s in reader.snapshots()}
        progress.evaluations = reader.evaluations()
        if progress.header is None:
            return progress
        progress.hashes = [JournalHeader.decode(progress.header).hash()]
        pace, lines, rows = Pace(), [], []
        for decision in recompute(plan.settings, progress.state, reader.iterations(), progress.hashes[0]):
            stored, scored = decision.stored, decision.scored
            evaluated = [e for e in progress.evaluations if e.iteration == stored.iteration]
            pace.add(
                stored.beside["seconds"], stored.beside["generated_tokens"], float(scored.pass_rates.mean())
            )
            lines.append(metrics_of(stored, decision.batch, scored, evaluated))
            rows.append(decision.row)
            progress.hashes.append(decision.row_hash)
        progress.pace = pace
    Outputs(folder).rewrite(progress.header, rows, lines)
    return progress


def _require_same_algorithm(folder: RunFolder, reader: RunReader, plan: RunPlan) -> None:
    recorded = json.loads(reader.meta_text("algorithm_fields") or "null")
    if recorded is None or reader.meta_text("algorithm_digest") == plan.algorithm_digest:
        recorded_data = reader.meta_text("data_digest")
        if recorded_data is not None and recorded_data != plan.data_digests["train"]:
            raise ConfigurationError(
                f"{folder.path}: holds a run on another training set (digest {recorded_data[:16]}, now "
                f"{plan.data_digests['train'][:16]}); restore the data or use another folder"
            )
        return
    names = sorted(set(recorded) | set(plan.algorithm_fields))
    changes = [
        f"{name} was {recorded.get(name)!r}, is {plan.algorithm_fields.get(name)!r}"
        for name in names
        if recorded.get(name) != plan.algorithm_fields.get(name)
    ]
    raise ConfigurationError(
        f"{folder.path}: holds another job's run: {'; '.join(changes)}. Use another folder, or the job file "
        "that the run was started with"
    )


def _claim(store: Store, plan: RunPlan) -> None:
    store.put_meta(
        {
            "name": plan.name,
            "algorithm_digest": plan.algorithm_digest,
            "algorithm_fields": json.dumps(dict(plan.algorithm_fields), sort_keys=True),
            "data_digest": plan.data_digests["train"],
        }
    )


def _is_finished(folder: RunFolder, plan: RunPlan, progress: Progress) -> bool:
    with RunReader.open(folder) as reader:
        status, finished_at = reader.meta_text("status"), reader.meta_text("finished_at")
    return (
        status == "done"
        and finished_at == str(progress.iteration)
        and draw_batch(plan.settings, progress.state, Iteration(progress.iteration)) is None
        and all(progress.is_evaluated(name) for name in plan.evaluation_sizes)
    )

