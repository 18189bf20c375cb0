"""The core promise without gRPC and without a model: whatever happens on the way, the same run comes out.

Workers are fakes whose answers follow from the chain. They take turns in a seeded random order, get lost in
the middle of a lease, report late and twice; the coordinator is killed at any point and opened again.
"""

import random
from pathlib import Path

import pytest

from dartes.errors import DrainedError
from dartes.journal import read_journal
from dartes.state import RunFolder, RunReader
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.errors import StaleError
from dartes_coordinator.faults import FaultPlan, FaultPoint
from dartes_coordinator.loading import load_run
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.start import open_plan

from ..unit.coordinator.kit import (
    Clock,
    FakeWorker,
    expected_hashes,
    finished_folder,
    opened,
    plan,
    run_until,
    settings,
)

Outcome = tuple[list[bytes], str, list[tuple[int, bytes]]]
"""Row hashes, digest of the difficulty state, and iteration and bits of every evaluation."""

AT_COMMITS = {FaultPoint.INSIDE_TRANSACTION, FaultPoint.AFTER_COMMIT}


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it."""


def strike() -> None:
    raise Killed


class Chaos:
    """One run on a folder, with everything going wrong that a seed makes go wrong."""

    def __init__(self, folder: RunFolder, run: RunPlan, workers: int, seed: int, trouble: float) -> None:
        self.folder = folder
        self.run = run
        self.random = random.Random(seed)
        self.trouble = trouble
        self.clock = Clock()
        self.workers = [FakeWorker(f"w{i}", run) for i in range(workers)]
        self.working: dict[str, wire.LeaseResponse] = {}
        self.late: list[wire.ReportRequest] = []
        self.restarts = 0
        self.coordinator: Coordinator | None = None

    def to_end(self) -> None:
        """Run until nothing is left to do."""
        for _ in range(20_000):
            try:
                if self.coordinator is None and not self.open():
                    return
                self.turn()
            except Killed:
                self.kill()
        raise AssertionError("the run does not end")

    def open(self) -> bool:
        def faults(_: int) -> FaultPlan:
            if self.random.random() > 4 * self.trouble:
                return FaultPlan()
            point = self.random.choice(list(FaultPoint))
            count = self.random.randint(1, 3 if point in AT_COMMITS else 20)
            return FaultPlan({point: frozenset({count})}, strike)

        self.coordinator = open_plan(self.folder, self.run, self.clock, faults)
        return self.coordinator is not None

    def kill(self) -> None:
        assert self.coordinator is not None
        self.coordinator.close()
        self.coordinator = None
        self.restarts += 1

    def turn(self) -> None:
        coordinator = self.coordinator
        assert coordinator is not None
        worker = self.random.choice(self.workers)
        now = self.clock.pass_by(self.random.choice([0.01, 0.1, 1.0]))
        if self.random.random() < self.trouble:
            self.something_happens(coordinator, worker)
            return
        try:
            if worker.incarnation != coordinator.incarnation:
                self.working.pop(worker.name, None)
                worker.register(coordinator, now)
            elif worker.name in self.working:
                action = self.working.pop(worker.name)
                worker.do(coordinator, action, now)
                if action.HasField("evaluate"):
                    self.late.append(worker.answer(action.evaluate))
            else:
                found = worker.ask(coordinator, now)
                if found is not None:
                    self.working[worker.name] = found
        except StaleError:
            worker.register(coordinator, now)
        if coordinator.done and self.random.random() < 0.2:
            self.kill()

    def something_happens(self, coordinator: Coordinator, worker: FakeWorker) -> None:
        what = self.random.choice(["killed", "lost", "restarted", "late"])
        if what == "killed":
            self.kill()
        elif what == "lost":
            coordinator.lost(worker.name)  # and the worker does not notice
        elif what == "restarted":
            self.working.pop(worker.name, None)
            worker.incarnation, worker.weights, worker.batch = 0, b"", None
        elif self.late:
            report = self.random.choice(self.late)
            if report.incarnation == coordinator.incarnation:
                assert not coordinator.report(report, self.clock())


def outcome(folder: RunFolder, run: RunPlan) -> Outcome:
    """What a folder holds, recomputed from its bits."""
    progress = load_run(folder, run).progress
    bits = [(e.iteration, e.passed.tobytes()) for e in progress.evaluations]
    return progress.hashes, progress.state.digest(), bits


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """An undisturbed run by one worker without slices."""
    folder = finished_folder(tmp_path_factory.mktemp("reference") / "run", plan())
    return outcome(folder, plan())


def test_an_undisturbed_run_is_what_the_algorithm_says(
    reference: Outcome,
) -> None:
    hashes, state = expected_hashes(plan())
    assert reference[:2] == (hashes, state)
    assert [iteration for iteration, _ in reference[2]] == [0, 2, 4, 5]


@pytest.mark.parametrize(("workers", "slices"), [(1, 4), (2, 3), (3, 1), (4, 2)])
def test_workers_and_slices_change_nothing(
    tmp_path: Path,
    reference: Outcome,
    workers: int,
    slices: int,
) -> None:
    run = plan(slices_per_member=slices)
    chaos = Chaos(RunFolder(tmp_path), run, workers, seed=workers, trouble=0.0)
    chaos.to_end()
    assert outcome(chaos.folder, run) == reference


@pytest.mark.parametrize("seed", range(8))
def test_losses_late_reports_and_kills_at_any_point_change_nothing(
    tmp_path: Path, reference: Outcome, seed: int
) -> None:
    run = plan(slices_per_member=1 + seed % 4, snapshot_every=2)
    chaos = Chaos(RunFolder(tmp_path), run, 1 + seed % 3, seed, trouble=0.05)
    chaos.to_end()
    assert outcome(chaos.folder, run) == reference
    journal = read_journal(chaos.folder.journal)
    assert [journal.header.hash(), *journal.hashes] == reference[0]
    assert len(chaos.folder.metrics.read_text().splitlines()) == 5
    with RunReader.open(chaos.folder) as reader:
        assert reader.meta_text("status") == "done"
        assert [s.iteration for s in reader.snapshots()] == [2, 4]


def test_chaos_really_restarts_the_coordinator(tmp_path: Path) -> None:
    chaos = Chaos(RunFolder(tmp_path), plan(), 2, seed=3, trouble=0.05)
    chaos.to_end()
    assert chaos.restarts >= 3


@pytest.mark.parametrize("point", FaultPoint)
@pytest.mark.parametrize("count", [1, 4])
def test_a_kill_at_each_fault_point_loses_at_most_the_iteration_under_way(
    tmp_path: Path,
    reference: Outcome,
    point: FaultPoint,
    count: int,
) -> None:
    run, folder, clock = plan(), RunFolder(tmp_path), Clock()
    faults = FaultPlan({point: frozenset({count})}, strike)
    coordinator = opened(folder, run, clock, faults)
    worker = FakeWorker("w", run)
    worker.register(coordinator, clock())
    with pytest.raises(Killed):
        run_until(coordinator, [worker], clock)
    before = coordinator.run.progress.iteration
    coordinator.close()
    again = opened(folder, run, clock)
    committed = again.run.progress.iteration
    # Memory lags behind the store only where the kill came right after the commit.
    assert committed == before + (point is FaultPoint.AFTER_COMMIT)
    worker.register(again, clock())
    run_until(again, [worker], clock)
    again.close()
    assert outcome(folder, run) == reference


def test_epochs_end_a_run_too(tmp_path: Path) -> None:
    run = plan(settings(epochs=1))
    folder = finished_folder(tmp_path, run)
    assert outcome(folder, run)[:2] == expected_hashes(run)


def test_antithetic_pairs_and_their_signs_survive_the_store(tmp_path: Path) -> None:
    run = plan(settings(antithetic=True))
    folder = finished_folder(tmp_path, run)
    assert outcome(folder, run)[:2] == expected_hashes(run)


def test_a_coordinator_that_was_replaced_commits_nothing_more(tmp_path: Path, reference: Outcome) -> None:
    run, folder, clock = plan(), RunFolder(tmp_path), Clock()
    old = opened(folder, run, clock)
    worker, other = FakeWorker("w", run), FakeWorker("x", run)
    worker.register(old, clock())
    run_until(old, [worker], clock, 2)
    new = opened(folder, run, clock)
    with pytest.raises(DrainedError, match="taken over"):
        run_until(old, [worker], clock, 3)
    old.close()
    other.register(new, clock())
    run_until(new, [other], clock)
    new.close()
    assert outcome(folder, run) == reference
