"""`dartes validate`: every error of a job file at once, and what its data sets and its model say about it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from dartes.checkpoint import open_checkpoint
from dartes.data import Dataset, load_dataset
from dartes.errors import ConfigurationError
from dartes.model_source import resolve_model
from dartes.spec import (
    DatasetSpec,
    LoadedJob,
    ModelSpec,
    Scheme,
    TaskSpec,
    errors_for_dataset,
    load_job,
    parse_source,
    warnings_for_dataset,
)
from dartes.tasks.base import check_rows
from dartes.tasks.registry import task_named

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
    """Load every data set, check each row with its task, look at a local model; returns warnings.

    A model on the hub is left to the workers, which fetch it.

    Raises
    ------
    ConfigurationError
        All of it at once: a data set can't be read, a row does not fit its task, the batch does not fit the
        data set, or the model folder can't be used.
    """
    spec = job.job.spec
    problems = _Problems()
    train = problems.none_in(partial(_checked_dataset, spec.dataset, spec.task, job.base_dir, ""))
    if train is not None:
        problems.messages += [str(error) for error in errors_for_dataset(spec, len(train.rows))]
    for held_out in spec.evaluation.sets:
        dataset, task = held_out.dataset, held_out.task or spec.task
        where = f"spec.evaluation.sets[{held_out.name}]: "
        problems.none_in(partial(_checked_dataset, dataset, task, job.base_dir, where))
    problems.none_in(partial(_check_model, spec.model, job.base_dir))
    if problems.messages:
        raise ConfigurationError("\n".join(problems.messages))
    return [] if train is None else list(warnings_for_dataset(spec, len(train.rows)))


def validate(job_file: Path) -> list[str]:
    """Check a job file, its data and its model; returns lines to print.

    Raises as `load_job` does for the file, and as `checked_with_data` for what it names.
    """
    job = load_job(job_file)
    warnings = [*job.warnings, *checked_with_data(job)]
    return [*(f"warning: {w}" for w in warnings), f"{job_file}: valid job {job.job.metadata.name!r}"]


def _checked_dataset(dataset: DatasetSpec, task: TaskSpec, base_dir: Path, where: str) -> Dataset:
    try:
        loaded = load_dataset(dataset, base_dir)
        check_rows(task_named(task.kind).from_spec(task), loaded.rows, loaded.description)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}{error}") from error
    return loaded


def _check_model(model: ModelSpec, base_dir: Path) -> None:
    if parse_source(model.source).scheme in {Scheme.BUILTIN, Scheme.FILE}:
        open_checkpoint(resolve_model(model.source, model.revision, base_dir))
