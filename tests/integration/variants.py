"""Ways to disturb a run that may not change its result; tests and `bench/same_bits.py` play them.

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

from .harness import EngineHook, Hold, Run, held_run, run_to_end, with_changes, write_job
from .outcome import summary_of

KILLED: Final = "the coordinator was killed by SIGKILL"
FAULT_VARIABLE: Final = "DARTES_FAULT"
FAULT_POINTS: Final = ("before-report", "after-report", "inside-transaction", "after-commit")
LATER_SECONDS: Final = 0.1
PER_ITERATION: Final = frozenset({"inside-transaction", "after-commit"})


@dataclass(frozen=True)
class Stage:
    """Where variants are played: the job's spec, its engine, and an empty folder.

    `groups` is the number of generation groups that an undisturbed run answers in all.
    """

    spec: Mapping[str, Any]
    engine: EngineHook
    root: Path
    groups: int

    @property
    def early(self) -> int:
        """Groups per worker after which two workers are in the middle of the run."""
        return self.groups // 5

    @property
    def not_enough(self) -> int:
        """Groups per worker with which two workers come far, but never to the end."""
        return int(self.groups * 0.45)

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
        with held_run(job, folder, at=f"first:{stage.early}", engine=stage.engine) as (run, hold):
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
    """The coordinator killed so many times, at random moments spread over the first part of the run."""

    def play(stage: Stage, folder: Path) -> None:
        draw = random.Random(seed)
        job = stage.job(folder.name, failurePolicy={"coordinatorRestarts": times})
        # The run must not end before the last kill, so workers stop before its end until that is done.
        at = f"all:{stage.not_enough}"
        moments = sorted(draw.uniform(0.0, 0.5 * stage.spec["es"]["iterations"]) for _ in range(times))
        killed = 0
        with held_run(job, folder, at=at, engine=stage.engine) as (run, hold):
            for moment in moments:
                coordinator = next_coordinator(run, killed)
                wait_for_moment(run, hold, moment)
                wait_out(draw.uniform(0.0, LATER_SECONDS), coordinator)
                coordinator.kill()
                killed = coordinator.pid
            hold.open()
            output = run.must_end_with(0)
        assert output.count(KILLED) == times, output
        assert summary_of(folder)["incarnations"] == times + 1

    return Variant(f"the coordinator killed {times} times at random (seed {seed})", play)


def everything_killed() -> Variant:
    """Command, coordinator, workers and graders killed inside leases; then the same command once more."""

    def play(stage: Stage, folder: Path) -> None:
        job = stage.job(folder.name)
        with held_run(job, folder, at=f"all:{stage.early}", engine=stage.engine) as (run, hold):
            run.until(lambda: len(hold.pids()) == 2, "both workers in the middle of a lease")
            run.kill_everything()
        with RunReader.open(RunFolder(folder)) as reader:
            assert 0 < reader.iteration_count() < stage.spec["es"]["iterations"]
        run_to_end(job, folder, engine=stage.engine)

    return Variant("everything killed and resumed", play)


def next_coordinator(run: Run, before: int) -> psutil.Process:
    """Wait for a coordinator that listens and whose process id is not `before`."""

    def listening() -> psutil.Process | None:
        found = run.find("coordinator") if run.folder.endpoint.exists() else None
        return found if found is not None and found.pid != before else None

    return run.until(listening, "the next coordinator")


def wait_for_moment(run: Run, hold: Hold, moment: float) -> None:
    """Wait until the run has come so far, or can come no further because its workers are held."""
    run.until(lambda: len(hold.pids()) == 2 or progress(run) >= moment, f"the run's iteration {moment:.1f}")


def progress(run: Run) -> float:
    """Iterations that are committed or under way; 0 while nobody answers."""
    status = run.status()
    if status is None:
        return 0.0
    return status.iteration + (status.leases_done / status.leases_total if status.leases_total else 0.0)


def wait_out(seconds: float, process: psutil.Process) -> None:
    """Let a random while pass, so that the kill comes at a moment that nobody chose."""
    try:
        process.wait(seconds)
    except psutil.TimeoutExpired:
        return
    raise AssertionError("the coordinator ended by itself")
