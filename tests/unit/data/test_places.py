"""Places of problems: compact, counted in the source and not in what filters leave."""

from pathlib import Path

import pytest

from dartes.data import load_dataset
from dartes.data.places import Places
from dartes.tasks.addition import AdditionTask
from dartes.tasks.base import RowError, TaskSettings, check_rows

from .kit import Description, write

TASK = AdditionTask.from_spec(TaskSettings("addition"))


def test_places_are_given_back_without_folders_across_files() -> None:
    places = Places()
    for place in ("/d/a.jsonl line 2", "/d/a.jsonl line 7", "/d/b.jsonl line 1", "hf://x/y [m, s] row 3"):
        places.append(place)
    assert list(places) == ["a.jsonl line 2", "a.jsonl line 7", "b.jsonl line 1", "y [m, s] row 3"]
    assert places[-1] == "y [m, s] row 3"
    assert places[1:3] == ["a.jsonl line 7", "b.jsonl line 1"]


def test_a_bad_row_is_named_by_its_line_of_the_file_and_not_by_what_filters_left(tmp_path: Path) -> None:
    lines = [f'{{"a": 1, "b": 2, "level": "{"hard" if n % 2 else "easy"}"}}\n' for n in range(9)]
    lines.append('{"a": 1, "b": "x", "level": "hard"}\n')
    write(tmp_path, "".join(lines), "train.jsonl")
    found = load_dataset(Description("train.jsonl", filters={"level": ("hard",)}), tmp_path)
    assert list(found.places) == [f"train.jsonl line {n}" for n in (2, 4, 6, 8, 10)]
    with pytest.raises(RowError, match=r"train\.jsonl \(5 problems\): train\.jsonl line 10: column 'b'"):
        check_rows(TASK, found.rows, found.description, found.places)


def test_of_generated_problems_the_number_is_said(tmp_path: Path) -> None:
    found = load_dataset(Description("builtin://addition", max_problems=2), tmp_path)
    assert list(found.places) == ["addition [train], problem 1", "addition [train], problem 2"]
