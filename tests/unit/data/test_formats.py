"""One data set in every format is one digest; damage is named by file and line, row group or record batch."""

import gzip
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dartes.data import DatasetError, load_dataset, tables
from dartes.data.arrow_values import SLICE_BYTES, ArrowRows
from dartes.data.tables import MOST_ROWS, rows_of_next_batch

from .kit import Description, write

ROWS: list[dict[str, Any]] = [
    {"id": "a", "question": "2 + 3?", "answer": 5, "turns": [{"role": "user", "content": "Go"}]},
    {"id": "b", "question": 'zwei €, "quoted"\nlines', "answer": -7, "turns": []},
    {"id": "c", "question": "", "answer": 0, "turns": [{"role": "user", "content": "1"}] * 2},
]
TABLE = pa.Table.from_pylist(ROWS)


def jsonl() -> bytes:
    from json import dumps

    return "".join(dumps(row) + "\n" for row in ROWS).encode()


def parquet(table: pa.Table = TABLE, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def packed(content: bytes) -> bytes:
    """`content` in gzip, the same bytes at any time, since names of tests hold them."""
    return gzip.compress(content, mtime=0)


def arrow(table: pa.Table = TABLE, make: Callable[..., Any] = pa.ipc.new_file) -> bytes:
    sink = io.BytesIO()
    with make(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("set.jsonl.gz", packed(jsonl())),
        ("set.parquet", parquet()),
        ("set.parquet", parquet(row_group_size=2, compression="zstd")),
        ("set.arrow", arrow()),
        ("set.arrow", arrow(make=pa.ipc.new_stream)),
    ],
)
def test_every_format_gives_the_data_set_of_its_json_lines(tmp_path: Path, name: str, content: bytes) -> None:
    write(tmp_path, jsonl())
    write(tmp_path, content, name)
    lines = load_dataset(Description("set.jsonl"), tmp_path)
    found = load_dataset(Description(name), tmp_path)
    assert list(found.rows) == list(lines.rows) == ROWS
    assert found.digest == lines.digest
    assert found.description == f"{tmp_path / name} (3 problems)"


def test_a_csv_file_gives_text_as_it_is_written(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbfquestion,target\r\n"a, ""b""\nc",24\r\nd,007\ne,1.50\nf,\ng, x\n'
    write(tmp_path, content, "set.csv")
    assert list(load_dataset(Description("set.csv"), tmp_path).rows) == [
        {"question": 'a, "b"\nc', "target": "24"},
        {"question": "d", "target": "007"},
        {"question": "e", "target": "1.50"},
        {"question": "f", "target": ""},
        {"question": "g", "target": " x"},
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there is not one problem in it"),
        (b"a,b\n", "there is not one problem in it"),
        (b"a,b\n1,2\n3\n", r"set.csv line 3: 1 values, and the header has 2 columns"),
        (b"a,b\n1,2,3\n", r"set.csv line 2: 3 values, .* stands in double quotes"),
        (b"a,b\n1,2\n\n", "set.csv line 3: empty line; remove it"),
        (b"a,a\n1,2\n", "set.csv line 1: column 'a' appears twice"),
        (b"a,\n1,2\n", "set.csv line 1: a column has no name"),
        (b'a,b\n1,"2\n3,4\n', "set.csv line 3: not CSV"),
        (b'a,b\n1,"2"x\n', "set.csv line 2: not CSV"),
        (b"a,b\n1,\xff\n", r"set.csv line 2: not UTF-8 \(byte 3 is 0xff\)"),
    ],
)
def test_a_bad_csv_line_is_refused_by_number(tmp_path: Path, content: bytes, message: str) -> None:
    write(tmp_path, content, "set.csv")
    with pytest.raises(DatasetError, match=message):
        load_dataset(Description("set.csv"), tmp_path)


MANY = [f"column {number}" for number in range(20_000)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.jsonl", "{" + ", ".join(f'"{c}": 1' for c in [*MANY, MANY[-1]]) + "}\n", "s.jsonl line 1"),
        ("s.csv", ",".join([*MANY, MANY[-1]]) + "\n", "s.csv line 1"),
    ],
    ids=["jsonl", "csv"],
)
def test_a_name_that_is_there_twice_is_found_among_very_many(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    write(tmp_path, content, name)
    began = time.process_time()
    with pytest.raises(DatasetError, match=f"{message}: column 'column 19999' appears twice"):
        load_dataset(Description(name), tmp_path)
    assert time.process_time() - began < 2.0  # comparing each with each takes several times as long


@pytest.mark.parametrize("as_dictionary", [False, True])
def test_a_long_text_that_a_parquet_file_holds_once_is_not_read_a_thousand_times(
    tmp_path: Path, as_dictionary: bool
) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), ["x" * 2**20])
    table = pa.table({"q": column})
    content = parquet(table, compression="zstd", write_statistics=False, store_schema=as_dictionary)
    write(tmp_path, content, "set.parquet")
    assert len(content) < 10_000
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        assert len(load_dataset(Description("set.parquet", max_problems=4), tmp_path).rows) == 4
    finally:
        pa.set_memory_pool(before)
    assert 0 < pool.max_memory() < 64 * 2**20


