"""Where each problem of a data set stands in its source, in 8 bytes a problem; for messages.

Knows places as readers write them, "train.jsonl line 3", and nothing of what stands there.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import overload


class Places(Sequence[str]):
    """Places in their order, as "train.jsonl line 3": the file without its folders."""

    def __init__(self) -> None:
        self._numbers = array("Q")
        self._heads: list[str] = []
        self._starts: list[int] = []

    def append(self, place: str) -> None:
        """Add a place, which ends with a number."""
        head, _, number = place.rpartition(" ")
        if not self._heads or self._heads[-1] != head:
            self._heads.append(head)
            self._starts.append(len(self._numbers))
        self._numbers.append(int(number))

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """One place, or a list for a slice."""
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        head = self._heads[bisect_right(self._starts, position) - 1]
        return f"{head.rpartition('/')[2]} {self._numbers[position]}"
