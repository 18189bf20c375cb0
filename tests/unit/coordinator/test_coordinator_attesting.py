"""What the coordinator does about workers whose weights differ: all rebuild, nothing they said is kept."""

from pathlib import Path

from .kit import expected_hashes, plan
from .scene import scene_of


def test_weights_that_disagree_are_rebuilt_by_all_and_the_round_starts_again(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    scene.to(2, u)
    assert u.step(scene.coordinator, scene.clock()) == "apply"
    assert u.step(scene.coordinator, scene.clock()) == "evaluate"
    assert scene.coordinator.run.round.leases.done_count == 1
    v.corrupt = b"spoilt"
    assert v.step(scene.coordinator, scene.clock()) == "apply"
    assert scene.coordinator.run.round.leases.done_count == 0
    assert [w.step(scene.coordinator, scene.clock()) for w in (u, v)] == ["rebuild", "rebuild"]
    assert scene.coordinator.run.replicas.mismatches == 1
    assert "ReplicaMismatch" in scene.events()


def test_what_a_doubted_worker_was_at_is_dropped(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    scene.to(2, u)
    before = scene.lease(u).evaluate
    v.corrupt = b"spoilt"
    v.step(scene.coordinator, scene.clock())
    assert not scene.coordinator.report(u.answer(before), scene.clock())
    assert scene.coordinator.run.round.leases.done_count == 0


def test_a_late_report_from_before_the_round_started_again_is_dropped_though_its_worker_has_rebuilt(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    scene.to(2, u)
    while scene.coordinator.run.round.leases.done_count == 0:
        u.step(scene.coordinator, scene.clock())
    late = u.answer(scene.lease(u).evaluate)  # the second lease of the round
    v.corrupt = b"spoilt"
    v.step(scene.coordinator, scene.clock())
    while scene.coordinator.run.round.leases.done_count == 0:
        u.step(scene.coordinator, scene.clock())
    assert not scene.coordinator.report(late, scene.clock())
    assert scene.coordinator.run.round.leases.done_count == 1


def test_a_worker_that_turns_out_to_differ_after_all_is_not_listened_to(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v", "x")
    u, v, x = scene.workers
    scene.to(2, u)
    u.step(scene.coordinator, scene.clock())
    scene.coordinator.workers.silent(1e9)
    v.corrupt = b"spoilt"
    assert [v.step(scene.coordinator, scene.clock()), u.step(scene.coordinator, scene.clock())] == [
        "apply",
        "rebuild",
    ]
    u.step(scene.coordinator, scene.clock())  # catches up, which settles what is right
    assert x.step(scene.coordinator, scene.clock()) == "apply"
    lease = scene.lease(x).evaluate
    x.corrupt = b"spoilt"
    x.attest(scene.coordinator, scene.clock())
    assert not scene.coordinator.report(x.answer(lease), scene.clock())
    assert scene.coordinator.run.round.leases.done_count == 0
    assert x.step(scene.coordinator, scene.clock()) == "rebuild"


def test_a_run_with_a_spoilt_replica_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    hashes, _ = expected_hashes(plan())
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    scene.to(2, u)
    assert u.step(scene.coordinator, scene.clock()) == "apply"
    v.corrupt = b"spoilt"
    scene.to(None)
    assert scene.coordinator.run.replicas.mismatches == 1
    assert scene.coordinator.run.progress.hashes == hashes


def test_a_spoilt_worker_is_not_believed_again_for_having_been_away(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    scene.to(2, u)
    u.step(scene.coordinator, scene.clock())
    v.corrupt = b"spoilt"
    v.step(scene.coordinator, scene.clock())
    scene.coordinator.lost("v")
    v.register(scene.coordinator, scene.clock())  # with the weights it had
    assert v.step(scene.coordinator, scene.clock()) == "rebuild"
