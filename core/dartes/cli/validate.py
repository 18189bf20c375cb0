"""`dartes validate`: every error of a job file at once, and what its data sets and its models say about it.

Prompts are not turned into tokens, so that one which is too long for the model is found by the run.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar

from dartes.cli.model_checks import (
    check_scoring_places,
    checked_model,
    lacks_chat_template,
    refuse_messages,
)
from dartes.data import Dataset, DatasetDescription, load_dataset
from dartes.errors import ConfigurationError
from dartes.rewards.opening import Grader, GraderContext, grader_name, open_grader
from dartes.rewards.python_function import PythonFunctionGrader
from dartes.spec import (
    LoadedJob,
    TaskSpec,
    errors_for_training,
    load_job,
    warnings_for_training,
)
from dartes.tasks.base import Row, Task, check_rows
from dartes.tasks.registry import task_named

PYTHON_GRADER: Final = "python"

Found = TypeVar("Found")


class _Problems:
    """Errors as they are found, so that one does not hide the next; each is told once."""

    def __init__(self) -> None:
        self.messages: dict[str, None] = {}

    def none_in(self, call: Callable[[], Found], place: str = "") -> Found | None:
        """What the call returns, or None with its error noted behind its place."""
        try:
            return call()
        except ConfigurationError as error:
            self.messages.setdefault(f"{place}{error}")
            return None


class _Once(Generic[Found]):
    """Makes one thing of each task, however many data sets have the task: also a failure is kept."""

    def __init__(self, make: Callable[[TaskSpec], Found]) -> None:
        self._make = make
        self._made: dict[str, Found | ConfigurationError] = {}

    def of(self, settings: TaskSpec) -> Found:
        """What was made. Raises the ConfigurationError of its making."""
        key = settings.model_dump_json()
        if key not in self._made:
            try:
                self._made[key] = self._make(settings)
            except ConfigurationError as error:
                self._made[key] = error
        made = self._made[key]
        if isinstance(made, ConfigurationError):
            raise made
        return made

    def all(self) -> Iterator[Found]:
        """All that could be made."""
        yield from (made for made in self._made.values() if not isinstance(made, ConfigurationError))


class _Checks:
    """The checks of one job's data sets, with what they found."""

    def __init__(self, job: LoadedJob) -> None:
        self.problems = _Problems()
        self.warnings: list[str] = []
        self._base_dir = job.base_dir
        self._inherited = job.job.spec.task
        self._tasks: _Once[Task] = _Once(lambda settings: task_named(settings.kind).from_spec(settings))
        # The user's own functions: that one can be found and called is known only by trying.
        self._functions: _Once[Grader] = _Once(
            lambda settings: open_grader(settings, GraderContext(base_dir=job.base_dir))
        )
        folder = self.problems.none_in(partial(checked_model, job.job.spec.model, job.base_dir))
        self._untemplated = folder if folder is not None and lacks_chat_template(folder) else None

    def dataset(self, dataset: DatasetDescription, settings: TaskSpec, place: str) -> Dataset | None:
        """Load a data set and check its task and each of its rows; None where it can't be loaded."""
        # What is wrong with the job's own task is wrong at one place, whoever has it from there.
        task_place = "" if settings is self._inherited else place
        none_in = self.problems.none_in
        path = place.removeprefix("spec.").removesuffix(": ") or "dataset"
        path += ".dataset" if path.startswith("evaluation.") else ""
        loaded = none_in(partial(load_dataset, dataset, self._base_dir, path), "")
        task = none_in(partial(self._tasks.of, settings), task_place)
        if task is None:
            return loaded
        function = None
        if grader_name(task) == PYTHON_GRADER:
            function = none_in(partial(self._functions.of, settings), task_place)
        none_in(partial(check_scoring_places, task, self._base_dir), task_place)
        if loaded is None or not none_in(partial(self._rows, task, loaded, place, function), place):
            return loaded
        if self._untemplated is not None:
            none_in(partial(refuse_messages, self._untemplated, task, loaded.rows), task_place)
        return loaded

    def close(self) -> None:
        """End the processes of functions."""
        for function in self._functions.all():
            function.close()

    def _rows(self, task: Task, loaded: Dataset, place: str, function: Grader | None) -> bool:
        columns: dict[str, None] = {}

        def seen() -> Iterator[Row]:
            for row in loaded.rows:
                columns.update(dict.fromkeys(row))
                yield row

        found = check_rows(task, seen(), loaded.description, loaded.places)
        self.warnings += [f"{place}{warning}" for warning in found]
        if isinstance(function, PythonFunctionGrader):
            function.check(columns)
        return True


def checked_with_data(job: LoadedJob) -> list[str]:
    """Load every data set of every stage and evaluation, check each row, look at local models; warnings.

    A model on the hub is left to the workers, which fetch it.

    Raises
    ------
    ConfigurationError
        All of it at once: a data set can't be read, a row does not fit its task, the batch does not fit the
        data set, a reward function or a model folder can't be used.
    """
    spec = job.job.spec
    checks = _Checks(job)
    try:
        stages = [
            [
                checks.dataset(one.dataset, one.task, "" if one.path == "dataset" else f"spec.{one.path}: ")
                for one in sets
            ]
            for sets in spec.training_stages()
        ]
        sizes = [[len(one.rows) for one in sets if one is not None] for sets in stages]
        whole = all(one is not None for sets in stages for one in sets)
        found = errors_for_training(spec, sizes) if whole else []
        checks.problems.messages.update((str(error), None) for error in found)
        for kind, entries in (("sets", spec.evaluation.sets), ("holdouts", spec.evaluation.holdouts)):
            for one in entries:
                checks.dataset(one.dataset, spec.task_of(one), f"spec.evaluation.{kind}[{one.name}]: ")
    finally:
        checks.close()
    if checks.problems.messages:
        raise ConfigurationError("\n".join(checks.problems.messages))
    return [*checks.warnings, *warnings_for_training(spec, sizes)]


def validate(job_file: Path) -> list[str]:
    """Check a job file, its data and its models; returns lines to print.

    Raises as `load_job` does for the file, and as `checked_with_data` for what it names.
    """
    job = load_job(job_file)
    warnings = [*job.warnings, *checked_with_data(job)]
    return [*(f"warning: {w}" for w in warnings), f"{job_file}: valid job {job.job.metadata.name!r}"]
