"""Keeps train and test apart: the SHA-256 of a problem's key says which split it may be in.

Neither split has to be generated to know the other, so the first rows of a set cost little.
"""

from collections.abc import Iterator
from enum import StrEnum

from dartes.data.generators.draws import hash_number

_DOMAIN = "dartes-split-v1"
GIVE_UP_AFTER = 2_000
"""Candidates in a row that bring no new problem, after which a set counts as exhausted."""


class Split(StrEnum):
    """The parts of a built-in set."""

    TRAIN = "train"
    TEST = "test"


def split_of(key: str) -> Split:
    """The split of the problem with this key; problems that count as the same have the same key."""
    return Split.TEST if hash_number(f"{_DOMAIN}/{key}") % 2 else Split.TRAIN


class Sieve:
    """Lets each problem of one split pass once, and ends after `GIVE_UP_AFTER` refusals in a row."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._seen: set[int] = set()
        self._refused = 0

    @property
    def exhausted(self) -> bool:
        """Whether it is time to give up looking for more."""
        return self._refused >= GIVE_UP_AFTER

    def admit(self, key: str) -> bool:
        """Whether the problem with this key is of this split and new."""
        number = hash_number(key)
        if split_of(key) is not self._split or number in self._seen:
            self._refused += 1
            return False
        self._seen.add(number)
        self._refused = 0
        return True


def numbered(split: Split, name: str) -> Iterator[str]:
    """Names for the draws of one candidate after the other, apart for each split."""
    number = 0
    while True:
        yield f"{name}/{split}/{number}"
        number += 1
