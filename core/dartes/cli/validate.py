"""`dartes validate`: every error of a job file at once, and what the data set says about it."""

from pathlib import Path

from dartes.data import load_dataset
from dartes.errors import ConfigurationError
from dartes.spec import LoadedJob, errors_for_dataset, load_job, warnings_for_dataset
from dartes.tasks.base import check_rows
from dartes.tasks.registry import task_named


def checked_with_data(job: LoadedJob) -> list[str]:
    """Load every data set, check each row with its task; returns warnings.

    Raises
    ------
    ConfigurationError
        A data set can't be read, a row does not fit its task, or the batch does not fit the data set.
    """
    spec = job.job.spec
    train = load_dataset(spec.dataset, job.base_dir)
    errors = list(errors_for_dataset(spec, len(train.rows)))
    if errors:
        raise ConfigurationError("\n".join(str(error) for error in errors))
    check_rows(task_named(spec.task.kind).from_spec(spec.task), train.rows, train.description)
    for held_out in spec.evaluation.sets:
        rows = load_dataset(held_out.dataset, job.base_dir)
        task = held_out.task or spec.task
        check_rows(task_named(task.kind).from_spec(task), rows.rows, f"{held_out.name}: {rows.description}")
    return list(warnings_for_dataset(spec, len(train.rows)))


def validate(job_file: Path) -> list[str]:
    """Check a job file and its data; returns lines to print. Raises as `load_job` and the data sets do."""
    job = load_job(job_file)
    warnings = [*job.warnings, *checked_with_data(job)]
    return [*(f"warning: {w}" for w in warnings), f"{job_file}: valid job {job.job.metadata.name!r}"]
