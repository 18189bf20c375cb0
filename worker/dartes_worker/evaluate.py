"""Answer and grade a list of problems with whatever weights the engine holds.

Groups, sampling seeds and grades are pure functions of the batch and the job, so every worker gets the
same answers for the same lease.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dartes.data import Dataset, load_dataset
from dartes.noise.streams import sampling_seed
from dartes.rewards.pool import GradingPool
from dartes.rpc.encoding import pack_bits, pack_floats
from dartes.spec import DatasetSpec, TaskSpec
from dartes.tasks.base import Grade, Prompt, Task, check_rows
from dartes.tasks.registry import task_named
from dartes.v1 import population_pb2 as wire
from dartes_worker.engines.base import Engine, Generation, GenerationLimits
from dartes_worker.groups import generation_groups, slice_of
from dartes_worker.timing import Stopwatch

SECONDS_PER_ANSWER = 5.0
"""Wall time that grading one answer may take."""

REMEMBERED_CHARACTERS = 4 * 2**20
"""Characters of graded answers that are kept at most."""

REMEMBERED_PROMPTS = 65_536
"""Encoded prompts that are kept, beyond those of the present batch."""


@dataclass(frozen=True)
class Sampling:
    """What the seed of a sampled group is made from; greedy decoding ignores it."""

    run_seed: int
    iteration: int
    member: int


@dataclass
class ProblemSet:
    """A data set with its task, its grading pool and its encoded prompts."""

    dataset: Dataset
    task: Task
    pool: GradingPool
    limits: GenerationLimits
    token_budget: int
    _tokens: dict[int, list[int]] = field(default_factory=dict)
    _grades: dict[tuple[int, str], Grade] = field(default_factory=dict)
    _graded_in: int = -1
    _graded_characters: int = 0

    @classmethod
    def load(
        cls, dataset: DatasetSpec, task: TaskSpec, base_dir: Path, limits: GenerationLimits, token_budget: int
    ) -> "ProblemSet":
        """Load and check the rows and start the graders. Raises ConfigurationError on bad rows."""
        rows = load_dataset(dataset, base_dir)
        built = task_named(task.kind).from_spec(task)
        check_rows(built, rows.rows, rows.description)
        return cls(rows, built, GradingPool(task, SECONDS_PER_ANSWER), limits, token_budget)

    def encoded(self, engine: Engine, rows: Sequence[int]) -> list[list[int]]:
        """Token ids of the prompts of `rows`; a prompt is encoded once for all members, not for good."""
        if len(self._tokens) > REMEMBERED_PROMPTS:
            self._tokens = {row: self._tokens[row] for row in rows if row in self._tokens}
        new = [row for row in rows if row not in self._tokens]
        if new:
            prompts: list[Prompt] = [self.task.prompt(self.dataset.rows[row]) for row in new]
            self._tokens.update(zip(new, engine.encode(prompts), strict=True))
        return [self._tokens[row] for row in rows]

    def grade(self, rows: Sequence[int], texts: Sequence[str], iteration: int) -> list[Grade]:
        """Grades of answers to `rows`, in order.

        Members of one population mostly give the same answers, and grading is pure: within an iteration the
        same answer to the same problem is graded once.
        """
        if iteration != self._graded_in or self._graded_characters > REMEMBERED_CHARACTERS:
            self._grades, self._graded_in, self._graded_characters = {}, iteration, 0
        answers = list(zip(rows, texts, strict=True))
        new = [answer for answer in dict.fromkeys(answers) if answer not in self._grades]
        if new:
            made = self.pool.grade([self.dataset.rows[row] for row, _ in new], [text for _, text in new])
            self._grades.update(zip(new, made, strict=True))
            self._graded_characters += sum(len(text) for _, text in new)
        return [self._grades[answer] for answer in answers]

    def close(self) -> None:
        """End the graders."""
        self.pool.close()


@dataclass(frozen=True)
class Outcome:
    """Answers to a slice: positions in the batch, and per position what was generated and earned."""

    positions: tuple[int, ...]
    whole: bool
    generations: tuple[Generation, ...]
    passed: NDArray[np.bool_]
    scores: NDArray[np.float32]
    auxiliary: NDArray[np.float32]
    prompt_tokens: int

    def to_wire(self) -> wire.EvaluateResult:
        """As it travels; positions are left out where the whole batch was answered."""
        truncated = np.fromiter((g.truncated for g in self.generations), np.bool_, len(self.generations))
        result = wire.EvaluateResult(
            positions=() if self.whole else self.positions,
            passed=pack_bits(self.passed),
            truncated=pack_bits(truncated),
            prompt_tokens=self.prompt_tokens,
            generated_tokens=sum(g.token_count for g in self.generations),
        )
        if not np.array_equal(self.scores, self.passed.astype(np.float32)):
            result.scores = pack_floats(self.scores)
        if self.auxiliary.any():
            result.auxiliary = pack_floats(self.auxiliary)
        return result


def evaluate(
    engine: Engine,
    problems: ProblemSet,
    rows: Sequence[int],
    slice_index: int,
    slices: int,
    sampling: Sampling,
    watch: Stopwatch,
) -> Outcome:
    """Answer slice `slice_index` of `slices` of the batch `rows` (row numbers in batch order)."""
    tokens = problems.encoded(engine, rows)
    groups = generation_groups(
        [len(t) for t in tokens], problems.limits.max_new_tokens, problems.token_budget
    )
    mine = slice_of(groups, slice_index, slices)
    first = slice_index * len(groups) // slices
    answers: dict[int, Generation] = {}
    with watch.part("generate"):
        for number, group in enumerate(mine, start=first):
            seed = (
                sampling_seed(sampling.run_seed, 0, sampling.iteration, sampling.member, number)
                if problems.limits.temperature > 0
                else None
            )
            made = engine.generate([tokens[p] for p in group], problems.limits, seed)
            answers.update(zip(group, made, strict=True))
    positions = tuple(sorted(answers))
    generations = tuple(answers[p] for p in positions)
    with watch.part("grade"):
        grades = problems.grade(
            [rows[p] for p in positions], [g.text for g in generations], sampling.iteration
        )
    return Outcome(
        positions=positions,
        whole=len(positions) == len(rows),
        generations=generations,
        passed=np.array([g.passed for g in grades], np.bool_),
        scores=np.array([g.score for g in grades], np.float32),
        auxiliary=np.array([g.auxiliary for g in grades], np.float32),
        prompt_tokens=sum(len(tokens[p]) for p in positions),
    )
