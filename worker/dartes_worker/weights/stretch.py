"""Stretches: which elements of a checkpoint tensor lie where in a served tensor.

A stretch is a rectangle: `rows` runs of `length` elements, at a fixed distance from one another on both
sides. A whole tensor is one run; the columns that one tensor-parallel rank holds are many. Knows no engine.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Stretch:
    """Elements of the checkpoint tensor `name` that lie in the served tensor `target`.

    Element j of row r is element `start + r * source_step + j` of the checkpoint tensor's flat order, and
    element `offset + r * target_step + j` of the served tensor's.

    Attributes
    ----------
    name, target
        Name in the checkpoint; key of the served tensor.
    start, offset
        Flat index of the first element on either side.
    length
        Elements of a row, at least 1.
    rows
        At least 1.
    source_step, target_step
        Elements from one row to the next; meaningless where there is one row.
    owned
        Whether digests and snapshots count these elements here. Where several ranks hold the same ones, one
        owns them.
    """

    name: str
    target: str
    start: int
    offset: int
    length: int
    rows: int = 1
    source_step: int = 0
    target_step: int = 0
    owned: bool = True

    @property
    def count(self) -> int:
        """Elements in all."""
        return self.rows * self.length

    def row(self, number: int) -> "Stretch":
        """One row as a stretch of its own."""
        return replace(
            self,
            start=self.start + number * self.source_step,
            offset=self.offset + number * self.target_step,
            rows=1,
            source_step=0,
            target_step=0,
        )

    def rows_from(self, first: int, count: int) -> "Stretch":
        """Rows `first` to `first + count`."""
        return replace(
            self,
            start=self.start + first * self.source_step,
            offset=self.offset + first * self.target_step,
            rows=count,
        )

    def part(self, first: int, count: int) -> "Stretch":
        """Elements `first` to `first + count` of a stretch of one row."""
        if self.rows != 1:
            raise ValueError("only a stretch of one row has parts")
        return replace(self, start=self.start + first, offset=self.offset + first, length=count)

    def pieces(self, limit: int) -> Iterator["Stretch"]:
        """Stretches of one row and at most `limit` elements that make up this one."""
        for number in range(self.rows):
            row = self.row(number)
            for first in range(0, self.length, limit):
                yield row.part(first, min(limit, self.length - first))
