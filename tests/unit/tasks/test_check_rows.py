"""What is said of rows that do not fit: where they are, and a fix that fits too."""

import pytest

from dartes.tasks.addition import AdditionTask
from dartes.tasks.base import Row, RowError, TaskSettings, check_rows, column

TASK = AdditionTask.from_spec(TaskSettings("addition"))


@pytest.mark.parametrize(
    ("row", "fix"),
    [
        ({"question": "?"}, "columns: {answer: YOUR_COLUMN}"),
        ({"question": "?", "answers": 1}, "columns: {answer: answers}"),
    ],
)
def test_another_name_is_proposed_only_where_it_is_close(row: Row, fix: str) -> None:
    with pytest.raises(RowError, match=r"column 'answer' is missing") as caught:
        column(row, "answer")
    assert str(caught.value).endswith(fix)


@pytest.mark.parametrize("rows", [({"a": 1, "b": 2}, {"a": 1}), ({"a": 1}, {"a": 1, "b": 2})])
def test_a_column_that_other_rows_have_is_not_looked_for_under_another_name(rows: tuple[Row, ...]) -> None:
    with pytest.raises(RowError, match="other problems have it") as caught:
        check_rows(TASK, rows, "mine")
    assert "dataset.columns" not in str(caught.value)


def test_a_column_that_no_row_has_is_to_be_named() -> None:
    with pytest.raises(RowError, match=r"mine: t line 4: column 'b' .* columns: \{b: YOUR_COLUMN\}"):
        check_rows(TASK, [{"a": 1}, {"a": 2}], "mine", ["t line 4", "t line 5"])


def test_without_places_problems_are_counted() -> None:
    with pytest.raises(RowError, match="mine: problem 2: "):
        check_rows(TASK, [{"a": 1, "b": 2}, {"a": 1, "b": None}], "mine")
