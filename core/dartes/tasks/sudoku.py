"""Sudoku: complete a 4 x 4 or 9 x 9 grid. Any legal completion of the given grid passes.

The grid is read out of a model's text line by line, in time linear in its length; nothing is searched for.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, TypeAlias

from dartes.tasks.base import (
    Grade,
    Prompt,
    Row,
    RowError,
    TaskDescription,
    refuse_answer_format,
    refuse_pass_threshold,
    refuse_unknown_options,
    shorten,
    str_column,
)
from dartes.tasks.blocks import last_answer
from dartes.tasks.templates import Template, build_prompt

ROOTS = {4: 2, 9: 3}
"""Side of a box by side of the grid."""

LONGEST_LINE = 200
"""Characters of a line that can be a row of a grid; a longer one is none."""

CHAT_PROMPT = """\
Complete this Sudoku of {size} rows, {size} columns and {size} boxes of {root} by {root} cells. Every row,
every column and every box must hold each digit from 1 to {size} once. A dot marks an empty cell; the digits
that are there must stay.

{puzzle}

Think as long as you need. Then write the whole completed grid between <answer> and </answer>, one row on each
line, with a space between digits.
"""

# Spaces, commas, brackets, bars; lines drawn with characters; emphasis and the columns of LaTeX.
_SEPARATORS = re.compile(r"(?:[\s|,;\[\]+\-&$`\u2500-\u257f]|\*\*)+")
_RULE = re.compile(r"[\s|+\-=:\u2013\u2014\u2500-\u257f]*")
_ROW_LABEL = re.compile(r"\s{0,8}(?:[-*]\s{1,4})?row\s{0,4}([1-9])\s{0,4}[:=)]", re.IGNORECASE)
_LINE_END = re.compile(
    r"\\\\|\\hline|\\(?:begin|end)\{[a-z]{1,12}\}(?:\{[clr|]{1,40}\})?|\]\s{0,8},\s{0,8}(?=\[)|(?=\[\[)|(?<=\]\])"
)
"""Where a row ends, or a grid begins or ends, other than at the end of a line."""

Grid: TypeAlias = tuple[int, ...]
"""Cells row by row; 0 for a blank."""


@dataclass(frozen=True, slots=True)
class SudokuTask:
    """Rows hold `puzzle`, the given grid as text, and may hold `solution`."""

    template: Template
    system: str | None = None

    name: ClassVar[str] = "sudoku"

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`; the prompt is a chat."""
        refuse_pass_threshold(cls.name, spec.pass_threshold)
        refuse_unknown_options(cls.name, spec.options, ())
        refuse_answer_format(cls.name, spec.answer_format)
        return cls(Template(spec.prompt or CHAT_PROMPT), spec.system)

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        puzzle, solution = _given(row), _solution(row)
        if solution is not None and not is_completion(puzzle, solution):
            raise RowError(
                "column 'solution' is no legal completion of column 'puzzle': it must keep the given digits "
                "and hold each digit once in every row, column and box"
            )
        self.template.check(_filled(row, puzzle))

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`; a template may use `{size}` and `{root}` as well as the row's columns."""
        return build_prompt(self.template, self.system, _filled(row, _given(row)), chat=True)

    def reference(self, row: Row) -> str:
        """See `Task.reference`."""
        solution = _solution(row)
        return "" if solution is None else as_lines(solution)

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`; the auxiliary score is the share of the blanks that are filled right.

        Right is what the column `solution` says. Without it, right is a digit that stands once in its row,
        column and box of the completed grid. A grid that changes a given digit scores nothing.
        """
        puzzle = _given(row)
        found = find_grid(completion, side(puzzle))
        if found is None:
            return Grade.of("no grid")
        answer = "".join(map(str, found))
        if any(given and given != cell for given, cell in zip(puzzle, found, strict=True)):
            return Grade.of("changes a given digit", answer=answer)
        if is_completion(puzzle, found):
            return Grade.of("", 1.0, answer=answer)
        blanks = [place for place, given in enumerate(puzzle) if not given]
        right = _right_places(found, _solution(row))
        share = sum(place in right for place in blanks) / max(1, len(blanks))
        return Grade.of("not a legal completion", share, answer=answer)


def side(grid: Grid) -> int:
    """Rows of a grid."""
    return 4 if len(grid) == 16 else 9


def is_completion(puzzle: Grid, grid: Grid) -> bool:
    """Whether a grid has no blank, keeps every given digit and holds each digit once in every unit."""
    if len(puzzle) != len(grid):
        return False
    kept = all(not given or given == cell for given, cell in zip(puzzle, grid, strict=True))
    whole = set(range(1, side(grid) + 1))
    return kept and all({grid[place] for place in unit} == whole for unit in units(side(grid)))


def units(size: int) -> list[list[int]]:
    """The places of every row, column and box."""
    root = ROOTS[size]
    rows = [[row * size + column for column in range(size)] for row in range(size)]
    columns = [[row * size + column for row in range(size)] for column in range(size)]
    boxes = [
        [(top + row) * size + left + column for row in range(root) for column in range(root)]
        for top in range(0, size, root)
        for left in range(0, size, root)
    ]
    return rows + columns + boxes


def find_grid(text: str, size: int) -> Grid | None:
    """The last grid without blanks in a text: in its last answer block if it has one, else anywhere.

    A grid is `size` rows of `size` digits on lines of their own, or in a list of lists; lines without a digit
    between them (rules, empty ones) are passed over. Between digits may stand spaces, commas, brackets, bars
    and drawn lines. A row that is called `Row 3` must be the third.
    """
    inside = last_answer(text)
    rows: list[Grid] = []
    for line in reversed(_LINE_END.sub("\n", text if inside is None else inside).splitlines()):
        label, digits = _labelled_digits(line, size)
        if digits is None or (label is not None and label != size - len(rows)):
            rows = []
        elif digits:
            rows.append(digits)
            if len(rows) == size:
                return tuple(cell for row in reversed(rows) for cell in row)
    return None


def as_lines(grid: Grid) -> str:
    """A grid as lines of digits with spaces between them, a dot for a blank."""
    size = side(grid)
    rows = [grid[start : start + size] for start in range(0, len(grid), size)]
    return "\n".join(" ".join(str(cell) if cell else "." for cell in row) for row in rows)


def _labelled_digits(line: str, size: int) -> tuple[int | None, Grid | None]:
    """The number that a row is given in front of it, if it is, and its digits."""
    if len(line) > LONGEST_LINE:
        return None, None
    plain = line.replace("**", "")
    match = _ROW_LABEL.match(plain)
    if match is None:
        return None, _digits(line, size)
    return int(match[1]), _digits(plain[match.end() :], size) or None


def _digits(line: str, size: int) -> Grid | None:
    """The digits of a row; none of them for a line that only separates; None for a line that is no row."""
    packed = _SEPARATORS.sub("", line)
    if not packed or _RULE.fullmatch(line):
        return ()
    if len(packed) != size or not all("1" <= cell <= str(size) for cell in packed):
        return None
    return tuple(int(cell) for cell in packed)


def _right_places(grid: Grid, solution: Grid | None) -> set[int]:
    if solution is not None:
        return {place for place, cell in enumerate(grid) if cell == solution[place]}
    wrong = {
        place
        for unit in units(side(grid))
        for place in unit
        if sum(grid[other] == grid[place] for other in unit) > 1
    }
    return set(range(len(grid))) - wrong


def _given(row: Row) -> Grid:
    grid = _grid_column(row, "puzzle")
    size = side(grid)
    for unit in units(size):
        digits: Sequence[int] = [grid[place] for place in unit if grid[place]]
        if len(set(digits)) != len(digits):
            raise RowError(
                f"column 'puzzle' has a digit twice in a row, column or box: {shorten(row['puzzle'])}"
            )
    return grid


def _solution(row: Row) -> Grid | None:
    return _grid_column(row, "solution") if row.get("solution") else None


def _grid_column(row: Row, name: str) -> Grid:
    text = str_column(row, name)
    packed = _SEPARATORS.sub("", text).replace("_", "0").replace(".", "0") if len(text) < 1_000 else ""
    size = {16: 4, 81: 9}.get(len(packed))
    if size is None or not all("0" <= cell <= str(size) for cell in packed):
        raise RowError(
            f"column '{name}' must be 4 rows of 4 or 9 rows of 9 digits, with 0, . or _ for a blank, "
            f"not {shorten(text)}"
        )
    return tuple(int(cell) for cell in packed)


def _filled(row: Row, puzzle: Grid) -> Row:
    """The row as a template sees it: the grid in one form, whatever the column's, and its sides."""
    return {**row, "puzzle": as_lines(puzzle), "size": side(puzzle), "root": ROOTS[side(puzzle)]}
