"""From a seed to the list of steps: which act, on what, for how long. The same seed gives the same list.

Pure. It knows that some acts exclude others (nobody can take away an operator that is away), but nothing of
what the cluster looks like when a step's turn comes: a step carries a number by which its victim is chosen
among those that are there then.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .acts import PROPERTIES, Act, Target

LULL_EVERY = 15
"""After so many steps everything lasting ends and all jobs must come to rest."""

CHOICES = 2**16
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds after an act before the next look, so that an act meets the others' consequences in every state."""

STRIKES = ("inside-transaction", "after-commit", "before-report", "after-report")
"""Points at which a coordinator can be told to kill itself (`dartes_coordinator.faults`)."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Layout:
    """The jobs by namespace, and which of them has a volume that can fill."""

    jobs: Mapping[str, str]
    small: str


@dataclass(frozen=True)
class Step:
    """One act. `on` is a job, a namespace, or empty; `until` is the step before which it ends."""

    number: int
    act: Act
    on: str
    choice: int
    until: int | None
    pause_seconds: float


def make_schedule(seed: int, steps: int, layout: Layout, acts: Collection[Act]) -> tuple[Step, ...]:
    """The schedule of a seed. Acts come from shuffled bags, so none is rare by bad luck."""
    dice = Dice(seed)
    kinds = [act for act in Act if act in acts]
    bag: list[Act] = []
    busy: dict[str, int] = {}
    made: list[Step] = []
    variants: dict[Act, list[int]] = {}
    for number in range(1, steps + 1):
        busy = {what: until for what, until in busy.items() if until > number}
        if len(bag) < len(kinds):
            bag = [*bag, *dice.shuffled([act for act in kinds for _ in range(PROPERTIES[act].weight)])]
        act, on = _next(bag, dice, layout, busy)
        until = _until(number, act, dice)
        if until is not None:
            busy[_occupies(act, on)] = until
        pause = SHORTEST_PAUSE + dice.share() * (LONGEST_PAUSE - SHORTEST_PAUSE)
        made.append(Step(number, act, on, _choice(act, dice, variants), until, round(pause, 2)))
    return tuple(made)


def _choice(act: Act, dice: "Dice", left: dict[Act, list[int]]) -> int:
    """The number by which a victim or a variant is chosen; variants come from shuffled bags, too."""
    count = PROPERTIES[act].variants
    if count is None:
        return dice.below(CHOICES)
    left[act] = left.get(act) or dice.shuffled(range(count))
    return left[act].pop()


def strikes(seed: int, job: str, round_number: int) -> str:
    """Where the coordinators of one round of a job kill themselves, in the words of DARTES_FAULT.

    Not the first incarnation: a job that nobody touches is to run through.
    """
    dice = Dice(f"{seed}/{job}/{round_number}")
    entries = []
    for incarnation in range(2, 9, 2):
        point = dice.one_of(STRIKES[:2] if incarnation % 4 else STRIKES)
        # Reports come eight times as often as commits.
        most = 4 if point in STRIKES[:2] else 24
        entries.append(f"{point}:{1 + dice.below(most)}@{incarnation}")
    return ",".join(entries)


def is_lull(number: int, last: int) -> bool:
    """Whether all must come to rest after this step."""
    return number % LULL_EVERY == 0 or number == last


class Dice:
    """Choices that are the same for a seed on every Python: only `random()` is promised to be."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)

    def share(self) -> float:
        """A number of [0, 1)."""
        return self._random.random()

    def below(self, limit: int) -> int:
        """A whole number of [0, limit)."""
        return int(self.share() * limit)

    def one_of(self, items: Sequence[Item]) -> Item:
        """One of them."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """All of them in another order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(len(left))]


def _next(bag: list[Act], dice: "Dice", layout: Layout, busy: Mapping[str, int]) -> tuple[Act, str]:
    """Take the first act of the bag that can be done now, and what to do it to."""
    for place, act in enumerate(bag):
        free = [on for on in _targets(act, layout) if _is_free(act, on, layout, busy)]
        if free:
            del bag[place]
            return act, dice.one_of(free)
    raise AssertionError("the first acts of a bag can't all be excluded by what lasts")


def _targets(act: Act, layout: Layout) -> list[str]:
    match PROPERTIES[act].target:
        case Target.JOB:
            return sorted(layout.jobs)
        case Target.SMALL_JOB:
            return [layout.small]
        case Target.NAMESPACE:
            return sorted(set(layout.jobs.values()))
        case _:
            return [""]


def _is_free(act: Act, on: str, layout: Layout, busy: Mapping[str, int]) -> bool:
    properties = PROPERTIES[act]
    if _occupies(act, on) in busy:
        return False
    if properties.target is Target.OPERATOR and _occupies(Act.OPERATOR_AWAY, "") in busy:
        return False
    if properties.target in (Target.JOB, Target.SMALL_JOB):
        # There is nothing of a suspended job to be hit. A full volume must not vanish under its act.
        suspended = _occupies(Act.SUSPENDED, on) in busy
        filled = _occupies(Act.VOLUME_FILLED, on) in busy
        return not suspended and not (filled and act is Act.JOB_DELETED)
    return True


def _occupies(act: Act, on: str) -> str:
    """What an act that lasts keeps others from; those on nodes exclude each other."""
    target = PROPERTIES[act].target
    if target is Target.NODES:
        return str(target)
    return f"{act}/{on}"


def _until(number: int, act: Act, dice: "Dice") -> int | None:
    lasts = PROPERTIES[act].lasts
    if lasts is None:
        return None
    next_lull = number + (-number % LULL_EVERY) + 1
    return min(number + lasts[0] + dice.below(lasts[1] - lasts[0] + 1), next_lull)
