"""A full disk pauses the coordinator with everything in memory, and it continues by itself."""

from pathlib import Path

import pytest

from dartes.v1 import control_pb2
from dartes_coordinator.full_disk import StoreFullError

from .kit import registration
from .scene import full_disk, scene_of
from .stored import empty_disk, fill_disk


def test_a_full_disk_pauses_with_everything_in_memory_and_goes_on_by_itself(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u")
    (u,) = scene.workers
    with full_disk():
        while scene.coordinator.run.paused is None:
            u.step(scene.coordinator, scene.clock.pass_by(0.1))
        assert scene.iteration == 0
        assert scene.coordinator.run.round.complete
        assert u.step(scene.coordinator, scene.clock()) is None
        status = scene.coordinator.status()
        assert (status.phase, status.message) == (control_pb2.PHASE_PAUSED, "the disk is full")
        scene.coordinator.retry(scene.clock())
        assert scene.iteration == 0
    scene.coordinator.retry(scene.clock())
    assert scene.iteration == 1
    assert scene.coordinator.status().phase == control_pb2.PHASE_RUNNING
    scene.to(None)
    assert "Continued" in scene.events()


def test_sqlite_itself_pauses_and_continues_the_run(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u")
    ledger = scene.coordinator.run.ledger
    fill_disk(ledger._store)
    ledger.event("Long", "x" * 200_000)
    while scene.coordinator.run.paused is None:
        scene.workers[0].step(scene.coordinator, scene.clock.pass_by(0.1))
    assert "full" in scene.coordinator.run.paused
    scene.coordinator.retry(scene.clock())
    assert scene.coordinator.run.paused is not None
    empty_disk(ledger._store)
    scene.coordinator.retry(scene.clock())
    assert scene.coordinator.run.paused is None
    assert scene.iteration == 1


def test_whether_the_disk_takes_data_is_found_by_writing_even_where_nothing_waits(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u")
    ledger = scene.coordinator.run.ledger
    ledger.flush()
    before = scene.folder.store.read_bytes()
    ledger.flush()
    assert scene.folder.store.read_bytes() != before


def test_a_report_while_paused_is_taken_and_counts_once(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    slow = scene.lease(v)
    other = registration("x", scene.run, fingerprint='{"engine": "other"}')
    with full_disk(), pytest.raises(StoreFullError):
        scene.coordinator.register(other, scene.clock())
    done = scene.coordinator.run.round.leases.done_count
    assert scene.coordinator.report(v.answer(slow.evaluate), scene.clock())
    assert not scene.coordinator.report(v.answer(slow.evaluate), scene.clock())
    assert scene.coordinator.run.round.leases.done_count == done + 1
    assert u.step(scene.coordinator, scene.clock()) is None
    scene.coordinator.retry(scene.clock())  # with an incomplete round
    assert scene.coordinator.run.paused is None
    scene.to(1)


def test_a_disagreement_while_paused_does_not_commit_the_forgotten_round(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    scene.to(2, u)
    with full_disk():
        while scene.coordinator.run.paused is None:
            u.step(scene.coordinator, scene.clock.pass_by(0.1))
        v.corrupt = b"spoilt"
        v.step(scene.coordinator, scene.clock())
    scene.coordinator.retry(scene.clock())
    assert scene.iteration == 2
    scene.to(None)


def test_a_full_disk_at_the_finish_is_waited_for(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", evaluation_sets={}, data_digests={"train": "t"})
    (u,) = scene.workers
    scene.to(5)
    with full_disk():
        u.step(scene.coordinator, scene.clock())  # applies and attests
        assert scene.coordinator.run.paused is not None
        assert not scene.coordinator.done
    scene.coordinator.retry(scene.clock())
    assert scene.coordinator.done
    assert scene.events().count("Completed") == 1
