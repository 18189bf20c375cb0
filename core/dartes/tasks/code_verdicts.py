"""From how the runs of an answer went to its grade. Pure.

Outputs are compared as LiveCodeBench does: line by line, without outer white space, numbers by value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from dartes.sandbox.runs import CheckedRun, Ending, RunResult, ScriptRun
from dartes.tasks.base import Grade

_NUMBER_LIMIT = 400
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Step:
    """One run of an answer, and for a script the output that is expected of it."""

    run: ScriptRun | CheckedRun
    expected: str = ""

    @property
    def tests(self) -> int:
        """Number of tests in this run."""
        return self.run.sites if isinstance(self.run, CheckedRun) else 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many tests of a step passed, why one did not, and whether going on would only cost time."""

    passed: int
    reason: str = ""
    last: bool = False


def judge(step: Step, result: RunResult) -> Verdict:
    """What a run says of its step. A run that was ended for taking too much is the last of its answer."""
    if result.ending in (Ending.CPU, Ending.WALL, Ending.DISK):
        return Verdict(sum(result.passed), _ended(result), last=True)
    if result.ending is Ending.KILLED:
        return Verdict(0, result.reason or f"the program was killed (signal {-result.code})")
    if isinstance(step.run, CheckedRun):
        return Verdict(sum(result.passed), result.reason)
    if result.code != 0:
        said = result.stderr.strip().rpartition("\n")[2][:_SHOWN]
        return Verdict(0, f"exit status {result.code}{': ' if said else ''}{said}")
    if result.cut:
        return Verdict(0, "printed too much")
    return Verdict(1) if same_output(result.stdout, step.expected) else Verdict(0, "another output")


def total(steps: Sequence[Step], verdicts: Sequence[Verdict]) -> Grade:
    """The grade of an answer: passed where all tests passed; the auxiliary score is the share that did."""
    tests = sum(step.tests for step in steps)
    passed = sum(verdict.passed for verdict in verdicts)
    reason = next((verdict.reason for verdict in verdicts if verdict.reason), "")
    if not reason and passed < tests:
        reason = f"{tests - passed} of {tests} tests were never reached"
    if reason:
        reason = f"{passed} of {tests} tests passed; {reason}"
    return Grade.of(reason, passed / tests)


def same_output(found: str, expected: str) -> bool:
    """Whether two outputs have the same lines, trimmed, each the same text or the same numbers."""
    mine, theirs = _lines(found), _lines(expected)
    return len(mine) == len(theirs) and all(map(_same_line, mine, theirs))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(mine: str, theirs: str) -> bool:
    if mine == theirs:
        return True
    found, expected = _numbers(mine), _numbers(theirs)
    return found is not None and found == expected


def _numbers(line: str) -> list[Decimal] | None:
    numbers = []
    for word in line.split():
        if len(word) > _NUMBER_LIMIT:
            return None
        try:
            number = Decimal(word)
        except InvalidOperation:
            return None
        if not number.is_finite():
            return None
        numbers.append(number)
    return numbers


def _ended(result: RunResult) -> str:
    return {
        Ending.CPU: "took too much processor time",
        Ending.WALL: "timed out",
        Ending.DISK: "wrote too much",
    }[result.ending]
