"""The ways in which a run may be disturbed without its result changing; tests and `bench/same_bits.py` play them.

Each variant runs one job to its end in a fresh folder and asserts that the disturbance did happen. What came
out is compared elsewhere.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
from dartes.state import RunFolder, RunReader

from .harness import EngineHook, Run, held_run, run_to_end, summary_of, with_changes, write_job

KILLED: Final = "the coordinator was killed by SIGKILL"
FAULT_VARIABLE: Final = "DARTES_FAULT"
FAULT_POINTS: Final = ("before-report", "after-report", "inside-transaction", "after-commit")
PER_ITERATION: Final = frozenset({"inside-transaction", "after-commit"})


@dataclass(frozen=True)
class Stage:
    """Where variants are played: the job's spec, its engine, and an empty folder.

    `hold_at` is a number of generation groups after which a worker is in the middle of the run.
    """

    spec: Mapping[str, Any]
    engine: EngineHook
    root: Path
    hold_at: int
    random_kill_within: float = 2.0

    def job(self, name: str, **changes: Any) -> Path:
        """A job file with some fields changed."""
        return write_job(self.root / f"{name}.yaml", with_changes(self.spec, **changes))


@dataclass(frozen=True)
class Variant:
    """A named way to run the job of a stage in a folder."""

    name: str
    play: Callable[[Stage, Path], None] = field(repr=False)


def workers(count: int) -> Variant:
    """Undisturbed, with so many workers."""

    def play(stage: Stage, folder: Path) -> None:
        run_to_end(stage.job(folder.name), folder, "--workers", str(count), engine=stage.engine)

    return Variant(f"{count} workers" if count > 1 else "1 worker", play)


def slices(count: int) -> Variant:
    """Every member cut into so many slices."""

    def play(stage: Stage, folder: Path) -> None:
        run_to_end(stage.job(folder.name, es__slicesPerMember=count), folder, engine=stage.engine)

    return Variant(f"{count} slices per member", play)


def worker_killed() -> Variant:
    """A worker killed while it holds a lease; its work goes to others, and it is started again."""

    def play(stage: Stage, folder: Path) -> None:
        job = stage.job(folder.name)
        with held_run(job, folder, at=f"first:{stage.hold_at}", engine=stage.engine) as (run, hold):
            (pid,) = run.until(hold.pids, "a worker in the middle of a lease")
            psutil.Process(pid).kill()
            output = run.must_end_with(0)
        assert "was killed by SIGKILL" in output, output
        with RunReader.open(RunFolder(folder)) as reader:
            taken_over = sum(it.beside["reissued"] + it.beside["speculated"] for it in reader.iterations())
        assert taken_over >= 1, "nobody took over the lease of the killed worker"

    return Variant("a worker killed in the middle of a lease", play)


def coordinator_killed_at(*points: str, seed: int) -> Variant:
    """The coordinator kills itself once at each of the points, one after the other, seeded."""

    def play(stage: Stage, folder: Path) -> None:
        draw = random.Random(seed)
        # A later incarnation has less of the run left, so it must not wait for many iterations.
        counts = [draw.randint(1, 2 if point in PER_ITERATION else 8) for point in points]
        plan = ",".join(
            f"{point}:{count}@{incarnation}"
            for incarnation, (point, count) in enumerate(zip(points, counts, strict=True), start=1)
        )
        output = run_to_end(
            stage.job(folder.name), folder, engine=stage.engine, environment={FAULT_VARIABLE: plan}
        )
        assert output.count(KILLED) == len(points), f"{plan}\n{output}"
        assert summary_of(folder)["incarnations"] == len(points) + 1

    what = points[0] if len(points) == 1 else f"{len(points)} fault points"
    return Variant(f"the coordinator killed at {what} (seed {seed})", play)


def coordinator_killed_at_random(times: int, seed: int) -> Variant:
    """The coordinator killed so many times, each a random moment after it began to listen."""

    def play(stage: Stage, folder: Path) -> None:
        draw = random.Random(seed)
        job = stage.job(folder.name, failurePolicy={"coordinatorRestarts": times})
        last = None
        with Run(job, folder, engine=stage.engine) as run:
            for _ in range(times):

                def newer(last: int | None = last) -> psutil.Process | None:
                    found = run.find("coordinator")
                    return found if found is not None and found.pid != last and run.folder.endpoint.exists() else None

                coordinator = run.until(newer, "the next coordinator")
                last = coordinator.pid
                wait_out(draw.uniform(0.0, stage.random_kill_within), coordinator)
                coordinator.kill()
            output = run.must_end_with(0)
        assert output.count(KILLED) == times, output

    return Variant(f"the coordinator killed {times} times at random (seed {seed})", play)


def everything_killed() -> Variant:
    """Command, coordinator, workers and graders killed inside leases; then the same command once more."""

    def play(stage: Stage, folder: Path) -> None:
        job = stage.job(folder.name)
        with held_run(job, folder, at=f"all:{stage.hold_at}", engine=stage.engine) as (run, hold):
            run.until(lambda: len(hold.pids()) == 2, "both workers in the middle of a lease")
            run.kill_everything()
        with RunReader.open(RunFolder(folder)) as reader:
            assert 0 < reader.iteration_count() < stage.spec["es"]["iterations"]
        run_to_end(job, folder, engine=stage.engine)

    return Variant("everything killed and resumed", play)


def wait_out(seconds: float, process: psutil.Process) -> None:
    """Let a random while pass: a kill at a moment that nobody chose is the point; ends with the process."""
    try:
        process.wait(seconds)
    except psutil.TimeoutExpired:
        return
    raise AssertionError("the run ended before the coordinator was killed as often as planned")


__all__ = [
    "FAULT_POINTS",
    "Stage",
    "Variant",
    "coordinator_killed_at",
    "coordinator_killed_at_random",
    "everything_killed",
    "slices",
    "worker_killed",
    "workers",
]
