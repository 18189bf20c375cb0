"""Whole numbers drawn from SHA-256: the same in every version of Python and on every machine.

Python's `random` keeps no promise about its streams from one version to the next; a hash does.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

_WORD_BYTES = 8
_WORD_RANGE = 1 << (8 * _WORD_BYTES)


class Draws:
    """An endless stream of draws, fixed by `name`; two names give unrelated streams."""

    def __init__(self, name: str) -> None:
        self._words = _words(name)

    def below(self, count: int) -> int:
        """A whole number from 0 to `count` - 1, each equally likely; `count` is at least 1."""
        fair = _WORD_RANGE - _WORD_RANGE % count
        return next(word for word in self._words if word < fair) % count

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def choose(self, items: Sequence[Item]) -> Item:
        """One of `items`."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """The same items in another order, each order equally likely."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.below(last + 1)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed


def hash_number(text: str) -> int:
    """64 bits of a text's SHA-256, as a whole number."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:_WORD_BYTES], "big")


def _words(name: str) -> Iterator[int]:
    counter = 0
    while True:
        block = hashlib.sha256(f"{name}/{counter}".encode()).digest()
        for start in range(0, len(block), _WORD_BYTES):
            yield int.from_bytes(block[start : start + _WORD_BYTES], "big")
        counter += 1
