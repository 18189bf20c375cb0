"""Sudoku puzzles with exactly one solution: a full grid is drawn, then cells are taken out.

A cell goes only where no other digit in its place could be completed, so uniqueness is never in doubt.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from dartes.data.generators.draws import Draws
from dartes.data.generators.splits import Sieve, Split, numbered
from dartes.tasks.base import Row

BLANK = "."
COUNTS = {Split.TRAIN: 2_000, Split.TEST: 500}
BLANKS = {4: (5, 10), 9: (30, 50)}
"""Fewest and most cells to take out, by size; fewer go where the solution would not stay the only one."""


class Board:
    """A grid being filled: which digits each row, column and box has, as bits (digit d is bit d - 1)."""

    def __init__(self, cells: Sequence[int], size: int) -> None:
        self.size = size
        self.cells = [0] * (size * size)
        root = 2 if size == 4 else 3
        self._units = tuple(
            (row, size + column, 2 * size + row // root * root + column // root)
            for row in range(size)
            for column in range(size)
        )
        self._used = [0] * (3 * size)
        for place, digit in enumerate(cells):
            if digit:
                self.put(place, digit)

    def put(self, place: int, digit: int) -> None:
        """Set an empty cell."""
        self.cells[place] = digit
        for unit in self._units[place]:
            self._used[unit] |= 1 << (digit - 1)

    def clear(self, place: int) -> int:
        """Empty a cell; returns its digit."""
        digit = self.cells[place]
        self.cells[place] = 0
        for unit in self._units[place]:
            self._used[unit] &= ~(1 << (digit - 1))
        return digit

    def candidates(self, place: int) -> list[int]:
        """The digits that an empty cell may hold."""
        row, column, box = self._units[place]
        used = self._used[row] | self._used[column] | self._used[box]
        return [digit for digit in range(1, self.size + 1) if not used >> (digit - 1) & 1]

    def solve(self, draws: Draws | None = None) -> bool:
        """Fill all empty cells; False, with the board as it was, where that cannot be done."""
        place, digits = -1, list(range(self.size + 1))
        for empty in (place for place, digit in enumerate(self.cells) if not digit):
            found = self.candidates(empty)
            if len(found) < len(digits):
                place, digits = empty, found
                if len(digits) < 2:
                    break
        if place < 0:
            return True
        for digit in digits if draws is None else draws.shuffled(digits):
            self.put(place, digit)
            if self.solve(draws):
                return True
            self.clear(place)
        return False


def sudoku_rows(split: Split, size: int) -> Iterator[Row]:
    """Rows with `puzzle` and `solution` (lines of digits, a dot for a blank) and `size`; none twice."""
    return islice(_rows(split, size), COUNTS[split])


def _rows(split: Split, size: int) -> Iterator[Row]:
    sieve = Sieve(split)
    for name in numbered(split, f"sudoku-{size}"):
        draws = Draws(name)
        board = Board([0] * (size * size), size)
        board.solve(draws)
        solution = list(board.cells)
        # Its split is the solution's, so that no solved grid of the test split is ever trained on.
        if size == 9 and not sieve.admit(as_text(solution, size)):
            continue
        puzzle = as_text(_dig(draws, solution, size), size)
        if size == 9 or sieve.admit(puzzle):
            yield {"puzzle": puzzle, "solution": as_text(solution, size), "size": size}
        if sieve.exhausted:
            return


def _dig(draws: Draws, solution: Sequence[int], size: int) -> list[int]:
    board = Board(solution, size)
    wanted = draws.between(*BLANKS[size])
    for place in draws.shuffled(range(size * size)):
        if board.cells.count(0) == wanted:
            break
        digit = board.clear(place)
        if any(_completes(board, place, other) for other in board.candidates(place) if other != digit):
            board.put(place, digit)
    return board.cells


def _completes(board: Board, place: int, digit: int) -> bool:
    trial = Board(board.cells, board.size)
    trial.put(place, digit)
    return trial.solve()


def as_text(cells: Sequence[int], size: int) -> str:
    """A grid as lines of digits with spaces between them, a dot for a blank."""
    rows = (cells[start : start + size] for start in range(0, size * size, size))
    return "\n".join(" ".join(str(digit) if digit else BLANK for digit in row) for row in rows)
