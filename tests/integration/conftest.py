"""The job of the integration tests and its undisturbed run, shared by all of them."""

from pathlib import Path

import pytest

from .harness import EngineHook, Identity, identity
from .variants import Stage, workers

SPEC = {
    "model": {"source": "builtin://addition", "dtype": "Float32"},
    "dataset": {"source": "builtin://addition", "split": "train", "maxProblems": 40},
    "task": {"kind": "addition"},
    # A prompt of 5 or 6 bytes and an answer of 8: four prompts in a group, four groups in the batch of 16.
    "generation": {"maxNewTokens": 8, "tokenBudget": 56},
    "es": {
        "populationSize": 6,
        "sigma": 0.003,
        "learningRate": 0.003,
        "batchSize": 16,
        "iterations": 14,
        "seed": 3,
    },
    "evaluation": {
        "everyIterations": 5,
        "sets": [
            {
                "name": "held-out",
                "dataset": {"source": "builtin://addition", "split": "test", "maxProblems": 16},
            }
        ],
    },
    "checkpoint": {"weights": {"everyIterations": 4}, "keep": 3},
    "workers": {"replicas": 2, "gpusPerWorker": 0},
}
"""Small enough for a second of work, long enough for a backup (after 10 iterations) and three snapshots."""

REAL_ITERATIONS = 4


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """The job with the engine whose answers hash group and weights."""
    return Stage(SPEC, EngineHook.HASHING, tmp_path_factory.mktemp("hashing"), hold_at=60)


@pytest.fixture(scope="session")
def reference_folder(stage: Stage) -> Path:
    """The folder of the undisturbed run; tests must leave it as it is."""
    folder = stage.root / "reference"
    workers(2).play(stage, folder)
    return folder


@pytest.fixture(scope="session")
def reference(reference_folder: Path) -> Identity:
    """What every disturbed run must come out as."""
    return identity(reference_folder)
