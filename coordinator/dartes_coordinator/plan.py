"""What a job asks of the coordinator, resolved once at start: settings, data digests, what is due when.

Pure values; reading the job and the data sets is the entry point's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dartes.difficulty import AlgorithmSettings

BACKUP_EVERY = 10
"""Iterations between verified copies of the store."""


@dataclass(frozen=True)
class RunPlan:
    """The job as the coordinator needs it."""

    name: str
    settings: AlgorithmSettings
    algorithm_digest: str
    algorithm_fields: Mapping[str, object]
    problem_count: int
    data_digests: Mapping[str, str]
    """Digest by data set: "train" and each evaluation set."""
    evaluation_sizes: Mapping[str, int] = field(default_factory=dict)
    evaluate_every: int = 10
    evaluate_parent: bool = False
    slices_per_member: int = 1
    snapshot_every: int | None = None
    keep: int = 3

    def evaluations_due(self, iteration: int, final: bool) -> dict[str, int]:
        """Sets to evaluate on the weights after `iteration` updates, with their sizes.

        The base model, every `evaluate_every`-th version and the final one are evaluated.
        """
        due = final or iteration % self.evaluate_every == 0
        return dict(self.evaluation_sizes) if due else {}

    def snapshot_due(self, iteration: int) -> bool:
        """Whether the weights after `iteration` updates are to be written as a snapshot."""
        return self.snapshot_every is not None and iteration > 0 and iteration % self.snapshot_every == 0
