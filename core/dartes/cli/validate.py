"""`dartes validate`: every error of a job file at once, and what its data sets and its model say about it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from dartes.checkpoint import open_checkpoint
from dartes.data import Dataset, DatasetDescription, load_dataset
from dartes.errors import ConfigurationError
from dartes.model_source import resolve_model
from dartes.rewards.opening import DEFAULT_GRADER, GraderContext, open_grader
from dartes.spec import (
    LoadedJob,
    ModelSpec,
    Scheme,
    TaskSpec,
    errors_for,
    errors_for_training,
    load_job,
    parse_source,
    warnings_for_training,
)
from dartes.tasks.base import check_rows
from dartes.tasks.registry import task_named

PYTHON_GRADER = "python"

Found = TypeVar("Found")


class _Problems:
    """Errors as they are found, so that one does not hide the next."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def none_in(self, call: Callable[[], Found]) -> Found | None:
        """What the call returns, or None with its error noted."""
        try:
            return call()
        except ConfigurationError as error:
            self.messages.append(str(error))
            return None


def checked_with_data(job: LoadedJob) -> list[str]:
    """Load every data set of every stage and evaluation, check each row, look at a local model; warnings.

    A model on the hub is left to the workers, which fetch it.

    Raises
    ------
    ConfigurationError
        All of it at once: a data set can't be read, a row does not fit its task, the batch does not fit the
        data set, or the model folder can't be used.
    """
    spec = job.job.spec
    problems = _Problems()
    warnings: list[str] = []

    def checked(dataset: DatasetDescription, task: TaskSpec, place: str) -> Dataset | None:
        return problems.none_in(partial(_checked_dataset, dataset, task, job.base_dir, place, warnings))

    stages = [
        [
            checked(one.dataset, one.task, "" if one.path == "dataset" else f"spec.{one.path}: ")
            for one in sets
        ]
        for sets in spec.training_stages()
    ]
    sizes = [[len(one.rows) for one in sets if one is not None] for sets in stages]
    whole = all(one is not None for sets in stages for one in sets)
    found = errors_for_training(spec, sizes) if whole else errors_for(spec)
    problems.messages += [str(error) for error in found]
    for kind, entries in (("sets", spec.evaluation.sets), ("holdouts", spec.evaluation.holdouts)):
        for one in entries:
            checked(one.dataset, spec.task_of(one), f"spec.evaluation.{kind}[{one.name}]: ")
    problems.none_in(partial(_check_model, spec.model, job.base_dir))
    if problems.messages:
        raise ConfigurationError("\n".join(problems.messages))
    return [*warnings, *warnings_for_training(spec, sizes)]


def validate(job_file: Path) -> list[str]:
    """Check a job file, its data and its model; returns lines to print.

    Raises as `load_job` does for the file, and as `checked_with_data` for what it names.
    """
    job = load_job(job_file)
    warnings = [*job.warnings, *checked_with_data(job)]
    return [*(f"warning: {w}" for w in warnings), f"{job_file}: valid job {job.job.metadata.name!r}"]


def _where(path: str) -> str:
    return "" if path == "dataset" else f"spec.{path}: "


def _checked_dataset(
    dataset: DatasetDescription, task: TaskSpec, base_dir: Path, place: str, warnings: list[str]
) -> Dataset:
    try:
        loaded = load_dataset(dataset, base_dir)
        built = task_named(task.kind).from_spec(task)
        warnings += [f"{place}{warning}" for warning in check_rows(built, loaded.rows, loaded.description)]
        if getattr(built, "grader", DEFAULT_GRADER) == PYTHON_GRADER:
            # The user's own function: that it can be found and called is known only by trying.
            open_grader(task, GraderContext(base_dir=base_dir)).close()
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}{error}") from error
    return loaded


def _check_model(model: ModelSpec, base_dir: Path) -> None:
    if parse_source(model.source).scheme in {Scheme.BUILTIN, Scheme.FILE}:
        open_checkpoint(resolve_model(model.source, model.revision, base_dir))
