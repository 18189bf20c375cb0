"""Filters, renaming and limit choose the problems; duplicate ids and empty sets are refused by place."""

import json
from pathlib import Path
from typing import Any

import pytest

from dartes.data import Dataset, DatasetError, load_dataset
from dartes.data.duplicates import refuse_duplicates

from .kit import Description, write

ROWS: list[dict[str, Any]] = [
    {"level": "Level 1", "n": 1, "ok": True, "q": "a"},
    {"level": "Level 3", "n": 3, "ok": False, "q": "b"},
    {"level": "Level 4", "n": 3, "ok": None, "q": "c"},
    {"level": "Level 3", "n": 4.5, "ok": True, "q": "d"},
]


def load(folder: Path, rows: list[dict[str, Any]], **asked: Any) -> Dataset:
    write(folder, "".join(json.dumps(row) + "\n" for row in rows))
    return load_dataset(Description("set.jsonl", **asked), folder)


@pytest.mark.parametrize(
    ("filters", "questions"),
    [
        ({"level": ("Level 3", "Level 4")}, "bcd"),
        ({"n": ("3",)}, "bc"),
        ({"n": ("4.5", "1")}, "ad"),
        ({"ok": ("true",)}, "ad"),
        ({"ok": ("null",)}, "c"),
        ({"level": ("Level 3",), "ok": ("false",)}, "b"),
    ],
)
def test_filters_keep_rows_by_the_text_of_a_value(
    tmp_path: Path, filters: dict[str, tuple[str, ...]], questions: str
) -> None:
    kept = [row for row in ROWS if row["q"] in questions]
    found = load(tmp_path, ROWS, filters=filters)
    assert list(found.rows) == kept
    assert found.digest == load(tmp_path, kept).digest


def test_filters_go_by_the_files_names_and_before_the_limit(tmp_path: Path) -> None:
    found = load(
        tmp_path, ROWS, filters={"n": ("3",)}, columns={"n": "q", "question": "level"}, max_problems=1
    )
    assert list(found.rows) == [{"n": "b", "ok": False, "question": "Level 3"}]


def test_nothing_left_says_what_was_read_and_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError,
        match=r"set.jsonl: none of its 4 rows is left by dataset.filters: level one of 'Level 9' "
        r"\(in the file: 'Level 1', 'Level 3', 'Level 4'\)",
    ):
        load(tmp_path, ROWS, filters={"level": ("Level 9",)})


def test_a_column_to_filter_by_that_is_missing_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError,
        match=r"set.jsonl line 1: dataset.filters.grade: no such column \(there are: level, n, ok, q\)",
    ):
        load(tmp_path, ROWS, filters={"grade": ("1",)})


@pytest.mark.parametrize(
    ("ids", "first", "second"),
    [
        (["a", "b", "c", "a"], 1, 4),
        ([1, 2, 2, 1], 2, 3),
        ([[1], [2], [1], [3]], 1, 3),
        (["", "x", "", "y"], 1, 3),
    ],
)
def test_two_problems_of_one_id_are_refused_with_both_places(
    tmp_path: Path, ids: list[object], first: int, second: int
) -> None:
    rows = [{"id": value, "q": "x"} for value in ids]
    with pytest.raises(
        DatasetError,
        match=rf"set.jsonl line {second}: the id .* is that of .*set.jsonl line {first} too; give each",
    ):
        load(tmp_path, rows)


@pytest.mark.parametrize("ids", [[1, "1", 1.0, True], [None, None, 1, 2], ["a", "A", " a", "a "]])
def test_different_ids_and_missing_ones_are_taken(tmp_path: Path, ids: list[object]) -> None:
    assert len(load(tmp_path, [{"id": value} for value in ids]).rows) == 4


def test_only_problems_that_are_taken_and_the_renamed_column_count_as_ids(tmp_path: Path) -> None:
    rows = [{"id": 1, "key": "a"}, {"id": 1, "key": "b"}, {"id": 2, "key": "b"}]
    assert len(load(tmp_path, rows[1:]).rows) == 2
    assert len(load(tmp_path, rows, max_problems=1).rows) == 1
    assert len(load(tmp_path, rows, columns={"number": "id"}).rows) == 3
    assert len(load(tmp_path, rows, filters={"key": ("b",)}).rows) == 2
    with pytest.raises(DatasetError, match='line 3: the id "b" is that of .* line 2 too'):
        load(tmp_path, rows, columns={"id": "key"})


def test_ids_whose_hashes_collide_are_told_apart() -> None:
    # Told of every hash, as if each had come twice.
    rows: list[tuple[str, dict[str, Any]]] = [("p1", {"id": "a"}), ("p2", {"id": "b"})]
    every = frozenset(hash(json.dumps(row["id"])) for _, row in rows)
    refuse_duplicates(every, rows)
    with pytest.raises(DatasetError, match='p3: the id "a" is that of p1 too'):
        refuse_duplicates(every, [*rows, ("p3", {"id": "a"})])


@pytest.mark.parametrize("field", ["config", "revision"])
def test_only_the_hub_has_configurations_and_revisions(tmp_path: Path, field: str) -> None:
    with pytest.raises(DatasetError, match=f"dataset.{field}: 'main': only hf://datasets sources have one"):
        load(tmp_path, ROWS, **{field: "main"})
