"""Answers to one evaluation set as they come in block by block, and what is stored of them.

Pure. A row with K samples has K positions side by side; which blocks there are is the lease table's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dartes.evaluation import Answered, logged_rows, stored_evaluation
from dartes.state import StoredCompletion, StoredEvaluation
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.collect import Answers, Grid, decode
from dartes_coordinator.errors import ReportError
from dartes_coordinator.plan import EvaluationSetPlan


@dataclass(frozen=True)
class BlockReport:
    """A decoded report on a block, its answers at their positions in the set."""

    answers: Answers
    keys: NDArray[np.uint64]
    completions: tuple[StoredCompletion, ...]
    generated_tokens: int


@dataclass
class SetAnswers:
    """The answers of one model to one evaluation set."""

    plan: EvaluationSetPlan
    log_completions: int = 0
    grid: Grid = field(init=False)
    keys: NDArray[np.uint64] = field(init=False)
    generated_tokens: int = 0
    _completions: dict[int, StoredCompletion] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.grid = Grid(1, self.plan.size * self.plan.samples)
        self.keys = np.zeros(self.grid.size, np.uint64)

    def read(self, result: wire.EvaluateResult) -> BlockReport:
        """Decode a report on one of the set's blocks; raises ReportError where it does not fit."""
        first, rows, samples = result.first_row, result.row_count, self.plan.samples
        answers = decode(result, rows * samples)
        if len(answers.positions) != rows * samples:
            raise ReportError(f"{len(answers.positions)} answers for a block of {rows * samples}")
        # Checked before anything is kept: completions are what people read, and what takes the most room.
        wanted = logged_rows(self.log_completions, first, rows)
        texts = {c.row: c for c in result.completions if first <= c.row < first + wanted and c.sample == 0}
        if len(result.completions) != len(texts):
            raise ReportError(f"{len(result.completions)} completions, of rows or samples not asked for")
        return BlockReport(
            answers.shifted(first * samples),
            _keys(result.answer_keys, rows * samples, samples),
            tuple(_completion(text) for text in texts.values()),
            result.generated_tokens,
        )

    def put(self, report: BlockReport) -> None:
        """Keep a block that fits."""
        self.grid.put(0, report.answers)
        self.keys[report.answers.positions] = report.keys
        self._completions.update({c.row: c for c in report.completions})
        self.generated_tokens += report.generated_tokens

    def stored(self, iteration: int, name: str, first: StoredEvaluation | None) -> StoredEvaluation:
        """What is stored of a complete set.

        Parameters
        ----------
        first
            The set's first evaluation; None at that one itself. Whether it is one of the base model, against
            which passes can be counted, is looked at where they are.
        """
        grid, plan = self.grid, self.plan
        answered = Answered(
            passed=grid.passed[0],
            truncated=grid.truncated[0],
            scores=grid.scores[0],
            auxiliary=grid.auxiliary[0],
            keys=self.keys,
            scores_differ=grid.scores_differ,
            generated_tokens=self.generated_tokens,
            completions=tuple(self._completions[row] for row in sorted(self._completions)),
        )
        return stored_evaluation(
            answered,
            iteration=iteration,
            name=name,
            samples=plan.samples,
            holdout=plan.holdout,
            against_base=plan.against_base,
            first=first,
        )


def stored_evaluations(
    iteration: int, sets: Mapping[str, SetAnswers], firsts: Mapping[str, StoredEvaluation]
) -> list[StoredEvaluation]:
    """What is stored of complete sets; `firsts` has the first evaluation of each set that has one."""
    earlier = {name: first for name, first in firsts.items() if first.iteration < iteration}
    return [answers.stored(iteration, name, earlier.get(name)) for name, answers in sets.items()]


def _completion(text: wire.Completion) -> StoredCompletion:
    return StoredCompletion(
        text.row, text.sample, text.prompt, text.text, text.passed, float(text.score), text.reason
    )


def _keys(payload: bytes, count: int, samples: int) -> NDArray[np.uint64]:
    if samples == 1:
        return np.zeros(count, np.uint64)
    if len(payload) != 8 * count:
        raise ReportError(f"{len(payload)} bytes of answer keys for {count} answers; expected {8 * count}")
    return np.frombuffer(payload, "<u8").astype(np.uint64)
