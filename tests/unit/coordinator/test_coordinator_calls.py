"""What the coordinator answers, call by call: who registers, who asks what to do, who reports."""

from pathlib import Path
from typing import Any

import pytest

from dartes.state import RunReader
from dartes.v1 import control_pb2
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.errors import CoverageError, RefusedError, ReportError, StaleError
from dartes_coordinator.full_disk import StoreFullError

from .kit import FakeWorker, expected_hashes, opened, registration, settings
from .scene import full_disk, scene_of

# Registering ---------------------------------------------------------------------------------------


def test_a_refused_worker_leaves_no_trace(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    with pytest.raises(RefusedError):
        scene.coordinator.register(registration("w", scene.run, algorithm_digest="other"), 0.0)
    assert scene.coordinator.run.progress.header is None
    assert "w" not in scene.coordinator.workers


def test_a_process_that_comes_back_under_its_name_gives_its_forerunners_lease_back(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    held = scene.lease(u).evaluate
    FakeWorker("u", scene.run).register(scene.coordinator, scene.clock())
    assert scene.lease(v).evaluate.evaluation_set == held.evaluation_set


def test_a_second_kind_of_engine_is_noted_also_after_a_restart(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u")
    scene.coordinator.close()
    scene.coordinator = opened(scene.folder, scene.run)
    same = registration("u", scene.run)
    other = registration("v", scene.run, fingerprint='{"engine": "another"}')
    scene.coordinator.register(same, 0.0)
    assert "MixedEngines" not in scene.events()
    scene.coordinator.register(other, 0.0)
    scene.coordinator.register(other, 0.0)
    assert scene.events().count("MixedEngines") == 1
    with RunReader.open(scene.folder) as reader:
        assert reader.meta_json("fingerprints") == [{"engine": "fake"}, {"engine": "another"}]


def test_workers_with_several_engines_all_take_part_and_each_pair_is_warned_about_once(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path, "u")
    for name, engine in (("v", "vllm"), ("w", "vllm"), ("x", "other"), ("y", "fake")):
        request = registration(name, scene.run, fingerprint=f'{{"engine": "{engine}"}}')
        scene.coordinator.register(request, 0.0)
        assert name in scene.coordinator.workers
    warned = [note for note in scene.coordinator.status().notes if "may differ between workers" in note]
    assert len(warned) == 2
    assert warned[0].startswith(
        "worker v has another engine than the first worker (engine 'vllm', not 'fake')"
    )
    assert "engine 'other', not 'fake'" in warned[1]


def test_where_the_master_weights_lie_is_noted_once_for_all_workers_alike(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u")
    for name, where in (("v", "master weights: device"), ("w", "master weights: device"), ("x", "host")):
        request = registration(name, scene.run)
        request.placement = where
        scene.coordinator.register(request, 0.0)
    assert scene.events().count("MasterPlacement") == 2
    status = scene.coordinator.status()
    assert list(status.placements) == ["master weights: device", "host"]
    assert list(status.notes) == []  # it is no warning


def test_a_registration_that_finds_the_disk_full_can_be_repeated(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    with full_disk():
        with pytest.raises(StoreFullError):
            scene.coordinator.register(registration("w", scene.run), 0.0)
        assert scene.coordinator.run.progress.header is None
        assert scene.coordinator.status().phase == control_pb2.PHASE_PAUSED
        scene.coordinator.retry(0.0)
        assert scene.coordinator.run.paused is not None
    scene.coordinator.retry(0.0)
    assert scene.coordinator.run.paused is None
    assert scene.coordinator.register(registration("w", scene.run), 0.0).journal_header


# What to do ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["asked", "next_action", "report", "attest", "updates"])
def test_calls_meant_for_another_incarnation_are_refused_by_name(tmp_path: Path, call: str) -> None:
    scene = scene_of(tmp_path, "u")
    requests: dict[str, Any] = {
        "asked": wire.LeaseRequest(worker="u", incarnation=9),
        "next_action": wire.LeaseRequest(worker="u", incarnation=9),
        "report": wire.ReportRequest(worker="u", incarnation=9),
        "attest": wire.AttestRequest(worker="u", incarnation=9),
        "updates": wire.UpdatesRequest(worker="u", incarnation=9),
    }
    method = getattr(scene.coordinator, call)
    with pytest.raises(StaleError, match="incarnation 9 is over; this coordinator is incarnation 1"):
        method(requests[call]) if call == "updates" else method(requests[call], 0.0)


def test_a_worker_that_is_behind_applies_up_to_the_present(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    scene.to(2, u)
    action = v.ask(scene.coordinator, scene.clock())
    assert action is not None
    assert action.apply.up_to_iteration == 2


@pytest.mark.parametrize(("iteration", "row_hash"), [(7, b"x" * 32), (1, b"x" * 32), (0, b"")])
def test_a_worker_that_is_ahead_or_on_another_chain_rebuilds(
    tmp_path: Path, iteration: int, row_hash: bytes
) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    scene.to(2, u)
    v.iteration, v.weights = iteration, row_hash
    action = v.ask(scene.coordinator, scene.clock())
    assert action is not None
    assert "not on this run's chain, which has 2 iterations" in action.rebuild.reason


def test_a_worker_told_to_drain_gets_nothing_else(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u")
    scene.coordinator.drain("u")
    assert scene.workers[0].step(scene.coordinator, scene.clock()) == "drain"
    scene.coordinator.lost("u")
    scene.workers[0].register(scene.coordinator, scene.clock())
    assert scene.workers[0].step(scene.coordinator, scene.clock()) == "evaluate"


def test_looking_again_is_no_sign_of_life_and_gives_nothing_to_one_who_is_gone(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u")
    (u,) = scene.workers
    request = wire.LeaseRequest(worker="u", incarnation=1, weights=u.version())
    scene.coordinator.asked(request, 1000.0)
    scene.coordinator.next_action(request, 1007.0)
    assert scene.coordinator.workers.silent(1009.0) == ["u"]
    scene.coordinator.lost("u")
    assert scene.coordinator.next_action(request, 1009.0) is None
    assert scene.coordinator.next_speculation("u", 1009.0) is None
    assert not any(
        scene.coordinator.run.round.leases.holders(t) for t in scene.coordinator.run.round.leases.tasks
    )


def test_a_lost_workers_lease_goes_to_the_next_who_asks(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    first = scene.lease(u).evaluate
    scene.coordinator.lost("u")
    again = scene.lease(v).evaluate
    assert (again.evaluation_set, again.attempt) == (first.evaluation_set, 2)
    assert "WorkerLost" in scene.events()


# Reports -------------------------------------------------------------------------------------------


def test_a_report_for_a_committed_iteration_is_acknowledged_and_dropped(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v", evaluation_sets={}, data_digests={"train": "t"})
    u, v = scene.workers
    lease = scene.lease(u).evaluate
    scene.coordinator.lost("u")
    scene.to(1, v)
    assert not scene.coordinator.report(u.answer(lease), scene.clock())
    assert scene.iteration == 1


def test_a_report_that_does_not_fit_frees_its_lease_and_is_told(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", "v")
    u, v = scene.workers
    action = scene.lease(u)
    report = u.answer(action.evaluate)
    report.evaluate.passed = b""
    with pytest.raises(ReportError):
        scene.coordinator.report(report, scene.clock())
    assert scene.lease(v).evaluate.attempt == 2
    assert "ReportRefused" in scene.events()


def test_slices_that_do_not_cover_the_batch_end_the_run_with_the_reason(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", evaluation_sets={}, data_digests={"train": "t"})
    (u,) = scene.workers
    reports = []
    for _ in range(4):
        report = u.answer(scene.lease(u).evaluate)
        report.evaluate.positions[:] = [0, 1]
        report.evaluate.passed = report.evaluate.truncated = b"\x00"
        reports.append(report)
        if len(reports) < 4:
            scene.coordinator.report(report, scene.clock())
    with pytest.raises(CoverageError, match="member 0.*tokenizer"):
        scene.coordinator.report(reports[-1], scene.clock())
    assert scene.iteration == 0


def test_the_bytes_on_the_wire_are_recorded_with_the_iteration_they_led_to(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u")
    scene.coordinator.run.wire_bytes = 77
    scene.to(1)
    scene.coordinator.run.wire_bytes = 5
    scene.to(2)
    with RunReader.open(scene.folder) as reader:
        assert [it.beside["wire_bytes"] for it in reader.iterations()] == [77, 5]


def test_members_that_take_milliseconds_are_leased_and_reported_together(tmp_path: Path) -> None:
    changes = {"algorithm": settings(population_size=8), "evaluation_sets": {}}
    changes["data_digests"] = {"train": "train-digest"}
    scene = scene_of(tmp_path, "u", **changes)
    (worker,) = scene.workers
    worker.seconds = 0.01
    scene.to(1)
    action = scene.lease(worker)
    assert [lease.member for lease in (action.evaluate, *action.more)] == [0, 1, 2, 3]
    assert not action.more[0].problems, "the first lease tells the batch"
    assert worker.do(scene.coordinator, action, scene.clock())
    assert scene.coordinator.run.round.leases.done_count == 4
    scene.to(None)
    with RunReader.open(scene.folder) as reader:
        stored = list(reader.iterations())
    assert [it.row_hash for it in stored] == expected_hashes(scene.run)[0][1:]
    # Eight members one by one at first, then 4, 2, 1 and 1 together: the timings of a report count once.
    spent = [round(it.beside["seconds_by_part"]["generate"], 6) for it in stored[:2]]
    assert spent == [0.08, 0.04]
