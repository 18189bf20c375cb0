"""A test hook: kill this process with SIGKILL at a named point, so that recovery can be proved.

`DARTES_FAULT=POINT:COUNT@INCARNATION` kills at the COUNT-th passing of POINT in that incarnation;
several are separated by commas. Without the variable nothing ever happens here.
"""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

VARIABLE = "DARTES_FAULT"


class FaultPoint(StrEnum):
    """Where a run can be interrupted on purpose."""

    BEFORE_REPORT = "before-report"
    AFTER_REPORT = "after-report"
    INSIDE_TRANSACTION = "inside-transaction"
    AFTER_COMMIT = "after-commit"


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    # The first process of a container can't kill itself: the kernel ignores it.
    os._exit(128 + signal.SIGKILL)


@dataclass
class FaultPlan:
    """Counts passings of fault points and strikes at the planned ones."""

    strikes: Mapping[FaultPoint, frozenset[int]] = field(default_factory=dict)
    strike: Callable[[], None] = _kill_self
    _passed: dict[FaultPoint, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, incarnation: int, strike: Callable[[], None] = _kill_self) -> "FaultPlan":
        """The part of a plan that concerns one incarnation. Raises ValueError on anything malformed."""
        strikes: dict[FaultPoint, set[int]] = {}
        for entry in filter(None, text.split(",")):
            point, _, rest = entry.partition(":")
            count, _, when = rest.partition("@")
            if int(when) == incarnation:
                strikes.setdefault(FaultPoint(point), set()).add(int(count))
        return cls({point: frozenset(counts) for point, counts in strikes.items()}, strike)

    @classmethod
    def from_environment(cls, incarnation: int) -> "FaultPlan":
        """The plan in `DARTES_FAULT`; empty where it is unset."""
        return cls.parse(os.environ.get(VARIABLE, ""), incarnation)

    def reach(self, point: FaultPoint) -> None:
        """Say that the process is at `point`."""
        if not self.strikes:
            return
        self._passed[point] = self._passed.get(point, 0) + 1
        if self._passed[point] in self.strikes.get(point, frozenset()):
            self.strike()
