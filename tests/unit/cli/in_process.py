"""A real run without processes: the coordinator, the agent and the test engine call each other directly.

It leaves the folder that `dartes run` would leave, in about a second.
"""

import json
import time
from pathlib import Path
from typing import Any, Final, cast

import pytest

from dartes.errors import ExitCode
from dartes.spec import dump_job, load_job
from dartes.state import RunFolder
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.start import open_run
from dartes_worker.agent import Agent
from dartes_worker.client import CoordinatorClient
from dartes_worker.engines.registry import ENGINE_VARIABLE
from dartes_worker.setup import equip

ITERATIONS: Final = 6
SPEC: Final[dict[str, Any]] = {
    "model": {"source": "builtin://addition", "dtype": "Float32"},
    "dataset": {"source": "builtin://addition", "split": "train", "maxProblems": 16},
    "task": {"kind": "addition"},
    "generation": {"maxNewTokens": 8},
    "es": {
        "populationSize": 4,
        "sigma": 0.003,
        "learningRate": 0.003,
        "batchSize": 8,
        "iterations": ITERATIONS,
        "seed": 5,
    },
    "evaluation": {
        "everyIterations": 3,
        "sets": [
            {
                "name": "held-out",
                "dataset": {"source": "builtin://addition", "split": "test", "maxProblems": 12},
            }
        ],
    },
    "checkpoint": {"weights": {"everyIterations": 2}, "keep": 2},
    "workers": {"gpusPerWorker": 0},
}

TEST_SPLIT: Final = {"source": "builtin://addition", "split": "test"}
EVALUATION: Final[dict[str, Any]] = {
    "everyIterations": 3,
    "logCompletions": 3,
    "sets": [
        {"name": "held-out", "dataset": {**TEST_SPLIT, "maxProblems": 12}},
        {"name": "sampled", "samples": 40, "temperature": 1, "dataset": {**TEST_SPLIT, "maxProblems": 9}},
    ],
    "holdouts": [{"name": "other", "dataset": {**TEST_SPLIT, "maxProblems": 7}}],
}
"""Sets of one and of several samples, and a holdout; three answers of each are kept."""


def job_text(spec: dict[str, Any], name: str = "tiny") -> str:
    """A job file (JSON is YAML)."""
    job = {"apiVersion": "dartes.dev/v1alpha1", "kind": "DartESJob", "metadata": {"name": name}, "spec": spec}
    return json.dumps(job, indent=1)


def changed(**changes: Any) -> dict[str, Any]:
    """The spec with some fields replaced; `es__sigma=0.1` sets `es.sigma`, None removes."""
    spec: dict[str, Any] = json.loads(json.dumps(SPEC))
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = spec
        for name in parents:
            inner = inner.setdefault(name, {})
        inner[last] = value
        if value is None:
            del inner[last]
    return spec


class DirectClient:
    """A worker's client whose calls are the coordinator's methods; drains the worker at an iteration."""

    worker = "worker-0"

    def __init__(self, coordinator: Coordinator, drain_at: int | None) -> None:
        self._coordinator = coordinator
        self._drain_at = drain_at
        self.incarnation = 0

    def register(self, request: wire.RegisterRequest) -> wire.RegisterResponse:
        response = self._coordinator.register(request, time.monotonic())
        self.incarnation = response.incarnation
        return response

    def question(self, weights: wire.WeightsVersion, known_batch: int) -> wire.LeaseRequest:
        return wire.LeaseRequest(
            worker=self.worker, incarnation=self.incarnation, weights=weights, known_batch=known_batch
        )

    def lease(self, weights: wire.WeightsVersion, known_batch: int) -> wire.LeaseResponse:
        if weights.iteration == self._drain_at:
            self._coordinator.drain(self.worker)
        request = self.question(weights, known_batch)
        now = time.monotonic()
        self._coordinator.asked(request, now)
        action = self._coordinator.next_action(request, now)
        assert action is not None, "the only worker never has to wait"
        return action

    def report(
        self, lease_id: str, iteration: int, timings: wire.Timings, **result: Any
    ) -> wire.ReportResponse:
        request = wire.ReportRequest(
            worker=self.worker,
            incarnation=self.incarnation,
            lease_id=lease_id,
            iteration=iteration,
            timings=timings,
            **result,
        )
        return wire.ReportResponse(accepted=self._coordinator.report(request, time.monotonic()))

    def updates(self, start: int, limit: int) -> wire.UpdatesResponse:
        return self._coordinator.updates(
            wire.UpdatesRequest(
                worker=self.worker, incarnation=self.incarnation, from_iteration=start, limit=limit
            )
        )

    def attest(self, weights: wire.WeightsVersion, digest: str, rebuilt: bool) -> None:
        request = wire.AttestRequest(
            worker=self.worker, incarnation=self.incarnation, weights=weights, digest=digest, rebuilt=rebuilt
        )
        self._coordinator.attest(request, time.monotonic())

    def interrupt(self) -> None:
        raise AssertionError("nothing waits here")


def play(folder: Path, spec: dict[str, Any], stop_at: int | None = None) -> RunFolder:
    """Run a job to its end, or until so many iterations are committed."""
    run = RunFolder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "given.yaml"
    file.write_text(job_text(spec))
    job = load_job(file)
    run.job.write_text(dump_job(job.job, job.base_dir))
    file.unlink()
    coordinator = open_run(run, job)
    assert coordinator is not None, "the run is done"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE_VARIABLE, "dartes_worker.engines.hashing:HashingEngine.load")
        equipment = equip(job.job.spec, job.base_dir)
    try:
        client = cast("CoordinatorClient", DirectClient(coordinator, stop_at))
        code = Agent(client, equipment, run.snapshots).run()
    finally:
        equipment.close()
    assert code == (ExitCode.DONE if stop_at is None else ExitCode.DRAINED)
    return run
