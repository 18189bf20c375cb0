"""Loads the problems of a job: of training under one digest, stage by stage and set by set; of evaluation.

Coordinator and workers load alike and compare the digest. Knows nothing of tasks, batches or fitness.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dartes.data.dataset import Dataset, load_dataset

if TYPE_CHECKING:
    from dartes.spec import JobSpec

DIGEST_DOMAIN = "dartes-stages-v1\n"


@dataclass(frozen=True, slots=True)
class Training:
    """The training problems of a job.

    Attributes
    ----------
    stages
        The data sets of each stage, in the job's order; problem indices of a stage count through its sets.
    digest
        SHA-256, hex: of the rows where there is one set; else of stage, set, digest and rows of each.
    """

    stages: tuple[tuple[Dataset, ...], ...]
    digest: str

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """Number of problems by stage and set."""
        return tuple(tuple(len(dataset.rows) for dataset in sets) for sets in self.stages)


def load_training(spec: "JobSpec", base_dir: Path) -> Training:
    """Load every data set that a job trains on; relative paths start at `base_dir` (the job file's folder).

    Raises
    ------
    DatasetError, ConfigurationError, TransientError
        As `load_dataset` does, with the stage or part of the mix named.
    """
    stages = tuple(
        tuple(load_dataset(one.dataset, base_dir, one.path) for one in sets)
        for sets in spec.training_stages()
    )
    return Training(stages, _digest(stages))


def load_evaluation_set(spec: "JobSpec", name: str, base_dir: Path) -> Dataset:
    """Load an evaluation set or holdout of a job, as `load_dataset` does; its errors name the set."""
    kind = "sets" if any(one.name == name for one in spec.evaluation.sets) else "holdouts"
    (found,) = (one for one in spec.evaluation.all_sets if one.name == name)
    return load_dataset(found.dataset, base_dir, f"evaluation.{kind}[{name}].dataset")


def _digest(stages: Sequence[Sequence[Dataset]]) -> str:
    if len(stages) == 1 and len(stages[0]) == 1:
        return stages[0][0].digest
    lines = [
        f"{stage} {index} {dataset.digest} {len(dataset.rows)}\n"
        for stage, sets in enumerate(stages)
        for index, dataset in enumerate(sets)
    ]
    return hashlib.sha256((DIGEST_DOMAIN + "".join(lines)).encode()).hexdigest()
