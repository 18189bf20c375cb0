"""Countdown problems, built backwards from a solution: numbers are combined until one is left, the target.

Every problem can therefore be solved with each of its numbers used exactly once. Knows no task.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dartes.data.generators.draws import Draws
from dartes.data.generators.splits import Sieve, Split, numbered
from dartes.tasks.base import Row

LARGEST_NUMBER = 99
SMALLEST_TARGET, LARGEST_TARGET = 10, 999
LARGEST_VALUE = 9_999
"""Values on the way to a target stay between 1 and this."""

COUNTS = {Split.TRAIN: 20_000, Split.TEST: 2_000}


@dataclass(frozen=True, slots=True)
class Problem:
    """Numbers, a target, and an expression that reaches it."""

    numbers: tuple[int, ...]
    target: int
    solution: str

    @property
    def key(self) -> str:
        """The same for the same numbers in any order."""
        return f"countdown/{sorted(self.numbers)}={self.target}"


def countdown_rows(split: Split, sizes: Sequence[int]) -> Iterator[Row]:
    """Rows with `numbers` and `target`; how many numbers a problem has is drawn from `sizes`."""
    for problem in islice(countdown_problems(split, sizes), COUNTS[split]):
        yield {"numbers": list(problem.numbers), "target": problem.target}


def countdown_problems(split: Split, sizes: Sequence[int]) -> Iterator[Problem]:
    """Problems of one split, none twice, in a fixed order."""
    sieve = Sieve(split)
    for name in numbered(split, "countdown-" + "-".join(map(str, sizes))):
        draws = Draws(name)
        problem = _build(draws, draws.choose(sizes))
        if problem is not None and sieve.admit(problem.key):
            yield problem
        if sieve.exhausted:
            return


def _build(draws: Draws, size: int) -> Problem | None:
    """One candidate; None where its target is out of range or stands among the numbers."""
    numbers = tuple(draws.between(1, LARGEST_NUMBER) for _ in range(size))
    parts = [(number, str(number)) for number in numbers]
    while len(parts) > 1:
        left, right = (parts.pop(draws.below(len(parts))) for _ in range(2))
        parts.append(_combine(draws, left, right))
    target, solution = parts[0]
    if not SMALLEST_TARGET <= target <= LARGEST_TARGET or target in numbers:
        return None
    return Problem(numbers, target, solution)


def _combine(draws: Draws, left: tuple[int, str], right: tuple[int, str]) -> tuple[int, str]:
    """Two values joined by an operator whose result is a whole number within bounds."""
    (a, text_a), (b, text_b) = max(left, right), min(left, right)
    results = {"+": a + b}
    if a > b:
        results["-"] = a - b
    if b > 1 and a * b <= LARGEST_VALUE:
        results["*"] = a * b
    if b > 1 and a % b == 0:
        results["/"] = a // b
    operator = draws.choose(tuple(results))
    return results[operator], f"({text_a} {operator} {text_b})"
