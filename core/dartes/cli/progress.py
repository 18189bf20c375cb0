"""Progress on a terminal as a bar, elsewhere as plain lines. Shows what it is given, and asks for nothing."""

import sys
from types import TracebackType
from typing import Protocol, Self

from dartes.cli.words import printable
from dartes.v1 import control_pb2 as wire


class Progress(Protocol):
    """Where a run's status goes."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def update(self, status: wire.StatusResponse) -> None:
        """Show the newest status."""

    def say(self, text: str) -> None:
        """Print a line that stays."""


def progress_for_terminal() -> Progress:
    """A bar where standard output is a terminal, plain lines elsewhere."""
    return Bar() if sys.stdout.isatty() else PlainLines()


class PlainLines:
    """One line per status with a new iteration, and per event; a log file of it reads well."""

    def __init__(self) -> None:
        self._shown = 0
        self._evaluated: set[tuple[int, str]] = set()
        self._noted: set[str] = set()
        self._phase = wire.PHASE_UNSPECIFIED

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def say(self, text: str) -> None:
        """Print a line."""
        print(printable(text), flush=True)  # noqa: T201 - this is the command's output

    def update(self, status: wire.StatusResponse) -> None:
        """Print what is new since the last status."""
        for line in [*new_notes(status, self._noted), *new_evaluations(status, self._evaluated)]:
            self.say(line)
        if status.phase != self._phase:
            self._phase = status.phase
            words = phase_words(status)
            if words:
                self.say(words)
        if status.iteration > self._shown:
            self._shown = status.iteration
            parts = [
                f"iteration {status.iteration}/{total_words(status)}",
                f"pass rate {status.train_pass_rate:.3f}",
                f"replay buffer {status.replay_buffer_size}",
                f"{status.tokens_per_second:,.0f} tokens/s",
                f"{duration(status.estimated_remaining_seconds)} left",
            ]
            self.say("  ".join(parts))


class Bar:
    """A live bar: iteration, pass rate, replay buffer, tokens per second, time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = Console()
        self._progress = Progress(
            TextColumn("{task.fields[where]}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("pass {task.fields[passes]}"),
            TextColumn("replay {task.fields[replay]}"),
            TextColumn("{task.fields[speed]} tok/s"),
            TextColumn("{task.fields[left]} left"),
            console=self._console,
            expand=True,
        )
        self._task = self._progress.add_task(
            "run", total=1.0, where="starting", passes="-", replay="-", speed="-", left="-"
        )
        self._evaluated: set[tuple[int, str]] = set()
        self._noted: set[str] = set()
        self._phase = wire.PHASE_UNSPECIFIED

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def update(self, status: wire.StatusResponse) -> None:
        """Move the bar; the leases of the iteration under way count as fractions of it."""
        for line in [*new_notes(status, self._noted), *new_evaluations(status, self._evaluated)]:
            self.say(line)
        words = phase_words(status)
        if status.phase != self._phase:
            self._phase = status.phase
            if status.phase == wire.PHASE_PAUSED:
                self.say(words)
        part = status.leases_done / status.leases_total if status.leases_total else 0.0
        running = status.iteration > 0 or status.leases_done > 0
        self._progress.update(
            self._task,
            total=max(1, status.total_iterations),
            completed=min(status.total_iterations, status.iteration + part),
            where=f"iteration {status.iteration}/{total_words(status)}"
            if running
            else printable(words) or "starting",
            passes=f"{status.train_pass_rate:.3f}" if status.iteration else "-",
            replay=str(status.replay_buffer_size),
            speed=f"{status.tokens_per_second:,.0f}" if status.iteration else "-",
            left=duration(status.estimated_remaining_seconds) if status.iteration else "-",
        )


def new_notes(status: wire.StatusResponse, shown: set[str]) -> list[str]:
    """Lines for notes and placements that are not in `shown` yet; adds them to it."""
    lines = [f"warning: {note}" for note in dict.fromkeys(status.notes) if note not in shown]
    lines += [place for place in dict.fromkeys(status.placements) if place not in shown]
    shown.update([*status.notes, *status.placements])
    return lines


def new_evaluations(status: wire.StatusResponse, shown: set[tuple[int, str]]) -> list[str]:
    """Lines for evaluations that are not in `shown` yet; adds them to it."""
    lines = []
    for score in status.evaluations:
        key = (score.iteration, score.set_name)
        if key not in shown:
            shown.add(key)
            share = score.passed / max(1, score.problems)
            lines.append(
                f"{score.set_name}: {100 * share:.1f} % right after iteration {score.iteration} "
                f"({score.passed} of {score.problems})"
            )
    return lines


def phase_words(status: wire.StatusResponse) -> str:
    """A phase in words; empty where progress says enough."""
    if status.phase == wire.PHASE_WAITING_FOR_WORKERS:
        return "waiting for workers to load the model"
    if status.phase == wire.PHASE_PAUSED:
        return f"paused: {status.message}"
    if status.phase == wire.PHASE_FINISHING:
        return "last update committed; evaluating the final weights"
    return ""


def total_words(status: wire.StatusResponse) -> str:
    """The total, marked where it is an estimate."""
    return f"~{status.total_iterations}" if status.total_is_estimate else str(status.total_iterations)


def duration(seconds: float) -> str:
    """Seconds as people read them: 42 s, 3:07 min, 2:15 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"
