"""What is seen of a coordinator from outside: probes, metrics, and what it says when the run is done."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from dartes.difficulty import Scored
from dartes.spec import JobSpec
from dartes.state import RunFolder, RunReader
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.completion import completion
from dartes_coordinator.metrics import Metrics
from dartes_coordinator.observer import Observer
from dartes_coordinator.probes import STUCK_SECONDS, Probes
from dartes_coordinator.service import TICK_SECONDS, Service
from dartes_coordinator.store import Store

from .coordinator.kit import (
    Clock,
    FakeWorker,
    finished_folder,
    opened,
    plan,
    run_until,
    settings,
    weight_digest,
)

PLAN = plan()


class Scene:
    """A coordinator that is watched, and what the registry says."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock()
        self.registry = CollectorRegistry()
        self.coordinator = opened(RunFolder(path), PLAN, self.clock)
        self.probes = Probes(self.registry, self.clock)
        self.coordinator.run.ledger.observer = self.probes

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"dartes_coordinator_{name}", labels)

    def worker(self, name: str = "w") -> FakeWorker:
        worker = FakeWorker(name, PLAN)
        worker.register(self.coordinator, self.clock())
        return worker


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_metrics_add_up_what_was_committed(scene: Scene) -> None:
    lines: list[Mapping[str, Any]] = []

    class Both(Observer):
        def committed(self, line: Mapping[str, Any], scored: Scored, seconds: float) -> None:
            lines.append(line)
            scene.probes.committed(line, scored, seconds)

    scene.coordinator.run.ledger.observer = Both()
    run_until(scene.coordinator, [scene.worker()], scene.clock, 3)
    assert scene.value("iteration") == 3
    assert scene.value("members_evaluated_total") == 3 * PLAN.settings.population_size
    assert scene.value("generated_tokens_total") == sum(line["generated_tokens"] for line in lines)
    assert scene.value("iteration_seconds_count") == scene.value("commit_seconds_count") == 3
    assert scene.value("iteration_seconds_sum") == pytest.approx(sum(line["seconds"] for line in lines))
    assert scene.value("worker_seconds_total", part="generate") == pytest.approx(
        sum(line["seconds_by_part"]["generate"] for line in lines)
    )
    assert scene.value("problem_pass_rate_count") == sum(line["problems"] for line in lines)
    mean = sum(line["problems"] * line["pass_rate"] for line in lines)
    assert scene.value("problem_pass_rate_sum") == pytest.approx(mean)
    last = lines[-1]
    assert scene.value("train_pass_rate") == last["pass_rate"]
    assert scene.value("mean_history") == last["mean_history"]
    assert scene.value("replay_buffer_problems") == last["replay_buffer_size"]
    assert scene.value("replay_ratio") == last["replayed"] / last["problems"]
    assert scene.value("sign_flip_share") == last["sign_flip_share"]
    assert scene.value("leases_reissued_total") == 0


def test_a_lost_workers_leases_are_counted(scene: Scene) -> None:
    lost, other = scene.worker("a"), scene.worker("b")
    assert lost.ask(scene.coordinator, scene.clock()) is not None
    scene.coordinator.lost("a")
    run_until(scene.coordinator, [other], scene.clock, 1)
    assert scene.value("leases_reissued_total") == 1


def test_workers_are_counted_by_what_they_do(scene: Scene) -> None:
    busy, idle, late = scene.worker("busy"), scene.worker("idle"), scene.worker("late")
    run_until(scene.coordinator, [busy], scene.clock, 1)
    for worker in (busy, idle):
        worker.catch_up(scene.coordinator)
        worker.attest(scene.coordinator, scene.clock())
    assert busy.ask(scene.coordinator, scene.clock()) is not None
    assert late.iteration == 0
    scene.probes.turned(scene.coordinator.run)
    assert {s: scene.value("workers", state=s) for s in ("evaluating", "waiting", "behind")} == {
        "evaluating": 1,
        "waiting": 1,
        "behind": 1,
    }
    assert scene.value("leases_pending") == PLAN.settings.population_size
    assert (scene.value("paused"), scene.value("incarnation"), scene.value("epoch")) == (0, 1, 0)


def test_a_reward_service_that_is_away_is_seen_while_it_holds_the_run_up(scene: Scene) -> None:
    worker = scene.worker()
    presence = scene.coordinator.run.workers
    session = presence.open_session()
    for trouble, seen in (("", 0), ("http://judge:8000 does not answer", 1), ("", 0)):
        presence.beat(worker.name, session, scene.clock(), trouble)
        scene.probes.turned(scene.coordinator.run)
        assert scene.value("held_up") == seen
        assert scene.value("paused") == 0, "nothing is wrong with the volume"


