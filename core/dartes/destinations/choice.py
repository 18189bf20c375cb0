"""Which iteration of a run to export: the last one, a number, or the best by held-out accuracy.

Pure, but for `recorded_evaluations`, which reads what a run folder has recorded.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dartes.errors import ConfigurationError, DartesError
from dartes.state import RunFolder, RunReader


class Choice(StrEnum):
    """The words that stand for an iteration, as job files write them."""

    BEST = "Best"
    LAST = "Last"


Wanted = int | Choice
"""A number of iterations to apply, or a word for it."""


def wanted_of(value: int | str | None) -> Wanted:
    """A wish as job files and command lines write it: a number, `Best`, `Last`, or None for the last."""
    if value is None:
        return Choice.LAST
    return value if isinstance(value, int) else Choice(value)


@dataclass(frozen=True)
class Evaluated:
    """One held-out evaluation of the weights after `iteration` iterations: how many of how many passed.

    With several samples per problem, answers are counted.
    """

    set_name: str
    iteration: int
    passed: int
    problems: int

    @property
    def accuracy(self) -> float:
        """Share of problems passed, 0 where there are none."""
        return self.passed / self.problems if self.problems else 0.0


@dataclass(frozen=True)
class Chosen:
    """The iteration to export, and a sentence that the user should read about it."""

    iteration: int
    note: str | None = None


def choose(wanted: Wanted, count: int, evaluations: Sequence[Evaluated], first_set: str | None) -> Chosen:
    """The iteration that `wanted` means in a run of `count` iterations.

    Best is the highest accuracy on the evaluation set `first_set`; of equals the earliest. The base model
    (iteration 0) takes part where it was evaluated. Without an evaluation, Best is the last, and a note
    says so.

    Raises
    ------
    ConfigurationError
        The number is not in the run.
    """
    if isinstance(wanted, Choice):
        if wanted is Choice.LAST:
            return Chosen(count)
        known = [e for e in evaluations if e.set_name == first_set and e.iteration <= count]
        if not known:
            return Chosen(
                count,
                "the run has no evaluation to find the best iteration by; taking the last. Give "
                "evaluation.sets in the job for a Best",
            )
        best = min(known, key=lambda e: (-e.accuracy, e.iteration))
        return Chosen(
            best.iteration,
            f"iteration {best.iteration} is the best on {best.set_name}: {best.passed} of {best.problems}",
        )
    if not 0 <= wanted <= count:
        raise ConfigurationError(
            f"--iteration {wanted}: the run has {count} iterations; allowed: 0 to {count}"
        )
    return Chosen(wanted)


def recorded_evaluations(folder: RunFolder) -> list[Evaluated]:
    """The evaluations that a run folder has recorded, oldest first: of its store, else of its summary.

    Empty where neither can be read: a volume that is mounted read-only may hold a store that has to be rolled
    back first.
    """
    try:
        with RunReader.open(folder) as reader:
            return [
                Evaluated(e.set_name, e.iteration, int(e.passed.sum()), len(e.passed))
                for e in reader.evaluations()
                if "no_base" not in e.beside  # no accuracy: there is no base model to win over
            ]
    except DartesError:
        return _from_summary(folder)


def _from_summary(folder: RunFolder) -> list[Evaluated]:
    try:
        summary: dict[str, Any] = json.loads(folder.summary.read_text(encoding="utf-8"))
        points = [
            Evaluated(str(name), int(point["iteration"]), int(point["passed"]), int(point["answers"]))
            for name, entry in {**summary["evaluations"], **summary["holdouts"]}.items()
            for point in entry["all"]
            if "no_base" not in point
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return sorted(points, key=lambda e: (e.iteration, e.set_name))
