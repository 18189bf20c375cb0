"""`dartes data show`: problems as the model is asked them, and how an answer to one is graded.

Loads one data set and, for a grade, the job's own grader; neither a model nor a worker.
"""

import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from dartes.cli.words import printable
from dartes.data import Dataset, load_dataset, load_evaluation_set
from dartes.errors import ConfigurationError, DrainedError, TransientError
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

    def at(self, index: int) -> tuple[Part, int]:
        """A problem's part and its row there. Raises ConfigurationError for an index that is not there."""
        if not 0 <= index < self.size:
            raise ConfigurationError(
                f"--row {index}: there are {self.size} problems; allowed: 0 to {self.size - 1}"
            )
        starts = [0, *accumulate(len(part.dataset.rows) for part in self.parts)]
        part = bisect_right(starts, index) - 1
        return self.parts[part], index - starts[part]

    def first(self, count: int | None) -> list[int]:
        """Indices of `count` problems from the beginning of each part in turn, in order.

        None is a few: at least one of each part.
        """
        sizes = [len(part.dataset.rows) for part in self.parts]
        starts = [0, *accumulate(sizes)]
        wanted = min(self.size, max(DEFAULT_COUNT, len(sizes)) if count is None else count)
        taken = [0] * len(sizes)
        part = 0
        while sum(taken) < wanted:
            taken[part] += taken[part] < sizes[part]
            part = (part + 1) % len(sizes)
        return [start + row for start, rows in zip(starts, taken, strict=False) for row in range(rows)]


def show(
    job_file: Path,
    set_name: str | None,
    stage: int | None,
    count: int | None,
    row: int | None,
    answer: str | None,
) -> Iterator[str]:
    """Lines that show problems of a job, with the grade of an `answer`: that of `row`, else `count` of them.

    With an answer one problem is shown; of a mix, some of each part. `set_name` is an evaluation set or
    holdout; else the problems are those of training, of stage `stage` (counted from 0).

    Raises
    ------
    ConfigurationError
        The job, the data set, a row or the job's own reward is wrong.
    TransientError
        Data can't be fetched now, or the service that scores answers is down.
    """
    job = load_job(job_file)
    problems = _problems(job, set_name, stage)
    one = row is not None or answer is not None
    named = None
    for index in [row or 0] if one else problems.first(count):
        part, at = problems.at(index)
        own = part.dataset.rows[at]
        if part.place != named:
            if named is not None:
                yield ""
            named = part.place
            yield f"{part.place}: {part.dataset.description}"
        yield ""
        yield f"row {index}, task {part.settings.kind}"
        yield from problem_lines(part, at)
        if answer is not None:
            yield from grade_lines(grade_of(part.settings, own, answer, job.base_dir), part)


def problem_lines(part: Part, at: int) -> Iterator[str]:
    """A problem as the model is asked it, and its reference answer; raises RowError where it is none."""
    row = part.dataset.rows[at]
    unreadable = None
    try:
        part.task.check_row(row)
    except UnreadableReferenceError as error:
        unreadable = str(error)
    except RowError as error:
        raise RowError(f"{part.place}: {part.dataset.places[at]}: {error}") from error
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
    """The grade that training would give.

    Raises
    ------
    ConfigurationError
        The job's own reward is wrong.
    TransientError
        The service that gives rewards is down: a person waits here, so it is not waited for after the first
        few tries.
    """
    closing = threading.Event()
    troubles: list[str] = []

    def give_up(text: str) -> None:
        if text:
            troubles.append(text)
            closing.set()

    grader = open_grader(settings, GraderContext(base_dir=base_dir, on_trouble=give_up, closing=closing))
    try:
        (grade,) = grader.grade([row], [answer])
    except DrainedError as error:
        # The message ends with what a run would do; here nobody asks again.
        why = troubles[-1].rpartition("; ")[0] or troubles[-1] if troubles else str(error)
        raise TransientError(f"no grade: {why}; see to the service, then try again") from error
    finally:
        grader.close()
    return grade


def grade_lines(grade: Grade, part: Part) -> Iterator[str]:
    """A grade for people."""
    rules = grading_rules(part.settings)
    if rules.against_parent:
        yield "  passes where its score is above the unperturbed model's own on this problem"
    else:
        yield f"  {'passed' if grade.passed else 'failed'}"
    yield f"  score      {grade.score:.6g}"
    if grade.auxiliary or getattr(part.task, "gives_auxiliary", True):
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
                dataset = load_evaluation_set(spec, one.name, job.base_dir)
                return Problems((_part(f"evaluation.{kind}[{one.name}]", dataset, spec.task_of(one)),))
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
            _part(one.path, load_dataset(one.dataset, base_dir, one.path), one.task) for one in stages[wanted]
        )
    )


def _part(path: str, dataset: Dataset, settings: TaskSpec) -> Part:
    return Part(f"spec.{path}", dataset, settings, task_named(settings.kind).from_spec(settings))