def test_labels_are_few_whatever_the_run(scene: Scene) -> None:
    workers = [scene.worker(f"worker-{k}") for k in range(20)]
    run_until(scene.coordinator, workers, scene.clock)
    scene.probes.turned(scene.coordinator.run)
    samples = [s for family in scene.registry.collect() for s in family.samples]
    assert len(samples) < 120
    assert {name for s in samples for name in s.labels} <= {"state", "part", "le", "code"}


def test_two_coordinators_of_one_process_share_nothing(tmp_path: Path) -> None:
    first, second = CollectorRegistry(), CollectorRegistry()
    Metrics(first).refused("ABORTED")
    Metrics(second)
    name, labels = "dartes_coordinator_rpc_errors_total", {"code": "ABORTED"}
    assert (first.get_sample_value(name, labels), second.get_sample_value(name, labels)) == (1, None)


# Probes --------------------------------------------------------------------------------------------


def test_the_coordinator_is_ready_when_it_listens(scene: Scene) -> None:
    assert scene.probes.readiness() == "the run is being opened"
    assert scene.probes.health() is None, "opening a large run takes its time"
    scene.probes.listening()
    assert scene.probes.readiness() is None


def test_a_main_loop_that_stands_still_is_unhealthy_until_it_turns_again(scene: Scene) -> None:
    def fail(error: Exception) -> None:
        raise error

    service = Service(scene.coordinator, scene.clock, fail, scene.probes)
    service.tick(scene.clock(), TICK_SECONDS)
    scene.clock.pass_by(STUCK_SECONDS)
    assert scene.probes.health() is None
    scene.clock.pass_by(1.0)
    assert scene.probes.health() == f"the main loop has not turned for {STUCK_SECONDS + 1:.0f} s"
    service.tick(scene.clock(), TICK_SECONDS)
    assert scene.probes.health() is None


class AbortedError(Exception):
    """A call as gRPC ends it."""


class Context:
    """The server's side of a call by a worker."""

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_common_name": [b"worker"]}

    async def abort(self, code: grpc.StatusCode, _: str) -> None:
        raise AbortedError(code)


def test_errors_of_calls_are_counted_by_their_code(scene: Scene) -> None:
    async def scenario() -> None:
        service = Service(scene.coordinator, scene.clock, lambda _: None, scene.probes)
        for _ in range(2):
            with pytest.raises(AbortedError):
                await service.Lease(wire.LeaseRequest(worker="w", incarnation=9), Context())

    asyncio.run(scenario())
    assert scene.value("rpc_errors_total", code="ABORTED") == 2


# The end -------------------------------------------------------------------------------------------


def spec_with(*sets: str) -> JobSpec:
    """As much of a job as is read here."""
    made: Any = SimpleNamespace(evaluation=SimpleNamespace(sets=[SimpleNamespace(name=n) for n in sets]))
    spec: JobSpec = made
    return spec


def test_a_finished_run_is_told_in_one_object(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, PLAN)
    with RunReader.open(folder) as reader:
        last = list(reader.iterations())[-1]
        evaluation = reader.evaluations()[-1]
    assert completion(folder, spec_with("held-out", "other")) == {
        "iteration": 5,
        "totalIterations": 5,
        "epoch": last.epoch,
        "journalHash": last.row_hash.hex(),
        "weightDigest": weight_digest(last.row_hash),
        "trainPassRate": pytest.approx(last.passed.mean()),
        "evalAccuracy": evaluation.accuracy,
        "incarnation": 1,
    }


def test_what_is_not_known_of_a_finished_run_is_null(tmp_path: Path) -> None:
    store = Store.open(RunFolder(tmp_path).store)
    store.close()
    found = completion(RunFolder(tmp_path), spec_with())
    assert found == {
        "iteration": 0,
        "totalIterations": 0,
        "epoch": None,
        "journalHash": None,
        "weightDigest": None,
        "trainPassRate": None,
        "evalAccuracy": None,
        "incarnation": 1,
    }


def test_a_watched_run_comes_out_as_an_unwatched_one(tmp_path: Path, scene: Scene) -> None:
    run_until(scene.coordinator, [scene.worker()], scene.clock)
    scene.coordinator.close()
    unwatched = finished_folder(tmp_path / "unwatched", plan(settings()))
    with RunReader.open(RunFolder(tmp_path)) as watched, RunReader.open(unwatched) as other:
        assert watched.last_row_hash() == other.last_row_hash() is not None
