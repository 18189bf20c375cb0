"""Loads the training problems of a job, stage by stage and set by set, under one digest for all of them.

Coordinator and workers load alike and compare the digest. Knows nothing of tasks, batches or fitness.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dartes.data.dataset import Dataset, load_dataset
from dartes.data.errors import DatasetError

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
    DatasetError
        As `load_dataset` does, with the stage or part of the mix named.
    """
    stages = []
    for sets in spec.training_stages():
        loaded = []
        for one in sets:
            try:
                loaded.append(load_dataset(one.dataset, base_dir))
            except DatasetError as error:
                if one.path == "dataset":
                    raise
                raise DatasetError(f"spec.{one.path}: {error}") from error
        stages.append(tuple(loaded))
    return Training(tuple(stages), _digest(stages))


def _digest(stages: Sequence[Sequence[Dataset]]) -> str:
    if len(stages) == 1 and len(stages[0]) == 1:
        return stages[0][0].digest
    lines = [
        f"{stage} {index} {dataset.digest} {len(dataset.rows)}\n"
        for stage, sets in enumerate(stages)
        for index, dataset in enumerate(sets)
    ]
    return hashlib.sha256((DIGEST_DOMAIN + "".join(lines)).encode()).hexdigest()
