"""What the coordinator answers, call by call."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dartes.state import RunFolder, RunReader
from dartes.v1 import control_pb2
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.errors import CoverageError, RefusedError, ReportError, StaleError
from dartes_coordinator.full_disk import StoreFullError
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.store import Store

from .kit import Clock, FakeWorker, expected_hashes, opened, plan, registration, run_until, settings
from .stored import empty_disk, fill_disk


class Scene:
    """A coordinator, a clock and registered workers."""

    def __init__(self, path: Path, run: RunPlan, *names: str) -> None:
        self.run, self.folder, self.clock = run, RunFolder(path), Clock()
        self.coordinator: Coordinator = opened(self.folder, run, self.clock)
        self.workers = [FakeWorker(name, run) for name in names]
        for worker in self.workers:
            worker.register(self.coordinator, self.clock())

    def to(self, iteration: int | None, *workers: FakeWorker) -> None:
        run_until(self.coordinator, list(workers or self.workers), self.clock, iteration)

    def lease(self, worker: FakeWorker) -> wire.LeaseResponse:
        """The next evaluation for a worker."""
        for _ in range(3):
            action = worker.ask(self.coordinator, self.clock())
            assert action is not None
            if action.HasField("evaluate"):
                return action
            worker.do(self.coordinator, action, self.clock())
        raise AssertionError("no lease")

    @property
    def iteration(self) -> int:
        return self.coordinator.run.progress.iteration

    def events(self) -> list[str]:
        """Reasons of all events so far."""
        self.coordinator.run.ledger.flush()
        with RunReader.open(self.folder) as reader:
            return [reason for _, reason, _ in reader.events()]


def scene_of(path: Path, *names: str, **changes: Any) -> Scene:
    return Scene(path, plan(**changes), *names)


@contextmanager
def full_disk() -> Iterator[None]:
    """Every commit finds the disk full, after it has written everything."""
    commit = Store.commit

    def refuse(self: Store, *args: Any, **values: Any) -> None:
        def full() -> None:
            raise StoreFullError("the disk is full")

        commit(self, *args, **(values | {"before_commit": full}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "commit", refuse)
        yield


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
    scene = scene_of(tmp_path, "u", "v", evaluation_sizes={}, data_digests={"train": "t"})
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
    scene = scene_of(tmp_path, "u", evaluation_sizes={}, data_digests={"train": "t"})
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


# Attesting -----------------------------------------------------------------------------------------


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


# A full disk ---------------------------------------------------------------------------------------


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
    scene = scene_of(tmp_path, "u", evaluation_sizes={}, data_digests={"train": "t"})
    (u,) = scene.workers
    scene.to(5)
    with full_disk():
        u.step(scene.coordinator, scene.clock())  # applies and attests
        assert scene.coordinator.run.paused is not None
        assert not scene.coordinator.done
    scene.coordinator.retry(scene.clock())
    assert scene.coordinator.done
    assert scene.events().count("Completed") == 1


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
    scene = scene_of(tmp_path, "u", evaluation_sizes={}, data_digests={"train": "t"})
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


def test_a_due_snapshot_is_written_before_the_run_is_done(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "u", snapshot_every=5, evaluation_sizes={}, data_digests={"train": "t"})
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