@pytest.mark.parametrize(
    ("rows", "widest", "following"),
    [(8, 1, 16), (64, 100, MOST_ROWS), (8, SLICE_BYTES // 3, 3), (8, 100 * SLICE_BYTES, 1), (0, 1, 1)],
)
def test_the_next_batch_is_sized_by_the_widest_so_far(rows: int, widest: int, following: int) -> None:
    assert rows_of_next_batch(rows, widest) == following


def test_rows_that_grow_are_read_fewer_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    kept = ArrowRows.rows

    def noted(maker: ArrowRows, batch: Any, name: str, first: int) -> Any:
        sizes.append(batch.num_rows)
        return kept(maker, batch, name, first)

    monkeypatch.setattr(ArrowRows, "rows", noted)
    monkeypatch.setattr(tables, "SLICE_BYTES", 2**14)
    texts = ["short"] * 150 + ["x" * 2**12] * 70
    write(tmp_path, parquet(pa.table({"q": texts})), "set.parquet")
    rows = load_dataset(Description("set.parquet"), tmp_path).rows
    assert [len(str(row["q"])) for row in rows] == [len(text) for text in texts]
    assert sizes[:4] == [8, 16, 32, 64]
    assert sizes[5] < 64


def test_a_value_over_csvs_own_small_limit_is_taken(tmp_path: Path) -> None:
    write(tmp_path, "a,b\n" + "x" * 200_000 + ",1\n", "set.csv")
    assert len(str(load_dataset(Description("set.csv"), tmp_path).rows[0]["a"])) == 200_000


def test_a_damaged_row_group_is_named(tmp_path: Path) -> None:
    content = bytearray(parquet(row_group_size=2, compression="gzip", use_dictionary=False))
    second = pq.ParquetFile(io.BytesIO(bytes(content))).metadata.row_group(1).column(0)
    start = second.data_page_offset
    content[start + 20 : start + second.total_compressed_size] = bytes(second.total_compressed_size - 20)
    write(tmp_path, bytes(content), "set.parquet")
    assert len(load_dataset(Description("set.parquet", max_problems=2), tmp_path).rows) == 2
    with pytest.raises(DatasetError, match="set.parquet row group 2: damaged"):
        load_dataset(Description("set.parquet"), tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("set.parquet", jsonl(), "set.parquet: damaged, or not of its format"),
        ("set.parquet", parquet()[:-20], "set.parquet: damaged"),
        ("set.arrow", jsonl(), "set.arrow: damaged, or not of its format"),
        ("set.arrow", arrow()[:-20], "set.arrow: damaged"),
        ("set.arrow", arrow(make=pa.ipc.new_stream)[:-200], "set.arrow record batch 2: damaged"),
        ("set.jsonl.gz", jsonl(), "set.jsonl.gz: damaged, or not compressed by gzip"),
        ("set.jsonl.gz", packed(jsonl())[:-12], "set.jsonl.gz: damaged"),
        ("set.jsonl.gz", packed(b'{"q": 1}\n{\n'), "set.jsonl.gz line 2: not JSON"),
        ("set.parquet", parquet(TABLE.slice(0, 0)), "set.parquet: there is not one problem in it"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    write(tmp_path, content, name)
    with pytest.raises(DatasetError, match=message):
        load_dataset(Description(name), tmp_path)


@settings(max_examples=60)
@given(
    st.sampled_from([("f.parquet", parquet()), ("f.arrow", arrow()), ("f.jsonl.gz", packed(jsonl()))]),
    st.integers(0, 2_000),
    st.binary(min_size=1, max_size=3),
)
def test_any_damage_gives_rows_or_a_data_set_error(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[str, bytes], at: int, written: bytes
) -> None:
    name, good = file
    at %= len(good)
    folder = tmp_path_factory.getbasetemp()
    write(folder, good[:at] + written + good[at + len(written) :], name)
    try:
        dataset = load_dataset(Description(name), folder)
    except DatasetError:
        return
    assert list(dataset.rows)
