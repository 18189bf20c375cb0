"""Arrow's types become the JSON that a person would have written, or are refused or left out by name."""

import datetime as dt
import decimal
import io
import logging
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dartes.data import Dataset, DatasetError, load_dataset
from dartes.data.arrow_values import SLICE_BYTES, SLICE_ROWS, ArrowRows, rows_per_slice

from .kit import Description, write


def load(folder: Path, **columns: Any) -> Dataset:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    write(folder, sink.getvalue(), "set.parquet")
    return load_dataset(Description("set.parquet"), folder)


DAY = dt.datetime(2024, 1, 2, 3, 4, 5, 678)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (pa.array([True]), True),
        (pa.array([2**64 - 1], pa.uint64()), 2**64 - 1),
        (pa.array([0.5], pa.float16()), 0.5),
        (pa.array([None], pa.null()), None),
        (pa.array([None], pa.float64()), None),
        (pa.array([[1.5, None], None], pa.list_(pa.float64()))[:1], [1.5, None]),
        (pa.array(["x"]).dictionary_encode(), "x"),
        (pa.array([{"a": 1, "b": [{"c": None}]}]), {"a": 1, "b": [{"c": None}]}),
        (pa.array([{"a": 0.5}]), {"a": 0.5}),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), {"k": 1}),
        (pa.array([dt.date(2024, 1, 2)]), "2024-01-02"),
        (pa.array([DAY]), "2024-01-02 03:04:05.000678"),
        (pa.array([DAY], pa.timestamp("us", "Europe/Berlin")), "2024-01-02 03:04:05.000678"),
        (pa.array([dt.time(1, 2, 3)], pa.time32("ms")), "01:02:03.000"),
        (pa.array([decimal.Decimal("1.50")]), "1.50"),
        (
            pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":[1,"x"]}'])),
            {"a": [1, "x"]},
        ),
    ],
)
def test_a_value_becomes_json(tmp_path: Path, column: Any, value: object) -> None:
    assert list(load(tmp_path, v=column).rows) == [{"v": value}]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1.0, math.nan]), "set.parquet row 2: column 'v' holds nan, which JSON does not have"),
        (pa.array([[1.0], [math.inf]]), "set.parquet row 2: column 'v' holds inf"),
        (pa.array([{"a": -math.inf}]), "set.parquet row 1: column 'v' holds -inf"),
        (
            pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64())),
            "set.parquet row 1: column 'v' holds a map with one key twice",
        ),
        (
            pa.Array.from_buffers(
                pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
            ),
            "set.parquet rows 1 to 1: column 'v' holds text that is not UTF-8",
        ),
        (
            pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{"])),
            "set.parquet row 1: column 'v': not JSON",
        ),
    ],
)
def test_a_value_that_json_does_not_have_is_refused_by_place(
    tmp_path: Path, column: Any, message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        load(tmp_path, v=column)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"PNG"]),
        pa.array([{"bytes": b"PNG", "path": "a.png"}]),
        pa.array([[b"PNG"]]),
        pa.array([dt.timedelta(1)]),
        pa.array([[DAY]]),
        pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())),
    ],
)
def test_a_column_that_json_cannot_hold_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, column: Any
) -> None:
    with caplog.at_level(logging.WARNING):
        assert list(load(tmp_path, q=pa.array(["x"]), image=column).rows) == [{"q": "x"}]
    assert (
        "set.parquet: columns that are neither text, numbers nor lists are left out: image (" in caplog.text
    )
    with pytest.raises(DatasetError, match="set.parquet: no column with text"):
        load(tmp_path, image=column)


def test_a_text_that_a_dictionary_holds_once_is_one_object(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 1, 2, 1]), ["unused", "x" * 100, None])
    batch = pa.record_batch({"v": column})
    values = [row["v"] for _, row in ArrowRows(batch.schema, "set").rows(batch, "set", 1)]
    assert values == ["x" * 100, None, "x" * 100, None, "x" * 100]
    assert values[0] is values[2] is values[4]


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    sink = io.BytesIO()
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    write(tmp_path, sink.getvalue(), "set.arrow")
    with pytest.raises(DatasetError, match="set.arrow: column 'a' appears twice"):
        load_dataset(Description("set.arrow"), tmp_path)


@pytest.mark.parametrize(
    ("size", "count", "rows"),
    [
        (0, 0, SLICE_ROWS),
        (1000, 10, SLICE_ROWS),
        (SLICE_BYTES * 10, 20, 2),
        (SLICE_BYTES * 10, 5, 1),
    ],
)
def test_long_rows_are_turned_a_few_at_a_time(size: int, count: int, rows: int) -> None:
    assert rows_per_slice(size, count) == rows
