"""The problems of a training stage or of an evaluation set: prompts as tokens, and grades of answers.

A stage may draw from several data sets, each with a task of its own; an index then counts through them in
their order. Knows no weights, no leases and no wire.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dartes.data import Dataset
from dartes.rewards.opening import Grader, GraderContext, open_grader
from dartes.spec import TaskSpec
from dartes.tasks.base import Grade, Prompt, Task, TaskSettings, check_rows
from dartes.tasks.registry import task_named
from dartes.tasks.rules import GradingRules, grading_rules
from dartes_worker.engines.base import Engine, GenerationLimits

REMEMBERED_CHARACTERS = 4 * 2**20
"""Characters of graded answers that are kept at most."""

REMEMBERED_TOKENS = 2**19
"""Tokens of encoded prompts that are kept (about 40 bytes each), beyond those of the present batch."""


class Graders:
    """The graders of a job, opened when first asked for; tasks with equal settings share one."""

    def __init__(self, context: GraderContext) -> None:
        self._context = context
        self._open: dict[str, Grader] = {}

    def of(self, task: TaskSpec) -> Grader:
        """The grader of a task; raises as `open_grader` does."""
        key = repr(TaskSettings.of(task))
        if key not in self._open:
            self._open[key] = open_grader(task, self._context)
        return self._open[key]

    def give_up_waiting(self) -> None:
        """End the waiting for services that do not answer, so that grading under way comes to its end."""
        self._context.closing.set()

    def close(self) -> None:
        """End them all."""
        self.give_up_waiting()
        for grader in self._open.values():
            grader.close()
        self._open.clear()


@dataclass(frozen=True)
class Part:
    """One data set with its task; `grader` opens what grades it, or gives what is open."""

    dataset: Dataset
    task: Task
    rules: GradingRules
    grader: Callable[[], Grader]


@dataclass
class ProblemSet:
    """Problems 0 .. size - 1, in parts one after the other.

    Attributes
    ----------
    limits
        How they are answered.
    token_budget
        `generation.tokenBudget`, which decides what is generated together.
    samples
        Answers to each problem.
    """

    parts: tuple[Part, ...]
    limits: GenerationLimits
    token_budget: int
    samples: int = 1
    warnings: tuple[str, ...] = ()
    _tokens: dict[int, list[int]] = field(default_factory=dict)
    _token_count: int = 0
    _grades: dict[tuple[int, str], Grade] = field(default_factory=dict)
    _graded_in: int = -1
    _graded_characters: int = 0

    @property
    def size(self) -> int:
        """Number of problems."""
        return sum(len(part.dataset.rows) for part in self.parts)

    @property
    def needs_scores(self) -> bool:
        """Whether scores decide anything in one of the parts."""
        return any(part.rules.needs_scores for part in self.parts)

    def prompt(self, problem: int) -> Prompt:
        """The prompt of a problem."""
        part, row = self._part_of(problem)
        return self.parts[part].task.prompt(self.parts[part].dataset.rows[row])

    def encoded(self, engine: Engine, problems: Sequence[int]) -> list[list[int]]:
        """Token ids of the prompts; a prompt is encoded once for all members, not for good."""
        if self._token_count > REMEMBERED_TOKENS:
            self._tokens = {problem: self._tokens[problem] for problem in problems if problem in self._tokens}
            self._token_count = sum(map(len, self._tokens.values()))
        new = [problem for problem in dict.fromkeys(problems) if problem not in self._tokens]
        if new:
            prompts = [self.prompt(problem) for problem in new]
            encoded = engine.encode(prompts)
            self._tokens.update(zip(new, encoded, strict=True))
            self._token_count += sum(map(len, encoded))
        return [self._tokens[problem] for problem in problems]

    def grade(self, problems: Sequence[int], texts: Sequence[str], iteration: int) -> list[Grade]:
        """Grades of answers, in order.

        Members of one population mostly give the same answers, and grading is pure: within an iteration the
        same answer to the same problem is graded once.
        """
        if iteration != self._graded_in or self._graded_characters > REMEMBERED_CHARACTERS:
            self._grades, self._graded_in, self._graded_characters = {}, iteration, 0
        answers = list(zip(problems, texts, strict=True))
        new = [answer for answer in dict.fromkeys(answers) if answer not in self._grades]
        for number, part in enumerate(self.parts):
            own = [(answer, row) for answer in new for at, row in (self._part_of(answer[0]),) if at == number]
            if not own:
                continue
            rows = [part.dataset.rows[row] for _, row in own]
            made = part.grader().grade(rows, [text for (_, text), _ in own])
            self._grades.update(zip((answer for answer, _ in own), made, strict=True))
        self._graded_characters += sum(len(text) for _, text in new)
        return [self._grades[answer] for answer in answers]

    def _part_of(self, problem: int) -> tuple[int, int]:
        """The part that a problem is in, and its row there."""
        row = problem
        for number, part in enumerate(self.parts):
            if row < len(part.dataset.rows):
                return number, row
            row -= len(part.dataset.rows)
        raise IndexError(f"problem {problem} of {self.size}")


def problem_set(
    sets: Iterable[tuple[Dataset, TaskSpec]],
    graders: Graders,
    limits: GenerationLimits,
    token_budget: int,
    samples: int = 1,
) -> ProblemSet:
    """Build the tasks and check every row; graders are opened later.

    Raises
    ------
    ConfigurationError
        Settings that a task does not have, or rows that it cannot use.
    """
    parts, warnings = [], []
    for dataset, task in sets:
        built = task_named(task.kind).from_spec(task)
        warnings += check_rows(built, dataset.rows, dataset.description, dataset.places)
        parts.append(Part(dataset, built, grading_rules(task), _opener(graders, task)))
    return ProblemSet(tuple(parts), limits, token_budget, samples, tuple(warnings))


def _opener(graders: Graders, task: TaskSpec) -> Callable[[], Grader]:
    return lambda: graders.of(task)
