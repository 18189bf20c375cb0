"""Problem sets that ship as rules, not files: `builtin://addition`, `builtin://arithmetic` and its parts.

Which problem is in which split is decided by a SHA-256 of the problem, never by a library's random
generator, so the sets are the same in every version and on every machine; train and test share no problem.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from dartes.data.errors import DatasetError
from dartes.tasks.base import Row

_SHUFFLE_DOMAIN = "dartes-builtin-v1"


class Split(StrEnum):
    """The parts of a built-in set."""

    TRAIN = "train"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class BuiltinSet:
    """A set of problems: all of them, how many of the shuffled ones are for testing, and which are kept."""

    problems: Callable[[], Iterable[Row]]
    test_size: int
    operators: str = "+-*"


def builtin_names() -> tuple[str, ...]:
    """The names that `builtin://` takes as a data set."""
    return tuple(_sets())


def builtin_rows(name: str, split: str) -> list[Row]:
    """All rows of one split, in their fixed shuffled order; raises `DatasetError` for unknown names."""
    sets = _sets()
    if name not in sets:
        raise DatasetError(
            f"dataset.source: there is no built-in data set '{name}' (there are: {', '.join(sets)})"
        )
    if split not in tuple(Split):
        raise DatasetError(f"dataset.split: builtin://{name} has the splits train and test, not '{split}'")
    rows = sorted(sets[name].problems(), key=_shuffle_key)
    test_size = sets[name].test_size
    part = rows[:test_size] if split == Split.TEST else rows[test_size:]
    return [row for row in part if row["operator"] in tuple(sets[name].operators)]


def _sets() -> dict[str, BuiltinSet]:
    return {
        # All 10,000 pairs that the built-in model was pre-trained on: 2,048 to test, 7,952 to train.
        "addition": BuiltinSet(_additions, 2_048),
        "arithmetic": BuiltinSet(_arithmetic, 512),
        # The same split, one operator each: a test problem of one set is a training problem of none.
        "arithmetic-sums": BuiltinSet(_arithmetic, 512, "+"),
        "arithmetic-differences": BuiltinSet(_arithmetic, 512, "-"),
        "arithmetic-products": BuiltinSet(_arithmetic, 512, "*"),
    }


def _additions() -> Iterable[Row]:
    for a in range(100):
        for b in range(100):
            yield {"question": f"{a}+{b}", "a": a, "operator": "+", "b": b}


def _arithmetic() -> Iterable[Row]:
    """Two operands: 0..30 for sums and differences, 0..12 for products."""
    rules: dict[str, tuple[int, Callable[[int, int], int]]] = {
        "+": (30, lambda a, b: a + b),
        "-": (30, lambda a, b: a - b),
        "*": (12, lambda a, b: a * b),
    }
    for operator, (largest, apply) in rules.items():
        for a in range(largest + 1):
            for b in range(largest + 1):
                yield {
                    "question": f"{a} {operator} {b}",
                    "a": a,
                    "operator": operator,
                    "b": b,
                    "answer": apply(a, b),
                }


def _shuffle_key(row: Row) -> bytes:
    return hashlib.sha256(f"{_SHUFFLE_DOMAIN}/{row['question']}".encode()).digest()
