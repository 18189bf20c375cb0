"""From a run folder to a coordinator: the job as a plan, the store checked or restored, then loaded."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from dartes.data import load_evaluation_set, load_training
from dartes.difficulty import AlgorithmSettings, draw_batch
from dartes.errors import ConfigurationError
from dartes.ids import Iteration
from dartes.spec import EvaluationSet, JobSpec
from dartes.spec.algorithm import algorithm_digest, algorithm_fields
from dartes.spec.checks import errors_for_training
from dartes.spec.load import LoadedJob
from dartes.state import DamagedStoreError, RunFolder, RunReader
from dartes.tasks.rules import grading_rules
from dartes_coordinator.backups import restore_if_damaged, set_aside
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.faults import FaultPlan
from dartes_coordinator.loading import Loaded, check_deeply, load_run, require_same_run
from dartes_coordinator.outputs import Outputs
from dartes_coordinator.plan import EvaluationSetPlan, RunPlan
from dartes_coordinator.progress import Progress
from dartes_coordinator.rewinding import (
    Rewind,
    clear_up,
    due_in,
    go_back,
    has_leftovers,
    is_done,
    mark_beyond,
)
from dartes_coordinator.store import Store

log = logging.getLogger(__name__)


def plan_of(name: str, spec: JobSpec, base_dir: Path) -> RunPlan:
    """Resolve a job: load its data sets for their digests and sizes.

    Raises
    ------
    ConfigurationError
        A data set can't be read, is too small for its batches, or its task is unknown.
    """
    train = load_training(spec, base_dir)
    problems = errors_for_training(spec, train.sizes)
    if problems:
        raise ConfigurationError("; ".join(str(problem) for problem in problems))
    held_out = {one.name: load_evaluation_set(spec, one.name, base_dir) for one in spec.evaluation.all_sets}
    return RunPlan(
        name=name,
        settings=AlgorithmSettings.from_spec(spec),
        algorithm_digest=algorithm_digest(spec),
        algorithm_fields=algorithm_fields(spec),
        problem_counts=train.sizes,
        data_digests={"train": train.digest, **{key: d.digest for key, d in held_out.items()}},
        evaluation_sets={
            one.name: _evaluation_plan(spec, one, len(held_out[one.name].rows))
            for one in spec.evaluation.all_sets
        },
        evaluate_every=spec.evaluation.every_iterations,
        evaluate_parent=spec.evaluation.parent,
        log_completions=spec.evaluation.log_completions,
        slices_per_member=spec.es.slices_per_member,
        snapshot_every=None if spec.checkpoint.weights is None else spec.checkpoint.weights.every_iterations,
        keep=spec.checkpoint.keep,
    )


def open_run(
    folder: RunFolder,
    job: LoadedJob,
    clock: Callable[[], float] = time.monotonic,
    rewind: Rewind | None = None,
) -> Coordinator | None:
    """Open the run in a folder; None where it is finished and nothing is left to do.

    `rewind` asks that it goes on from an older iteration.

    Raises
    ------
    ConfigurationError
        The folder holds another job's run, the job now ends before what is done, or the run hasn't got as far
        as `rewind` says.
    DamagedStoreError
        The store is damaged and no backup is good.
    UnwritableError
        The disk is full.
    """
    plan = plan_of(job.job.metadata.name, job.job.spec, job.base_dir)
    return open_plan(folder, plan, clock, rewind=rewind)


def open_plan(
    folder: RunFolder,
    plan: RunPlan,
    clock: Callable[[], float],
    faults: Callable[[int], FaultPlan] = FaultPlan.from_environment,
    rewind: Rewind | None = None,
) -> Coordinator | None:
    """As `open_run`, with the job resolved; `faults` gives the fault plan of an incarnation."""

    def check(path: Path) -> int:
        due = None if rewind is None or is_done(folder, path, rewind) else rewind.iteration
        return check_deeply(folder, plan, path, due)

    def marked(iterations: int) -> dict[str, str]:
        return mark_beyond(rewind, iterations)

    restored = restore_if_damaged(folder, check, marked, lambda: has_leftovers(folder))
    try:
        store, loaded = _begin(folder, plan, rewind)
    except DamagedStoreError as error:
        restored = set_aside(folder, f"{folder.store.name}: {error}", check, marked)
        store, loaded = _begin(folder, plan, rewind)
    outputs = Outputs(folder)
    if loaded.progress.header is not None:
        outputs.rewrite(loaded.progress.header, loaded.rows, loaded.metrics)
    if _is_finished(folder, plan, loaded.progress):
        outputs.finish(plan.name, plan.settings, plan.first_set)
        store.close()
        return None
    store.put_meta(_claim(plan, loaded.data_digests))
    progress, now = loaded.progress, clock()
    coordinator = Coordinator(plan, store, outputs, progress, faults(store.incarnation), now)
    if restored is not None:
        coordinator.run.ledger.event("Restored", restored.message)
    return coordinator


def _begin(folder: RunFolder, plan: RunPlan, rewind: Rewind | None) -> tuple[Store, Loaded]:
    """The store as this incarnation's, and what is in it once the run has gone back where that is due."""
    due = due_in(folder, rewind)
    if folder.store.exists():
        require_same_run(folder, plan, None if due is None else due.iteration)
    # From here on an older coordinator can't commit any more, so what is loaded now stays the newest.
    store = Store.open(folder.store)
    try:
        # Going back deletes the backups: damage in what is to stay has to be found while they are there.
        loaded = load_run(folder, plan, None, None if due is None else due.iteration)
        clear_up(folder, store, plan.keep)
        if due is not None:
            go_back(folder, store, due, plan.keep)
            loaded = load_run(folder, plan)
        return store, loaded
    except BaseException:
        store.close()
        raise


def _evaluation_plan(spec: JobSpec, one: EvaluationSet, size: int) -> EvaluationSetPlan:
    return EvaluationSetPlan(
        size=size,
        samples=one.samples,
        holdout=one in spec.evaluation.holdouts,
        against_base=grading_rules(spec.task_of(one)).against_parent,
    )


def _claim(plan: RunPlan, recorded: Mapping[str, str]) -> dict[str, str | bytes]:
    # A set that is left out for one start may come back: what it measured must not be forgotten.
    digests = {**recorded, **plan.data_digests}
    return {
        "name": plan.name,
        "algorithm_digest": plan.algorithm_digest,
        "algorithm_fields": json.dumps(dict(plan.algorithm_fields), sort_keys=True),
        "data_digests": json.dumps(digests, sort_keys=True),
        "status": "running",
    }


def _is_finished(folder: RunFolder, plan: RunPlan, progress: Progress) -> bool:
    with RunReader.open(folder) as reader:
        status, finished_at = reader.meta_text("status"), reader.meta_text("finished_at")
    return (
        status == "done"
        and finished_at == str(progress.iteration)
        and draw_batch(plan.settings, progress.state, Iteration(progress.iteration)) is None
        and all(progress.is_evaluated(name) for name in plan.evaluation_sets)
    )
