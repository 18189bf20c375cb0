"""What a job asks of the coordinator, resolved once at start: settings, data digests, what is due when.

Pure values; reading the job and the data sets is the entry point's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dartes.difficulty import AlgorithmSettings

BACKUP_EVERY = 10
"""Iterations between verified copies of the store."""


@dataclass(frozen=True, slots=True)
class EvaluationSetPlan:
    """One evaluation set.

    Attributes
    ----------
    size
        Number of problems.
    samples
        Answers to each problem.
    holdout
        Whether it is one of `evaluation.holdouts`, which measure what was forgotten.
    against_base
        Whether a pass is a score above the base model's on the same problem.
    """

    size: int
    samples: int = 1
    holdout: bool = False
    against_base: bool = False


@dataclass(frozen=True)
class RunPlan:
    """The job as the coordinator needs it."""

    name: str
    settings: AlgorithmSettings
    algorithm_digest: str
    algorithm_fields: Mapping[str, object]
    problem_counts: tuple[tuple[int, ...], ...]
    """Training problems by stage and set."""
    data_digests: Mapping[str, str]
    """Digest by data set: "train" (all stages and sets) and each evaluation set and holdout."""
    evaluation_sets: Mapping[str, EvaluationSetPlan] = field(default_factory=dict)
    evaluate_every: int = 10
    evaluate_parent: bool = False
    slices_per_member: int = 1
    snapshot_every: int | None = None
    keep: int = 3
    log_completions: int = 0
    """Answers to each evaluation set that are kept as text."""

    @property
    def first_set(self) -> str | None:
        """The evaluation set that chooses the best iteration; never a holdout."""
        return next((name for name, one in self.evaluation_sets.items() if not one.holdout), None)

    def evaluations_due(self, iteration: int, final: bool) -> dict[str, EvaluationSetPlan]:
        """Sets to evaluate on the weights after `iteration` updates.

        The base model, every `evaluate_every`-th version and the final one are evaluated.
        """
        due = final or iteration % self.evaluate_every == 0
        return dict(self.evaluation_sets) if due else {}

    def evaluates_parent(self, stage: int) -> bool:
        """Whether the unperturbed model answers each batch of a stage too."""
        return self.evaluate_parent or self.settings.stages[stage].against_parent

    def snapshot_due(self, iteration: int) -> bool:
        """Whether the weights after `iteration` updates are to be written as a snapshot."""
        return self.snapshot_every is not None and iteration > 0 and iteration % self.snapshot_every == 0
