"""What scores the answers: one source for all workers of an incarnation, and a run that waits says why."""

from pathlib import Path

import pytest

from dartes.state import RunReader
from dartes.v1 import control_pb2
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.errors import RefusedError

from .kit import opened, registration
from .scene import Scene, scene_of

DOWN = "rewards are unavailable: reward service http://r/: connection refused, tried 3 times"


def register(scene: Scene, worker: str, reward: str) -> None:
    request = registration(worker, scene.run)
    request.data.append(wire.DataDigest(name="reward", digest=reward))
    scene.coordinator.register(request, scene.clock())


def started_again(scene: Scene) -> None:
    scene.coordinator.close()
    scene.coordinator = opened(scene.folder, scene.run, scene.clock)


def test_all_workers_of_an_incarnation_score_by_the_same_source(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    register(scene, "u", "one")
    register(scene, "v", "one")
    with pytest.raises(RefusedError, match="worker w cannot take part: reward source"):
        register(scene, "w", "two")
    with pytest.raises(RefusedError, match="reward source: digest none"):
        scene.coordinator.register(registration("w", scene.run), scene.clock())


def test_a_mended_function_goes_on_with_the_run_and_is_recorded(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    register(scene, "u", "one")
    started_again(scene)
    register(scene, "u", "two")
    register(scene, "v", "two")
    with pytest.raises(RefusedError, match="reward source"):
        register(scene, "w", "one")
    assert scene.events().count("RewardChanged") == 1
    with RunReader.open(scene.folder) as reader:
        assert reader.meta_text("reward_digest") == "two"


def test_the_same_function_after_a_restart_is_no_event(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    register(scene, "u", "one")
    started_again(scene)
    register(scene, "u", "one")
    assert "RewardChanged" not in scene.events()


def test_what_workers_say_of_the_data_is_noted_once_and_told_to_whoever_follows(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    for worker in ("u", "v"):
        request = registration(worker, scene.run, warnings=["2 prompts leave no room", "x" * 5_000])
        scene.coordinator.register(request, scene.clock())
    notes = scene.coordinator.status().notes
    assert [note[:20] for note in notes] == ["2 prompts leave no r", "x" * 20]
    assert len(notes[1]) == 2_000
    assert scene.events().count("DataWarning") == 2


def test_a_run_whose_workers_wait_for_rewards_is_paused_and_says_why(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    workers = scene.coordinator.workers
    sessions = {name: workers.open_session() for name in ("u", "v")}
    workers.beat("u", sessions["u"], scene.clock(), DOWN)
    status = scene.coordinator.status()
    assert (status.phase, status.message) == (control_pb2.PHASE_PAUSED, f"worker u: {DOWN}")
    workers.beat("u", sessions["u"], scene.clock(), "")
    status = scene.coordinator.status()
    assert (status.phase, status.message) == (control_pb2.PHASE_RUNNING, "")


def test_a_worker_in_trouble_keeps_its_lease(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    held = scene.lease(scene.workers[0])
    session = scene.coordinator.workers.open_session()
    for _ in range(30):
        scene.clock.pass_by(2.0)
        scene.coordinator.workers.beat("u", session, scene.clock(), DOWN)
    assert [w.name for w in scene.coordinator.workers.connected()] == ["u", "v"]
    assert scene.coordinator.workers.silent(scene.clock()) == ["v"]
    scene.workers[0].do(scene.coordinator, held, scene.clock())
    assert scene.coordinator.status().leases_done == 1


def test_a_full_disk_is_told_before_rewards(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u")
    workers = scene.coordinator.workers
    workers.beat("u", workers.open_session(), scene.clock(), DOWN)
    scene.coordinator.run.paused = "the disk is full"
    assert scene.coordinator.status().message == "the disk is full"
