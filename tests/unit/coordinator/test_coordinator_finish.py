"""When the coordinator's run is done, which snapshots are written and kept, and what its status tells."""

from pathlib import Path

from dartes.state import RunReader
from dartes.v1 import control_pb2

from .kit import FakeWorker, plan, registration, settings
from .scene import Scene, scene_of

# The end -------------------------------------------------------------------------------------------


def test_a_run_is_done_when_its_last_weights_are_evaluated_and_attested(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    scene.to(5)
    assert scene.coordinator.status().phase == control_pb2.PHASE_FINISHING
    for _ in range(2):
        u.step(scene.coordinator, scene.clock())  # apply, evaluate
    assert scene.coordinator.done
    status = scene.coordinator.status()
    assert status.phase == control_pb2.PHASE_DONE
    assert (status.iteration, status.total_iterations) == (5, 5)
    assert [(e.set_name, e.iteration, e.problems) for e in status.evaluations] == [
        ("held-out", k, 5) for k in (0, 2, 4, 5)
    ]
    assert u.step(scene.coordinator, scene.clock()) == "done"
    assert v.step(scene.coordinator, scene.clock()) == "apply"
    assert v.step(scene.coordinator, scene.clock()) == "done"


def test_a_last_round_without_leases_is_done_by_an_attestation_alone(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", evaluation_sets={}, data_digests={"train": "t"})
    scene.to(5)
    assert not scene.coordinator.done
    assert scene.workers[0].step(scene.coordinator, scene.clock()) == "apply"
    assert scene.coordinator.done


def test_a_disagreement_about_the_last_weights_evaluates_them_again(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v", "x", snapshot_every=5)
    u, v, x = scene.workers
    scene.to(5, u)
    assert [w.step(scene.coordinator, scene.clock()) for w in (u, x, x, x)] == ["apply"] * 4
    held = x.ask(scene.coordinator, scene.clock())  # the snapshot, without which the run is not done
    assert held is not None
    assert u.step(scene.coordinator, scene.clock()) == "evaluate"
    assert scene.coordinator.run.round.committed
    v.corrupt = b"spoilt"
    while v.iteration < 5:
        v.step(scene.coordinator, scene.clock())
    assert not scene.coordinator.run.round.committed
    assert not x.do(scene.coordinator, held, scene.clock())
    scene.to(None)
    assert [e.iteration for e in scene.coordinator.run.progress.evaluations] == [0, 2, 4, 5]
    with RunReader.open(scene.folder) as reader:
        assert [s.iteration for s in reader.snapshots()] == [5]


# Snapshots -----------------------------------------------------------------------------------------


def test_a_due_snapshot_is_written_before_the_run_is_done(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", snapshot_every=5, evaluation_sets={}, data_digests={"train": "t"})
    scene.to(None)
    assert scene.workers[0].snapshots == [5]
    with RunReader.open(scene.folder) as reader:
        assert [s.iteration for s in reader.snapshots()] == [5]


def test_only_the_newest_snapshots_are_kept_on_disk_and_in_the_store(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", snapshot_every=1, keep=2)
    scene.folder.snapshots.mkdir()
    for iteration in range(1, 6):
        (scene.folder.snapshots / f"iteration-{iteration}.safetensors").touch()
    scene.to(None)
    with RunReader.open(scene.folder) as reader:
        assert [s.iteration for s in reader.snapshots()] == [4, 5]
    assert len(list(scene.folder.snapshots.iterdir())) == 2
    newcomer = scene.coordinator.register(registration("late", scene.run), 0.0)
    assert [s.iteration for s in newcomer.snapshots] == [4, 5]


def test_a_snapshot_whose_writer_is_lost_goes_to_somebody_else(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v", snapshot_every=1)
    u, v = scene.workers
    scene.to(1)
    for worker in (u, v):
        if worker.iteration < 1:
            worker.step(scene.coordinator, scene.clock())
    first = u.ask(scene.coordinator, scene.clock())
    second = v.ask(scene.coordinator, scene.clock())
    assert first is not None
    assert second is not None
    assert (first.WhichOneof("action"), second.WhichOneof("action")) == ("snapshot", "evaluate")
    scene.coordinator.lost("u")
    assert v.step(scene.coordinator, scene.clock()) == "snapshot"


# Status and time -----------------------------------------------------------------------------------


def test_status_tells_leases_workers_and_the_hash(tmp_path: Path) -> None:
    run = plan(settings(epochs=2))
    scene = Scene(tmp_path, run, "u", "v")
    assert scene.coordinator.status().phase == control_pb2.PHASE_RUNNING
    scene.to(1, scene.workers[0])
    status = scene.coordinator.status()
    assert (status.leases_done, status.leases_total) == (0, 4)
    assert (status.workers_connected, status.workers_caught_up) == (2, 0)
    assert status.journal_hash == scene.coordinator.run.progress.hashes[1].hex()
    assert status.total_is_estimate
    for worker in ("u", "v"):
        scene.coordinator.workers.silent(1e9)
        scene.coordinator.lost(worker)
    assert scene.coordinator.status().phase == control_pb2.PHASE_WAITING_FOR_WORKERS


def test_the_time_before_the_first_worker_is_no_iterations(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    scene.clock.pass_by(500)
    scene.workers = [FakeWorker("a", scene.run)]
    scene.workers[0].register(scene.coordinator, scene.clock())
    scene.to(1)
    with RunReader.open(scene.folder) as reader:
        assert next(reader.iterations()).beside["seconds"] < 10
