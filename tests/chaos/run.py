"""One run: step after step, a look at everything after each, and all at rest after every fifteenth.

The order of things is decided here and by the schedule; what is right is decided by the pure modules.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from subprocess import SubprocessError

from kubernetes.client.exceptions import ApiException

from tests.cluster.held import CommandFailedError

from .acts import Act
from .budgets import charged_in_all, check_writes, is_strike, uncounted, unexplained_ends
from .injections import Injector
from .invariants import is_ready, orphans, wrong_end, wrong_history, wrong_inventory, wrong_operator
from .log_lines import WATCH_SECONDS, Windows, explanation, unexpected
from .observer import SETTLING_SECONDS, Trouble
from .report import Done, Lull, Result, line_of
from .schedule import Step, is_lull
from .specs import ITERATIONS, LAYOUT, WORKERS
from .world import World, patient

REST_SECONDS = 300.0
"""So long all jobs may take to go on after everything has been healed; a lost node takes most of it."""
TIDY_SECONDS = 30.0
"""So long what has just happened may take to be accounted for, where the operator hears of it."""
END_SECONDS = 600.0
LOOK_SECONDS = 0.5


def tidy_seconds(windows: Windows, now: datetime) -> float:
    """How long to wait until everything is in order: an operator whose watch is silent hears of nothing."""
    lately = windows.covers({Act.API_FAULT}, now, WATCH_SECONDS)
    return WATCH_SECONDS if lately else TIDY_SECONDS


@dataclass
class Lasting:
    """An act under way: how it is ended, before which step, and its place among the windows."""

    until: int
    end: Callable[[], None]
    window: int


@dataclass
class Run:
    """The state of a run. `say` takes what is told while it goes on."""

    world: World
    injector: Injector
    schedule: Sequence[Step]
    result: Result
    say: Callable[[str], None]
    evidence: Path
    most_seconds: float | None = None
    rest_seconds: float = REST_SECONDS
    windows: Windows = field(default_factory=Windows)
    _lasting: list[Lasting] = field(default_factory=list)
    _orphans: dict[str, float] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _began: float = field(default_factory=time.monotonic)

    def go(self) -> None:
        """All steps, then the jobs' ends."""
        self.await_rest(0)
        last = self.schedule[-1].number
        for step in self.schedule:
            late = self.most_seconds is not None and self._seconds() > self.most_seconds
            if late:
                self.result.planned = step.number - 1
                break
            self._step(step)
            if is_lull(step.number, last):
                self.await_rest(step.number)
        self._end_lasting()
        self._await_ends(self.result.steps[-1].step.number if self.result.steps else 0)

    def _step(self, step: Step) -> None:
        self._end_lasting(step.number)
        at = self._seconds()
        window = self.windows.begin(step.act, datetime.now(UTC))
        injected = self.injector.do(step)
        if injected.end is not None and step.until is not None:
            self._lasting.append(Lasting(step.until, injected.end, window))
        else:
            self.windows.end(window, datetime.now(UTC))
        time.sleep(step.pause_seconds)
        done = Done(step, at, injected.on, tuple(self._new(self._look())))
        self.result.steps.append(done)
        self.result.seconds = self._seconds()
        self.say(line_of(done, self.result.planned))

    def _end_lasting(self, number: int | None = None) -> None:
        """End what is to be over before a step; without one, everything."""
        due = [each for each in self._lasting if number is None or each.until <= number]
        self._lasting = [each for each in self._lasting if each not in due]
        for each in due:
            each.end()
            self.windows.end(each.window, datetime.now(UTC))

    def heal(self) -> None:
        """End all that lasts, whatever has happened: one that can't be ended keeps no other from it."""
        lasting, self._lasting = self._lasting, []
        for each in lasting:
            try:
                each.end()
            except (*Trouble, ApiException, CommandFailedError, SubprocessError) as error:
                self.say(f"could not be ended: {type(error).__name__}: {error}")

    # Looking ---------------------------------------------------------------------------------------

    def _look(self) -> Iterator[str]:
        """What is wrong now, whatever is under way."""
        world, observer = self.world, self.world.observer
        yield from self._rounds()
        yield from observer.blind()
        yield from world.logs.blind()
        with observer.lock:
            yield from observer.lives.violations
            observer.lives.violations.clear()
            for story in observer.stories.values():
                yield from check_writes(story, observer.lives, observer.settled(story))
                yield from unexplained_ends(
                    story,
                    observer.lives,
                    self.injector.killed,
                    self.injector.platform.kubelet_stops,
                    self.windows,
                )
        for name in world.live_names():
            yield from self._history(name)
        lines = world.logs.take()
        yield from unexpected(lines, self.windows)
        explained = (line for line in lines if line.is_error and explanation(line, self.windows))
        self.result.tally.errors_expected += sum(1 for _ in explained)
        yield from wrong_operator(world.operator_pods(), self.injector.platform.operator_kills)
        jobs = {round_.uid for round_ in world.rounds.values()}
        found, self._orphans = orphans(world.objects(), jobs, self._orphans, time.monotonic())
        yield from found

    def _rounds(self) -> Iterator[str]:
        """Compare what has come to its end, and begin anew what has left."""
        world = self.world
        for name in world.live_names():
            status = patient(lambda n=name: world.job(n).status)  # type: ignore[misc]
            complete = [c for c in status.get("conditions", []) if c["type"] == "Complete"]
            if complete and complete[0]["status"] == "True":
                yield from wrong_end(name, status, world.truths[name])
                yield from self._history(name)
                rounds = self.result.tally.rounds
                rounds[name] = rounds.get(name, 0) + 1
                world.let_go(name)
        yield from world.make_room()

    def _history(self, name: str) -> Iterator[str]:
        round_, truth = self.world.rounds[name], self.world.truths[name]
        rows = self.world.rows(name)
        # A coordinator that starts writes the file anew from its store, so what is missing may yet come.
        yield from wrong_history(name, rows, truth, known=0)
        self.result.tally.iterations += max(0, len(rows) - round_.known_rows)
        round_.known_rows = max(round_.known_rows, len(rows))

    def _new(self, found: Iterator[str]) -> Iterator[str]:
        """What has not been told before; what there was at that time is kept, to look for the cause."""
        new = [words for words in found if words not in self._told]
        self._told.update(new)
        if new:
            self._keep_evidence(new)
        yield from new

    def _keep_evidence(self, found: Sequence[str]) -> None:
        jobs = [patient(self.world.job(name).describe) for name in LAYOUT.jobs]
        at = f"{self._seconds():.0f}"
        self.evidence.mkdir(parents=True, exist_ok=True)
        (self.evidence / f"at-{at}-seconds.txt").write_text("\n\n".join([*found, *jobs]), encoding="utf-8")

    # Rest ------------------------------------------------------------------------------------------

    def await_rest(self, number: int) -> None:
        """Heal everything, wait until each job goes on with all its pods, and look at all that is there."""
        began = time.monotonic()
        self._end_lasting()
        found: list[str] = []
        waited = {name: self._reached(name, began) for name in LAYOUT.jobs}
        waiting = dict.fromkeys(LAYOUT.jobs, "")
        while waiting and time.monotonic() < began + self.rest_seconds:
            found += self._new(self._look())
            for name in list(waiting):
                waiting[name] = waited[name]()
                if not waiting[name]:
                    del waiting[name]
            time.sleep(LOOK_SECONDS)
        seconds = time.monotonic() - began
        late = [
            f"{name}: not at rest after {self.rest_seconds:.0f} s: {why}" for name, why in waiting.items()
        ]
        found += self._new(iter(late))
        time.sleep(SETTLING_SECONDS)
        found += self._new(self._at_rest())
        lull = Lull(number, round(seconds, 1), tuple(found))
        self.result.lulls.append(lull)
        self.result.seconds = self._seconds()
        self.say(
            "\n".join(
                [f"{'':>9} at rest in {seconds:.0f} s", *(f"       VIOLATION {each}" for each in found)]
            )
        )

    def _reached(self, name: str, since: float) -> Callable[[], str]:
        """Asks what a job still lacks: all pods ready, and a row more than when it was asked first."""
        world = self.world
        start: dict[str, int] = {}
        rounds_before = self.result.tally.rounds.get(name, 0)

        def lacks() -> str:
            if self.result.tally.rounds.get(name, 0) > rounds_before:
                return ""
            round_ = world.rounds[name]
            if round_.going_since is not None:
                return "it is being deleted"
            rows = len(world.rows(name))
            begun = start.setdefault(round_.uid, rows)
            if rows <= begun < ITERATIONS:
                return f"{rows} rows, as {time.monotonic() - since:.0f} s ago"
            job = world.job(name)
            for role, count in (("coordinator", 1), ("worker", WORKERS)):
                pods = patient(lambda r=role: job.pods(r))  # type: ignore[misc]
                ready = sum(is_ready(pod) for pod in pods)
                if ready != count:
                    return f"{ready} {role} pods of {count} are ready"
            return ""

        return lacks

    def _at_rest(self) -> Iterator[str]:
        """What must hold when nothing is under way; a coordinator that strikes just now is let come back."""
        yield from self._look()
        deadline = time.monotonic() + min(tidy_seconds(self.windows, datetime.now(UTC)), self.rest_seconds)
        while (wrong := list(self._untidy())) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        yield from wrong

    def _untidy(self) -> Iterator[str]:
        world, observer = self.world, self.world.observer
        objects = world.objects()
        for name in world.live_names():
            known = world.rounds[name].known_rows
            yield from wrong_history(name, world.rows(name), world.truths[name], known)
            with observer.lock:
                story = observer.stories.get(world.rounds[name].uid)
                if story is not None:
                    yield from uncounted(story, observer.lives)
            job = patient(world.job(name).get)
            if (job.get("status") or {}).get("phase") == "Running" and len(world.rows(name)) < ITERATIONS:
                yield from wrong_inventory(job, objects, WORKERS)

    def _await_ends(self, number: int) -> None:
        """Let each job come to its end once more."""
        self.say("          all jobs run to their ends")
        rounds = self.result.tally.rounds
        before = dict(rounds)
        began = time.monotonic()
        found: list[str] = []
        waiting = set(LAYOUT.jobs)
        while waiting and time.monotonic() < began + END_SECONDS:
            found += self._new(self._look())
            waiting = {name for name in LAYOUT.jobs if rounds.get(name, 0) <= before.get(name, 0)}
            time.sleep(LOOK_SECONDS)
        found += [f"{name}: not complete after {END_SECONDS:.0f} s without disturbances" for name in waiting]
        self.result.ends = Lull(number, round(time.monotonic() - began, 1), tuple(found))
        self.say("\n".join(f"       VIOLATION {each}" for each in found))

    def count(self) -> None:
        """Add up what the jobs went through."""
        tally, observer = self.result.tally, self.world.observer
        with observer.lock:
            stories, lives = list(observer.stories.values()), observer.lives
            charged = charged_in_all(stories)
            tally.pods = sum(1 for life in lives.by_uid.values() if life.job_uid)
            tally.strikes = sum(
                life.failed_by_itself and is_strike(life) and life.uid not in self.injector.killed
                for life in lives.by_uid.values()
            )
            tally.status_writes = sum(len(story.writes) for story in stories)
        tally.failures_injected = len(self.injector.killed)
        tally.failures_charged = charged["coordinator"] + charged["worker"]
        tally.disruptions_counted = charged["disruptions"]
        tally.deleted = sum(
            done.step.act is Act.JOB_DELETED and not done.missed for done in self.result.steps
        )
        tally.log_lines = self.world.logs.count
        tally.requests_struck = sum(self.world.proxy.struck.values())
        tally.faults_without_a_strike = self.injector.platform.idle_faults
        self.result.seconds = self._seconds()

    def _seconds(self) -> float:
        return time.monotonic() - self._began
