"""A worker's equipment with the test engine: the built-in model's weights, sums as problems, real graders."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dartes.spec import JobSpec, load_job
from dartes_worker.engines.registry import ENGINE_VARIABLE
from dartes_worker.setup import Equipment, equip

HASHING = "dartes_worker.engines.hashing:HashingEngine.load"
JOB = {
    "apiVersion": "dartes.dev/v1alpha1",
    "kind": "DartESJob",
    "metadata": {"name": "tiny"},
    "spec": {
        "model": {"source": "builtin://addition", "dtype": "Float32"},
        "dataset": {"source": "builtin://addition", "maxProblems": 32},
        "task": {"kind": "addition"},
        # A prompt of 4 to 6 bytes and an answer of 8: four prompts in a group.
        "generation": {"maxNewTokens": 8, "tokenBudget": 56},
        "es": {"populationSize": 4, "sigma": 0.003, "batchSize": 16, "iterations": 3, "seed": 7},
        "evaluation": {
            "sets": [
                {
                    "name": "held-out",
                    "dataset": {"source": "builtin://addition", "split": "test", "maxProblems": 12},
                }
            ]
        },
        "workers": {"gpusPerWorker": 0},
    },
}


@pytest.fixture(scope="session")
def tiny_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job file of `equipment`."""
    path = tmp_path_factory.mktemp("job") / "job.yaml"
    path.write_text(json.dumps(JOB))
    return path


@pytest.fixture(scope="session")
def tiny_spec(tiny_job: Path) -> JobSpec:
    """The job of `equipment`."""
    return load_job(tiny_job).job.spec


@pytest.fixture(scope="module")
def equipment(tiny_spec: JobSpec) -> Iterator[Equipment]:
    """Shared by the tests of a module, which may write other weights into its engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE_VARIABLE, HASHING)
        equipment = equip(tiny_spec, Path())
    yield equipment
    equipment.close()
