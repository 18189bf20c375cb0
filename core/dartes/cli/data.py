"""`dartes data show`: problems as the model is asked them, and how an answer to one is graded.

Loads one data set and, for a grade, the job's own grader; neither a model nor a worker.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from dartes.cli.words import printable
from dartes.data import Dataset, load_dataset
from dartes.errors import ConfigurationError
from dartes.rewards.opening import GraderContext, open_grader
from dartes.spec import JobSpec, LoadedJob, TaskSpec, load_job
from dartes.tasks.base import Grade, Row, RowError, Task, UnreadableReferenceError
from dartes.tasks.registry import task_named
from dartes.tasks.rules import grading_rules

DEFAULT_COUNT = 3
"""Problems that are shown unless told otherwise."""

MOST_ANSWER_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Part:
    """One data set with its task; `place` is where the job has it."""

    place: str
    dataset: Dataset
    settings: TaskSpec
    task: Task


@dataclass(frozen=True)
class Problems:
    """Problems counted through their parts, as the problems of a stage are."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Number of problems."""
        return sum(len(part.dataset.rows) for part in self.parts)

    def at(self, index: int) -> tuple[Part, Row]:
        """A problem's part and its row. Raises ConfigurationError for an index that is not there."""
        if not 0 <= index < self.size:
            raise ConfigurationError(
                f"--row {index}: there are {self.size} problems; allowed: 0 to {self.size - 1}"
            )
        starts = [0, *accumulate(len(part.dataset.rows) for part in self.parts)]
        part = bisect_right(starts, index) - 1
        return self.parts[part], self.parts[part].dataset.rows[index - starts[part]]


def show(
    job_file: Path,
    set_name: str | None,
    stage: int | None,
    count: int,
    row: int | None,
    answer: str | None,
) -> Iterator[str]:
    """Lines that show problems of a job: `count` of them, from `row` on, with the grade of an `answer`.

    With an answer one problem is shown. `set_name` is an evaluation set or holdout; else the problems are
    those of training, of stage `stage` (counted from 0).

    Raises
    ------
    ConfigurationError
        The job, the data set, a row or the job's own reward is wrong.
    TransientError
        Data can't be fetched now.
    """
    job = load_job(job_file)
    problems = _problems(job, set_name, stage)
    first = row or 0
    last = first + 1 if answer is not None or row is not None else min(problems.size, count)
    named = None
    for index in range(first, last):
        part, own = problems.at(index)
        if part.place != named:
            named = part.place
            yield f"{part.place}: {len(part.dataset.rows)} problems of {part.dataset.description}"
        yield ""
        yield f"row {index}, task {part.settings.kind}"
        yield from problem_lines(part, own)
        if answer is not None:
            yield from grade_lines(grade_of(part.settings, own, answer, job.base_dir), part.settings)


def problem_lines(part: Part, row: Row) -> Iterator[str]:
    """A problem as the model is asked it, and its reference answer; raises RowError where it is none."""
    unreadable = None
    try:
        part.task.check_row(row)
    except UnreadableReferenceError as error:
        unreadable = str(error)
    except RowError as error:
        raise RowError(f"{part.place}: {error}") from error
    prompt = part.task.prompt(row)
    if isinstance(prompt, str):
        yield "  prompt, continued by the model as it stands"
        yield printable(prompt, "    ")
    else:
        for message in prompt:
            yield f"  {printable(message.role)}"
            yield printable(message.content, "    ")
    if unreadable is not None:
        yield f"  reference answer: can't be read ({printable(unreadable)}); no answer passes"
        return
    reference = part.task.reference(row)
    if reference:
        yield "  reference answer"
        yield printable(reference, "    ")
    else:
        yield "  no reference answer"


def grade_of(settings: TaskSpec, row: Row, answer: str, base_dir: Path) -> Grade:
    """The grade that training would give; raises ConfigurationError where the job's own reward is wrong."""
    grader = open_grader(settings, GraderContext(base_dir=base_dir, on_trouble=_say_trouble))
    try:
        (grade,) = grader.grade([row], [answer])
    finally:
        grader.close()
    return grade


def _say_trouble(text: str) -> None:
    if text:
        print(f"waiting: {printable(text)}", file=sys.stderr)  # noqa: T201 - else it would only seem to hang


def grade_lines(grade: Grade, settings: TaskSpec) -> Iterator[str]:
    """A grade for people."""
    rules = grading_rules(settings)
    if rules.against_parent:
        yield "  passes where its score is above the unperturbed model's own on this problem"
    else:
        yield f"  {'passed' if grade.passed else 'failed'}"
    yield f"  score      {grade.score:.6g}"
    yield f"  auxiliary  {grade.auxiliary:.6g}, weighted {rules.auxiliary_weight:g}"
    if grade.answer:
        yield f"  taken as   {printable(grade.answer)}"
    if grade.reason:
        yield f"  reason     {printable(grade.reason)}"


def read_answer(path: Path) -> str:
    """An answer from a file; raises ConfigurationError where it can't be read, or is no text."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_ANSWER_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"--answer-file {path}: can't be read ({error.strerror})") from error
    if len(data) > MOST_ANSWER_BYTES:
        raise ConfigurationError(f"--answer-file {path}: is larger than {MOST_ANSWER_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"--answer-file {path}: is not UTF-8 text ({error})") from error


def _problems(job: LoadedJob, set_name: str | None, stage: int | None) -> Problems:
    spec = job.job.spec
    if set_name is None:
        return _training(spec, stage, job.base_dir)
    if stage is not None:
        raise ConfigurationError(
            "--stage: is of training, and --set names an evaluation set; give one of them"
        )
    for kind, entries in (("sets", spec.evaluation.sets), ("holdouts", spec.evaluation.holdouts)):
        for one in entries:
            if one.name == set_name:
                place = f"spec.evaluation.{kind}[{one.name}]"
                return Problems((_part(place, load_dataset(one.dataset, job.base_dir), spec.task_of(one)),))
    there = ", ".join(one.name for one in spec.evaluation.all_sets) or "none"
    raise ConfigurationError(f"--set {set_name}: the job has no such evaluation set (it has: {there})")


def _training(spec: JobSpec, stage: int | None, base_dir: Path) -> Problems:
    stages = spec.training_stages()
    wanted = stage or 0
    if wanted >= len(stages):
        allowed = "0" if len(stages) == 1 else f"0 to {len(stages) - 1}"
        raise ConfigurationError(f"--stage {wanted}: the job has {len(stages)} stages; allowed: {allowed}")
    return Problems(
        tuple(
            _part(f"spec.{one.path}", load_dataset(one.dataset, base_dir), one.task) for one in stages[wanted]
        )
    )


def _part(place: str, dataset: Dataset, settings: TaskSpec) -> Part:
    return Part(place, dataset, settings, task_named(settings.kind).from_spec(settings))
