"""Where the problem and the right answer stand in the layouts of the mathematics data sets.

MATH (`problem`, `solution` with a box, `level`, `type` or `subject`), MATH500 (`answer` as well), Minerva
(`problem` or `question`, and `answer` or a boxed `solution`), OlympiadBench (`question`, `final_answer`),
AIME (`problem`, `answer`; also `Problem`, `Answer`) and AMC (`answer` as a decimal number).
"""

from fractions import Fraction

from dartes.tasks.base import JSON, Row, RowError, UnreadableReferenceError, column, shorten
from dartes.tasks.blocks import last_box
from dartes.tasks.numbers import parse_decimal

PROBLEM_COLUMNS = ("problem", "question", "Problem", "Question")
ANSWER_COLUMNS = ("answer", "final_answer", "Answer")
SOLUTION_COLUMNS = ("solution", "Solution")

_ERROR_COLUMN = "error"
_ANSWERS_LIMIT = 64


def problem_of(row: Row) -> str:
    """The problem's text; raises `RowError` where no column holds one."""
    for name in PROBLEM_COLUMNS:
        if name in row:
            value = row[name]
            if not isinstance(value, str):
                raise RowError(f"column '{name}' must hold text, not {shorten(value)}")
            return value
    column(row, PROBLEM_COLUMNS[0])
    raise AssertionError("not reached")  # pragma: no cover


def reference_of(row: Row) -> str:
    """The right answer; several are written as one list.

    Raises
    ------
    RowError
        No column holds an answer, or it is of another type.
    UnreadableReferenceError
        The answer's column is empty, or its solution has no box.
    """
    for name in ANSWER_COLUMNS:
        if row.get(name) is not None:
            return _answer(name, row[name])
    for name in SOLUTION_COLUMNS:
        if name in row:
            return _boxed(name, row[name])
    present = [name for name in ANSWER_COLUMNS if name in row]
    if present:
        raise UnreadableReferenceError(f"column '{present[0]}' is empty")
    column(row, ANSWER_COLUMNS[0])
    raise AssertionError("not reached")  # pragma: no cover


def tolerance_of(row: Row) -> Fraction | None:
    """The largest difference that OlympiadBench's column `error` allows; None where it allows none."""
    value = row.get(_ERROR_COLUMN)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise RowError(f"column '{_ERROR_COLUMN}' must hold a number, not {shorten(value)}")
    # Several answers may each have their own; the data set separates them by commas. The first is the rule.
    allowed = parse_decimal(str(value).split(",")[0].strip())
    return None if allowed is None or allowed < 0 else allowed


def _answer(name: str, value: JSON) -> str:
    if isinstance(value, list | tuple):
        parts = [_single(name, part) for part in value]
        if not parts:
            raise UnreadableReferenceError(f"column '{name}' is an empty list")
        if len(parts) > _ANSWERS_LIMIT:
            raise RowError(f"column '{name}' holds {len(parts)} answers; {_ANSWERS_LIMIT} are allowed")
        return ", ".join(parts)
    return _single(name, value)


def _single(name: str, value: JSON) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RowError(f"column '{name}' must hold text, a number, or a list of these, not {shorten(value)}")
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise UnreadableReferenceError(f"column '{name}' must hold a finite number, not {value}")
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    text = str(value).strip()
    inside = last_box(text)
    return text if inside is None else inside.strip()


def _boxed(name: str, value: JSON) -> str:
    if not isinstance(value, str):
        raise RowError(f"column '{name}' must hold text, not {shorten(value)}")
    inside = last_box(value)
    if inside is None or not inside.strip():
        raise UnreadableReferenceError(
            f"column '{name}' has no \\boxed{{}} with an answer: {shorten(value[-60:])}"
        )
    return inside.strip()
