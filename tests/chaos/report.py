"""What a run of chaos tells: a line while it goes on, a table and a document at the end.

Pure: it makes text and plain values of what the run has noted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .acts import Act
from .schedule import Step


@dataclass(frozen=True)
class Done:
    """One step as it went. `on` is what was hit in the end; empty where there was nothing to hit."""

    step: Step
    at_seconds: float
    on: str
    violations: tuple[str, ...] = ()

    @property
    def missed(self) -> bool:
        """Whether its turn came when there was nothing of that kind."""
        return not self.on


@dataclass(frozen=True)
class Lull:
    """One coming to rest: after which step, and how long until all jobs went on undisturbed."""

    after_step: int
    seconds: float
    violations: tuple[str, ...] = ()


@dataclass
class Tally:
    """What the jobs went through."""

    rounds: dict[str, int] = field(default_factory=dict)
    """Ends with all values compared, by job."""
    deleted: int = 0
    iterations: int = 0
    """Committed rows compared with those of an undisturbed run."""
    pods: int = 0
    failures_injected: int = 0
    failures_charged: int = 0
    disruptions_counted: int = 0
    strikes: int = 0
    """Coordinators that killed themselves where they had been told to."""
    log_lines: int = 0
    errors_expected: int = 0
    requests_struck: int = 0
    faults_without_a_strike: int = 0
    """Acts on the operator's requests while it made none that they could have struck."""
    status_writes: int = 0


@dataclass
class Result:
    """A whole run."""

    seed: int
    planned: int
    acts: tuple[Act, ...]
    seconds: float = 0.0
    steps: list[Done] = field(default_factory=list)
    lulls: list[Lull] = field(default_factory=list)
    ends: Lull | None = None
    """The jobs' last ends, after the last step."""
    tally: Tally = field(default_factory=Tally)
    ended_early: str = ""

    @property
    def violations(self) -> list[str]:
        """All of them, in order."""
        every = [(done.step.number, 0, done.violations) for done in self.steps]
        lulls = [*self.lulls, *([self.ends] if self.ends else [])]
        every += [(lull.after_step, 1, lull.violations) for lull in lulls]
        return [f"step {number}: {words}" for number, _, found in sorted(every) for words in found]

    @property
    def passed(self) -> bool:
        """Whether all planned steps were made and nothing was wrong."""
        whole = len(self.steps) == self.planned and self.ends is not None
        return whole and not self.violations and not self.ended_early


def line_of(done: Done, planned: int) -> str:
    """A step, told while the run goes on."""
    when = f"{done.step.number:>4}/{planned} {done.at_seconds:6.0f} s"
    said = f"{when}  {done.step.act}: {done.on or 'nothing to hit'}"
    return "\n".join([said, *(f"       VIOLATION {words}" for words in done.violations)])


def table(result: Result) -> str:
    """How often each act was done and how often something was wrong after it, as Markdown."""
    rows = [("act", "done", "nothing to hit", "violations after it")]
    for act in result.acts:
        steps = [done for done in result.steps if done.step.act is act]
        rows.append(
            (
                str(act),
                str(sum(not done.missed for done in steps)),
                str(sum(done.missed for done in steps)),
                str(sum(len(done.violations) for done in steps)),
            )
        )
    calm = [lull.seconds for lull in result.lulls]
    rows.append(
        (
            f"all at rest again, {_median(calm):.0f} s in the median, {max(calm, default=0.0):.0f} s at most",
            str(len(calm)),
            "",
            str(sum(len(lull.violations) for lull in result.lulls)),
        )
    )
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---|--:|--:|--:|", *lines[1:]])


def summary(result: Result) -> str:
    """What the jobs went through, in a few lines."""
    tally = result.tally
    rounds = ", ".join(f"{name} {count}" for name, count in sorted(tally.rounds.items()))
    early = f"; ended early: {result.ended_early}" if result.ended_early else ""
    return "\n".join(
        [
            f"seed {result.seed}: {len(result.steps)} of {result.planned} steps in "
            f"{result.seconds / 60:.0f} minutes, {len(result.violations)} violations{early}",
            f"{sum(tally.rounds.values())} jobs ran to their ends with the journal and the weights of an "
            f"undisturbed run ({rounds}), {tally.deleted} were deleted half-way; {tally.iterations} "
            "committed iterations were compared",
            f"{tally.pods} pods, {tally.failures_injected} failures injected, {tally.strikes} times a "
            f"coordinator struck inside or beside a commit, {tally.failures_charged} failures charged, "
            f"{tally.disruptions_counted} disruptions",
            f"{tally.status_writes} writes of a status and {tally.log_lines} lines of logs read, "
            f"{tally.errors_expected} of them errors that an act explains; "
            f"{tally.requests_struck} requests struck ({tally.faults_without_a_strike} faults struck none)",
        ]
    )


def document(result: Result, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, for a file."""
    return {
        "seed": result.seed,
        "planned": result.planned,
        "passed": result.passed,
        "ended_early": result.ended_early,
        "seconds": round(result.seconds, 1),
        "machine": dict(machine),
        "tally": asdict(result.tally),
        "violations": result.violations,
        "steps": [
            {
                "number": done.step.number,
                "act": str(done.step.act),
                "on": done.on,
                "until": done.step.until,
                "at_seconds": round(done.at_seconds, 1),
                "violations": list(done.violations),
            }
            for done in result.steps
        ],
        "lulls": [asdict(lull) for lull in result.lulls],
    }


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0
