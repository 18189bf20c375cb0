"""Stored rows are a sequence of decoded rows, in memory or in a file that nobody has to remove."""

import contextlib
import gc
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from dartes.data import DatasetError, row_store
from dartes.data.row_store import RowWriter, StoredRows

ROWS: list[dict[str, Any]] = [{"n": number, "text": "é" * (number % 7)} for number in range(600)]


def stored(limit: int) -> StoredRows:
    writer = RowWriter(limit)
    for row in ROWS:
        writer.append(json.dumps(row).encode() + b"\n")
    rows = writer.rows()
    writer.close()
    return rows


@pytest.mark.parametrize("limit", [10, 1000, 1_000_000])
def test_rows_come_back_by_index_by_slice_and_in_turn(limit: int) -> None:
    rows = stored(limit)
    assert len(rows) == 600
    assert list(rows) == ROWS
    assert [rows[0], rows[599], rows[-1], rows[-600]] == [ROWS[0], ROWS[599], ROWS[599], ROWS[0]]
    assert rows[5:300:7] == ROWS[5:300:7]
    assert rows[590:9999] == ROWS[590:]
    assert list(reversed(rows)) == ROWS[::-1]
    for outside in (600, -601):
        with pytest.raises(IndexError):
            rows[outside]


@pytest.mark.parametrize("read_bytes", [1, 30, 31, 100])
def test_rows_longer_and_shorter_than_a_read_come_in_turn(
    monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    monkeypatch.setattr(row_store, "_READ_BYTES", read_bytes)
    assert list(stored(10)) == list(stored(10**6)) == ROWS


def open_files(folder: Path) -> int:
    """How many files of a folder this process holds open, those without a name included."""
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists the descriptors
            count += str(entry.readlink()).startswith(f"{folder}/")
    return count


def test_a_large_set_lies_in_a_file_without_a_name_that_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = stored(1000)
    assert list(tmp_path.iterdir()) == []
    assert open_files(tmp_path) == 1
    assert rows[3] == ROWS[3]
    del rows
    gc.collect()
    assert open_files(tmp_path) == 0


def test_a_writer_that_is_given_up_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    writer = RowWriter(10)
    writer.append(b"x" * 100)
    assert open_files(tmp_path) == 1
    writer.close()
    assert open_files(tmp_path) == 0


def test_a_temporary_folder_that_is_missing_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(DatasetError, match=r"needs more than 20 bytes in .*gone: No such .* set TMPDIR"):
        RowWriter(10).append(b"x" * 20)
