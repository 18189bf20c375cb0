"""The job of the integration tests, its undisturbed run and a half-done one, shared by all of them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from dartes.state import RunFolder, RunReader

from ..waiting import until
from .harness import EngineHook, held_run
from .outcome import Identity, group_counts, identity
from .variants import Stage, workers

SPEC: Final[dict[str, Any]] = {
    "model": {"source": "builtin://addition", "dtype": "Float32"},
    "dataset": {"source": "builtin://addition", "split": "train", "maxProblems": 40},
    "task": {"kind": "addition"},
    # A prompt of 4 to 6 bytes and an answer of 8: four prompts in a group, four groups in the batch of 16.
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
"""A second of work, but long enough for a backup (after 10 iterations) and three snapshots."""

HELD_OUT_GROUPS: Final = 4
GROUPS: Final = 316
"""Generation groups of all members and evaluations; a test counts them again."""

HALF_DONE: Final = 12
"""Iterations that the half-done run has committed: more than its backup holds."""


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """The job with the engine whose answers hash group and weights."""
    return Stage(SPEC, EngineHook.HASHING, tmp_path_factory.mktemp("hashing"), GROUPS)


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


@pytest.fixture(scope="session")
def half_done_folder(stage: Stage, reference_folder: Path) -> Path:
    """A run of one worker whose command alone was killed, inside a lease of iteration `HALF_DONE`."""
    folder = stage.root / "half-done"
    members = SPEC["es"]["populationSize"] * sum(group_counts(reference_folder)[:HALF_DONE])
    evaluations = 1 + HALF_DONE // SPEC["evaluation"]["everyIterations"]
    at = f"all:{members + evaluations * HELD_OUT_GROUPS + 6}"
    with held_run(stage.job(folder.name), folder, "--workers", "1", at=at) as (run, hold):
        run.until(hold.pids, "a worker inside a lease")
        started = run.descendants()
        os.kill(run.pid, 9)
        until(
            lambda: not run.descendants(), f"{len(started)} processes leave when their parent is gone", 20.0
        )
        assert len(started) >= 3, "coordinator, worker and the grader that its sets share"
    with RunReader.open(RunFolder(folder)) as reader:
        assert reader.iteration_count() == HALF_DONE
    return folder


@pytest.fixture
def half_done(half_done_folder: Path, stage: Stage, tmp_path: Path) -> Path:
    """A copy of the half-done run."""
    folder = tmp_path / "copy"
    shutil.copytree(half_done_folder, folder)
    return folder


@pytest.fixture
def job(stage: Stage, tmp_path: Path) -> Callable[..., Path]:
    """Writes the job with some fields changed."""

    def write(**changes: Any) -> Path:
        return Stage(stage.spec, stage.engine, tmp_path, stage.groups).job("job", **changes)

    return write
