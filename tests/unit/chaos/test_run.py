"""The order of a run in a cluster that does what the test says: when it looks, and how often it tells."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import RLock
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.chaos import run as module
from tests.chaos.acts import Act
from tests.chaos.budgets import Story
from tests.chaos.invariants import EXPECTED_KINDS, Truth
from tests.chaos.log_lines import Line, Windows
from tests.chaos.pods import Lives
from tests.chaos.report import Result
from tests.chaos.run import Run, tidy_seconds
from tests.chaos.schedule import LULL_EVERY, Step
from tests.chaos.specs import ITERATIONS, LAYOUT
from tests.chaos.victims import Injected
from tests.chaos.world import Round

ROWS = tuple(f"row {number}" for number in range(ITERATIONS))
TRUTH = Truth(ROWS, "journal", "weights")


def pod(job: str, role: str, index: int) -> dict[str, Any]:
    labels = {"dartes.dev/job-uid": f"{job}-uid", "dartes.dev/role": role}
    metadata = {"name": f"{job}-{role}-{index}", "labels": labels, "ownerReferences": owner(job)}
    ready = [{"type": "Ready", "status": "True"}]
    return {"kind": "Pod", "metadata": metadata, "status": {"phase": "Running", "conditions": ready}}


def owner(job: str) -> list[dict[str, Any]]:
    return [{"uid": f"{job}-uid", "controller": True}]


@dataclass
class FakeJob:
    name: str
    status: dict[str, Any] = field(default_factory=lambda: {"phase": "Running"})
    workers: int = 2

    def pods(self, role: str) -> list[dict[str, Any]]:
        return [pod(self.name, role, n) for n in range(self.workers if role == "worker" else 1)]

    def get(self) -> dict[str, Any]:
        return {
            "metadata": {"name": self.name, "namespace": "ns", "uid": f"{self.name}-uid"},
            "status": self.status,
        }

    def describe(self) -> str:
        return f"all about {self.name}"


@dataclass
class FakeObserver:
    lock: Any = field(default_factory=RLock)
    lives: Lives = field(default_factory=Lives)
    stories: dict[str, Story] = field(default_factory=dict)

    def blind(self) -> list[str]:
        return []

    def settled(self, story: Story) -> int:
        return len(story.writes)


class FakeLogs:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.count = 0

    def blind(self) -> list[str]:
        return []

    def take(self) -> list[Line]:
        lines, self.lines = self.lines, []
        return lines


class FakeWorld:
    """Three jobs that commit one row whenever they are asked."""

    def __init__(self) -> None:
        self.observer, self.logs = FakeObserver(), FakeLogs()
        self.truths = dict.fromkeys(LAYOUT.jobs, TRUTH)
        self.rounds = {name: Round(1, f"{name}-uid") for name in LAYOUT.jobs}
        self.jobs = {name: FakeJob(name) for name in LAYOUT.jobs}
        self.done = dict.fromkeys(LAYOUT.jobs, 0)
        self.stuck: set[str] = set()
        self.let_gone: list[str] = []
        self.extra: list[dict[str, Any]] = []
        for name in LAYOUT.jobs:
            self.observer.stories[f"{name}-uid"] = Story(f"{name}-uid", name, "ns")

    def live_names(self) -> list[str]:
        return list(LAYOUT.jobs)

    def job(self, name: str) -> FakeJob:
        return self.jobs[name]

    def rows(self, name: str) -> list[str]:
        if name not in self.stuck:
            self.done[name] = min(self.done[name] + 1, ITERATIONS - 1)
        return list(ROWS[: self.done[name]])

    def let_go(self, name: str) -> None:
        self.let_gone.append(name)
        self.jobs[name].status = {"phase": "Running"}

    def make_room(self) -> list[str]:
        return []

    def operator_pods(self) -> list[dict[str, Any]]:
        return []

    def objects(self) -> list[dict[str, Any]]:
        found = list(self.extra)
        for name, job in self.jobs.items():
            found += [*job.pods("coordinator"), *job.pods("worker")]
            for kind, count in EXPECTED_KINDS.items():
                for number in range(count):
                    metadata = {
                        "name": f"{name}-{kind}-{number}",
                        "labels": {"dartes.dev/job-uid": f"{name}-uid"},
                        "ownerReferences": owner(name),
                    }
                    found.append({"kind": kind, "metadata": metadata})
        return found


class FakeInjector:
    def __init__(self) -> None:
        self.killed: set[str] = set()
        self.platform = SimpleNamespace(operator_kills={}, kubelet_stops=[])
        self.trace: list[str] = []
        self.then: Callable[[Step], None] = lambda _: None

    def do(self, step: Step) -> Injected:
        self.trace.append(f"do {step.number}")
        self.then(step)
        end = None if step.until is None else lambda: self.trace.append(f"end {step.number}")
        return Injected("something", end)


def step(number: int, act: Act = Act.SCALED, until: int | None = None) -> Step:
    return Step(number, act, "red", 0, until, 0.0)


class Played:
    def __init__(self, folder: Path, *steps: Step) -> None:
        self.world, self.injector = FakeWorld(), FakeInjector()
        self.result = Result(1, len(steps), tuple(Act))
        self.told: list[str] = []
        self.evidence = folder / "evidence"
        self.run = Run(
            cast("Any", self.world),
            cast("Any", self.injector),
            steps,
            self.result,
            self.told.append,
            self.evidence,
            rest_seconds=0.05,
        )

    @property
    def found(self) -> list[str]:
        """What was wrong before the ends, which these jobs never reach."""
        self.result.ends = None
        return self.result.violations


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_SECONDS", "SETTLING_SECONDS"):
        monkeypatch.setattr(module, name, 0.0)
    monkeypatch.setattr(module, "END_SECONDS", 0.05)


def test_what_lasts_ends_before_its_step_and_all_of_it_at_rest(tmp_path: Path) -> None:
    steps = [step(1, until=3), step(2, until=9), *map(step, range(3, LULL_EVERY + 2))]
    played = Played(tmp_path, *steps)
    played.run.go()
    trace = played.injector.trace
    assert trace.index("end 1") == trace.index("do 3") - 1
    assert trace.index("end 2") == trace.index("do 9") - 1
    assert [lull.after_step for lull in played.result.lulls] == [0, LULL_EVERY, LULL_EVERY + 1]


def test_what_would_last_beyond_a_lull_ends_with_it(tmp_path: Path) -> None:
    last = step(LULL_EVERY, until=LULL_EVERY + 1)
    played = Played(tmp_path, *map(step, range(1, LULL_EVERY)), last, step(LULL_EVERY + 1))
    played.run.go()
    trace = played.injector.trace
    assert trace.index(f"end {LULL_EVERY}") < trace.index(f"do {LULL_EVERY + 1}")


def test_everything_ends_with_the_last_step(tmp_path: Path) -> None:
    played = Played(tmp_path, step(1, until=9), step(2))
    played.run.go()
    assert played.injector.trace == ["do 1", "do 2", "end 1"]


def test_a_run_that_is_left_ends_what_lasts_though_one_of_it_can_not_be_ended(tmp_path: Path) -> None:
    played = Played(tmp_path)
    ended = []

    def fails() -> None:
        raise OSError("nobody there")

    for end in (fails, lambda: ended.append("the other")):
        played.run._lasting.append(module.Lasting(9, end, 0))
    played.run.heal()
    assert ended == ["the other"]
    assert played.told == ["could not be ended: OSError: nobody there"]


def test_a_violation_is_told_once_and_evidence_is_kept(tmp_path: Path) -> None:
    played = Played(tmp_path, step(1), step(2))
    played.injector.then = lambda _: played.world.observer.lives.violations.append("double child: x")
    played.run.go()
    assert played.found == ["step 1: double child: x"]
    (kept,) = played.evidence.iterdir()
    assert "all about red" in kept.read_text(encoding="utf-8")


def test_an_error_in_a_log_is_told_unless_the_act_under_way_explains_it(tmp_path: Path) -> None:
    played = Played(tmp_path, step(1, Act.API_FAULT), step(2, Act.SCALED))

    def speak(now: Step) -> None:
        words = "listing fails, nothing is done until it works" if now.number == 1 else "a bug"
        played.world.logs.lines.append(Line("operator", "pod", datetime.now(UTC), "ERROR", "x", words))

    played.injector.then = speak
    played.run.go()
    assert len(played.found) == 1
    assert "a bug" in played.found[0]
    assert played.result.tally.errors_expected == 1


def test_a_job_that_does_not_go_on_is_told_with_what_it_lacks(tmp_path: Path) -> None:
    played = Played(tmp_path, step(1))
    played.world.stuck.add("green")
    played.run.await_rest(0)
    (found,) = played.result.violations
    assert "green: not at rest" in found


def test_a_job_without_all_its_workers_is_not_at_rest(tmp_path: Path) -> None:
    played = Played(tmp_path, step(1))
    played.world.jobs["red"].workers = 1
    played.run.await_rest(0)
    late, inventory = played.result.violations
    assert "red: not at rest" in late
    assert "1 worker pods of 2" in late
    assert "1 worker pods live, not 2" in inventory


def test_what_is_left_over_is_told_at_rest(tmp_path: Path) -> None:
    played = Played(tmp_path, step(1))
    labels = {"dartes.dev/job-uid": "red-uid"}
    played.world.extra = [
        {"kind": "ConfigMap", "metadata": {"name": "old", "labels": labels, "ownerReferences": owner("red")}}
    ]
    played.run.await_rest(0)
    assert any("2 objects of kind ConfigMap" in found for found in played.result.violations)


def test_a_complete_job_is_compared_counted_and_let_go(tmp_path: Path) -> None:
    played = Played(tmp_path, step(1))
    checkpoint = {"lastIteration": ITERATIONS, "journalHash": "journal", "digest": "other weights"}
    played.world.jobs["red"].status = {
        "phase": "Succeeded",
        "conditions": [{"type": "Complete", "status": "True"}],
        "checkpoint": checkpoint,
    }
    played.run.await_rest(0)
    assert played.world.let_gone == ["red"]
    assert played.result.tally.rounds == {"red": 1}
    (found,) = played.result.violations
    assert "digest is 'other weights' at the end" in found


def test_a_history_that_differs_is_told(tmp_path: Path) -> None:
    played = Played(tmp_path, step(1))
    played.world.truths["blue"] = Truth(("another", *ROWS[1:]), "journal", "weights")
    played.run.await_rest(0)
    assert any("blue: row 0" in found for found in played.result.violations)


def test_no_step_begins_after_the_time_is_up(tmp_path: Path) -> None:
    played = Played(tmp_path, *map(step, range(1, 50)))
    played.run.most_seconds = -1.0
    played.run.go()
    assert played.injector.trace == []
    assert played.result.planned == 0


def test_jobs_that_do_not_come_to_their_ends_are_told(tmp_path: Path) -> None:
    played = Played(tmp_path, step(1))
    played.run.go()
    assert played.result.ends is not None
    assert len(played.result.ends.violations) == len(LAYOUT.jobs)
    assert not played.result.passed


def test_committed_rows_that_are_gone_are_told_at_rest(tmp_path: Path) -> None:
    played = Played(tmp_path, step(1))
    played.world.rounds["red"].known_rows = ITERATIONS
    played.run.await_rest(0)
    (found,) = played.result.violations
    assert f"red: {ITERATIONS} iterations were committed" in found


@pytest.mark.parametrize(
    ("act", "seconds_ago", "seconds"),
    [(Act.API_FAULT, 0, 120), (Act.API_FAULT, 119, 120), (Act.API_FAULT, 121, 30), (Act.SUSPENDED, 0, 30)],
)
def test_what_a_silent_watch_may_keep_back_is_waited_for_longer(
    act: Act, seconds_ago: int, seconds: int
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    windows = Windows()
    number = windows.begin(act, now - timedelta(seconds=200))
    windows.end(number, now - timedelta(seconds=seconds_ago))
    assert tidy_seconds(windows, now) == seconds
