"""What a local run does when one of its processes ends.

Pure: no process, no clock. The rules are those that an operator has for pods, in small.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from dartes.errors import ExitCode

BUDGET_RESET_ITERATIONS = 10
"""Worker failures are forgotten after this much progress."""

STUCK_AFTER_FAILURES = 3
"""A worker that fails this often in a row without progress will not succeed by itself."""


class Verdict(Enum):
    """What to do."""

    RESTART = auto()
    IGNORE = auto()
    STOP = auto()


@dataclass
class RestartPolicy:
    """Budgets of one run."""

    coordinator_restarts: int
    worker_failures: int
    _coordinator_used: int = 0
    _worker_used: int = 0
    _reset_at: int = 0
    _in_a_row: dict[str, int] = field(default_factory=dict)
    _progress: int = 0

    def progressed(self, iteration: int) -> None:
        """Note that `iteration` iterations are committed."""
        if iteration > self._progress:
            self._progress = iteration
            self._in_a_row.clear()
        if iteration >= self._reset_at + BUDGET_RESET_ITERATIONS:
            self._reset_at = iteration
            self._worker_used = 0

    def coordinator_ended(self, code: int) -> tuple[Verdict, str]:
        """The coordinator ended without having finished the run (code 0 is the caller's)."""
        if code == ExitCode.CONFIGURATION:
            return Verdict.STOP, ""
        if code == ExitCode.DRAINED:
            return Verdict.STOP, "another process has taken over this run"
        self._coordinator_used += 1
        if self._coordinator_used > self.coordinator_restarts:
            return (
                Verdict.STOP,
                f"the coordinator failed {_times(self._coordinator_used)} "
                f"(spec.failurePolicy.coordinatorRestarts is {self.coordinator_restarts})",
            )
        return Verdict.RESTART, ""

    def worker_ended(self, name: str, code: int) -> tuple[Verdict, str]:
        """A worker ended; returns what to do and, for STOP, why."""
        if code == ExitCode.DONE:
            return Verdict.IGNORE, ""
        if code == ExitCode.CONFIGURATION and self._progress == 0:
            return Verdict.STOP, ""
        if code == ExitCode.DRAINED:
            return Verdict.RESTART, ""
        self._worker_used += 1
        self._in_a_row[name] = self._in_a_row.get(name, 0) + 1
        if self._in_a_row[name] >= STUCK_AFTER_FAILURES and code > 0:
            return Verdict.STOP, f"{name} failed {self._in_a_row[name]} times in a row"
        if self._worker_used > self.worker_failures:
            return (
                Verdict.STOP,
                f"workers failed {_times(self._worker_used)} (spec.failurePolicy.workerFailures is "
                f"{self.worker_failures})",
            )
        return Verdict.RESTART, ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
