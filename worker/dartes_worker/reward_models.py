"""The grader `reward-model`: scores of sequence classifiers in this process, or of services, added up.

Knows tasks and scorers; the model itself is `reward_models_local`'s, the service
`dartes.rewards.service`'s.
"""

import math
from collections.abc import Sequence
from typing import cast

from dartes.errors import ConfigurationError
from dartes.rewards.opening import GraderContext
from dartes.rewards.service import LARGEST_SCORE, Scorer, ServiceScorer
from dartes.rewards.service_http import check_url
from dartes.tasks.base import Grade, Row, TaskDescription
from dartes.tasks.instruction import InstructionTask, ScoringPlace
from dartes.tasks.registry import task_named


def open_reward_models(task: TaskDescription, context: GraderContext) -> "ScoringGrader":
    """The grader `reward-model`; see `dartes.rewards.opening`. Loads models, asks no service yet.

    Raises
    ------
    ConfigurationError
        An address that is none, or a model that is none or has several labels.
    TransientError
        The hub can't be reached.
    """
    built = task_named(task.kind).from_spec(task)
    if not isinstance(built, InstructionTask):
        raise ConfigurationError(
            f"task.kind: task {task.kind!r} names no reward model, and can't be graded so"
        )
    scorers: list[tuple[Scorer, float]] = []
    try:
        for place, weight in built.places:
            scorers.append((_scorer(place, built, context), weight))
    except BaseException:
        for scorer, _ in scorers:
            scorer.close()
        raise
    return ScoringGrader(built, scorers)


class ScoringGrader:
    """Grades by the weighted sum of what its scorers say."""

    def __init__(self, task: InstructionTask, scorers: Sequence[tuple[Scorer, float]]) -> None:
        self._task = task
        self._scorers = scorers

    def grade(self, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        """Grade `completions[i]`, an answer to `rows[i]`; see `Grader.grade`."""
        prompts = [self._task.prompt(row) for row in rows]
        if not prompts:
            return []
        parts = [
            [weight * s for s in scorer.scores(prompts, completions)] for scorer, weight in self._scorers
        ]
        return [self._task.grade_of(_finite(math.fsum(part))) for part in zip(*parts, strict=True)]

    def close(self) -> None:
        """Release models; may be called twice."""
        for scorer, _ in self._scorers:
            scorer.close()


def _scorer(place: ScoringPlace, task: InstructionTask, context: GraderContext) -> Scorer:
    if place.service is not None:
        url = check_url(place.field, place.service)
        return ServiceScorer(place.field, url, task.timeout_seconds, context.on_trouble, context.closing.wait)
    from dartes_worker.reward_models_local import LocalScorer

    return LocalScorer.load(
        place.field, cast("str", place.model), place.label, context.base_dir, context.device
    )


def _finite(score: float) -> float:
    """A sum within what travels as a 32-bit number."""
    return max(-LARGEST_SCORE, min(LARGEST_SCORE, score))
