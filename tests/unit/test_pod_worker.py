"""What is seen of a worker from outside, and what it leaves in the folder of snapshots."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from prometheus_client import CollectorRegistry

from dartes.v1 import population_pb2 as wire
from dartes_worker.probes import Probes, device_memory_bytes
from dartes_worker.snapshots import ABANDONED_SECONDS, prune, snapshot_path, unrecorded


class Scene:
    """The probes of a worker and what their registry says."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.probes = Probes(self.registry)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"dartes_worker_{name}", labels)


@pytest.fixture
def scene() -> Scene:
    return Scene()


# Readiness -----------------------------------------------------------------------------------------


def test_a_worker_is_ready_once_it_is_admitted_attested_and_present(scene: Scene) -> None:
    probes = scene.probes
    assert probes.readiness() == "not registered with the coordinator"
    probes.registered(1)
    probes.heard()
    assert probes.readiness() == "the weights are being brought up"
    probes.attested(0)
    assert probes.readiness() is None


def test_a_lost_connection_makes_it_unready_until_it_is_back(scene: Scene) -> None:
    probes = scene.probes
    probes.registered(1)
    probes.attested(0)
    probes.heard()
    probes.parted()
    assert probes.readiness() == "the connection to the coordinator is lost"
    probes.heard()
    assert probes.readiness() is None


def test_another_incarnation_wants_another_attestation(scene: Scene) -> None:
    probes = scene.probes
    probes.registered(1)
    probes.attested(3)
    probes.heard()
    probes.registered(2)
    assert probes.readiness() == "the weights are being brought up"


# Metrics -------------------------------------------------------------------------------------------


def test_answers_and_tokens_are_counted(scene: Scene) -> None:
    member = wire.EvaluateResult(kind=wire.EVALUATE_KIND_MEMBER, prompt_tokens=4, generated_tokens=9)
    parent = wire.EvaluateResult(kind=wire.EVALUATE_KIND_PARENT, prompt_tokens=1, generated_tokens=2)
    scene.probes.evaluated([member, member, parent])
    assert scene.value("evaluations_total", kind="member") == 2
    assert scene.value("evaluations_total", kind="parent") == 1
    assert scene.value("generated_tokens_total") == 20
    assert scene.value("prompt_tokens_total") == 9


def test_a_worker_tells_how_far_behind_it_is(scene: Scene) -> None:
    scene.probes.attested(2)
    assert (scene.value("iteration"), scene.value("iterations_behind")) == (2, 0)
    scene.probes.told(7)
    assert scene.value("iterations_behind") == 5
    scene.probes.attested(7)
    assert scene.value("iterations_behind") == 0


def test_memory_is_what_the_process_holds(scene: Scene) -> None:
    resident = psutil.Process(os.getpid()).memory_info().rss
    assert scene.value("device_memory_bytes") == pytest.approx(resident, rel=0.2)


def test_memory_is_the_gpus_where_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = SimpleNamespace(is_initialized=lambda: True, memory_reserved=lambda: 3 * 2**30)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert device_memory_bytes() == 3 * 2**30


# Snapshots -----------------------------------------------------------------------------------------


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def name(iteration: int) -> str:
    return f"iteration-{iteration:08d}.safetensors"


def known(iteration: int) -> wire.SnapshotInfo:
    return wire.SnapshotInfo(iteration=iteration, file=name(iteration))


def test_old_snapshots_go_and_one_more_than_is_kept_stays(tmp_path: Path) -> None:
    for iteration in (2, 4, 6, 8, 10):
        snapshot_path(tmp_path / "snapshots", iteration).touch()
    (tmp_path / "snapshots" / "notes.txt").touch()
    gone = prune(tmp_path / "snapshots", 10, keep=2, unknown={})
    assert sorted(gone) == [name(2), name(4)]
    assert files(tmp_path / "snapshots") == [name(6), name(8), name(10), "notes.txt"]


def test_snapshots_of_a_lost_history_go(tmp_path: Path) -> None:
    for iteration in (4, 8, 12):
        snapshot_path(tmp_path, iteration).touch()
    prune(tmp_path, 8, keep=3, unknown=unrecorded(tmp_path, [known(4)]))
    assert files(tmp_path) == [name(4), name(8)]


def test_a_slow_writer_leaves_what_faster_ones_have_written_and_had_recorded(tmp_path: Path) -> None:
    for iteration in (4, 12):
        snapshot_path(tmp_path, iteration).touch()
    unknown = unrecorded(tmp_path, [known(4), known(12)])
    for iteration in (8, 16):
        snapshot_path(tmp_path, iteration).touch()  # 16 by another worker, after this one has registered
    assert prune(tmp_path, 8, keep=3, unknown=unknown) == []
    assert files(tmp_path) == [name(4), name(8), name(12), name(16)]


def test_a_snapshot_written_again_is_not_taken_for_that_of_the_lost_history(tmp_path: Path) -> None:
    lost = snapshot_path(tmp_path, 12)
    lost.touch()
    unknown = unrecorded(tmp_path, [])
    os.utime(lost, ns=(0, lost.stat().st_mtime_ns + 1))
    snapshot_path(tmp_path, 8).touch()
    assert prune(tmp_path, 8, keep=3, unknown=unknown) == []


def test_half_a_snapshot_goes_once_its_writer_must_be_dead(tmp_path: Path) -> None:
    half = tmp_path / f".{name(4)}.partial-0a1b2c3d"
    half.touch()
    written = half.stat().st_mtime
    assert prune(tmp_path, 8, keep=3, unknown={}, now=written + ABANDONED_SECONDS - 1) == []
    assert prune(tmp_path, 8, keep=3, unknown={}, now=written + ABANDONED_SECONDS + 1) == [half.name]
    assert files(tmp_path) == []
