"""Problem sets that ship as rules, not files, by the name behind `builtin://`.

Which problem is in which split is decided by a SHA-256 of the problem, never by a library's random
generator, so the sets are the same in every version and on every machine; train and test share no problem.
Small sets are listed here whole and shuffled; the others are generated row by row (`generators`).
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dartes.data.errors import DatasetError
from dartes.data.generators import generated, generated_names
from dartes.data.generators.splits import Split
from dartes.tasks.base import Row

_SHUFFLE_DOMAIN = "dartes-builtin-v1"


@dataclass(frozen=True, slots=True)
class BuiltinSet:
    """A set of problems: all of them, how many of the shuffled ones are for testing, and which are kept."""

    problems: Callable[[], Iterable[Row]]
    test_size: int
    operators: str = "+-*"


def builtin_names() -> tuple[str, ...]:
    """The names that `builtin://` takes as a data set; `reasoning-gym-NAME` is a name for each NAME there.

    A name may be written with `_` for `-`, as libraries write theirs.
    """
    return (*_sets(), *generated_names())


def builtin_rows(name: str, split: str) -> Iterable[Row]:
    """The rows of one split in their fixed order, made while they are read.

    Raises
    ------
    DatasetError
        For an unknown name or split; where a library that makes the problems is missing.
    """
    if split not in tuple(Split):
        raise DatasetError(f"dataset.split: builtin://{name} has the splits train and test, not '{split}'")
    sets = _sets()
    known = name.replace("_", "-")
    if known in sets:
        return _shuffled(sets[known], Split(split))
    make = generated(known)
    if make is None:
        there = ", ".join(builtin_names())
        raise DatasetError(f"dataset.source: there is no built-in data set '{name}' (there are: {there})")
    return make(Split(split))


def _shuffled(problems: BuiltinSet, split: Split) -> Iterable[Row]:
    rows = sorted(problems.problems(), key=_shuffle_key)
    part = rows[: problems.test_size] if split is Split.TEST else rows[problems.test_size :]
    return (row for row in part if row["operator"] in tuple(problems.operators))


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
