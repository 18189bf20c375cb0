"""Problems are loaded alike everywhere; every complaint says where the fault is."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.data import DatasetError, lines, load_dataset
from dartes.errors import ConfigurationError
from dartes.spec.dataset import DatasetSpec

from .kit import Description, write


def test_a_jsonl_file_beside_the_job_gives_its_rows_in_order(tmp_path: Path) -> None:
    path = write(tmp_path, '{"q": "one", "answer": 1}\n{"q": "two", "answer": 2.5}\n')
    dataset = load_dataset(Description("set.jsonl"), tmp_path)
    assert list(dataset.rows) == [{"q": "one", "answer": 1}, {"q": "two", "answer": 2.5}]
    assert dataset.description == f"{path} (2 problems)"
    for spelling in (f"file://{path}", str(path)):
        again = load_dataset(Description(spelling), Path("/nowhere"))
        assert (again.digest, again.description) == (dataset.digest, dataset.description)
        assert list(again.rows) == list(dataset.rows)


def test_a_json_list_is_the_same_data_set_as_its_lines(tmp_path: Path) -> None:
    rows = [{"q": "one", "n": [1, 2]}, {"q": "zwei €", "n": None}]
    write(tmp_path, "\n".join(json.dumps(row) for row in rows), "a.jsonl")
    write(tmp_path, json.dumps(rows, indent=2, ensure_ascii=False), "b.json")
    lines = load_dataset(Description("a.jsonl"), tmp_path)
    assert lines.digest == load_dataset(Description("b.json"), tmp_path).digest
    assert list(lines.rows) == rows


def test_a_folder_gives_the_file_of_the_split(tmp_path: Path) -> None:
    write(tmp_path, '{"q": 1}\n', "train.jsonl")
    write(tmp_path, '[{"q": 2}]', "test.json")
    assert list(load_dataset(Description("."), tmp_path).rows) == [{"q": 1}]
    assert list(load_dataset(Description(".", "test"), tmp_path).rows) == [{"q": 2}]
    with pytest.raises(DatasetError, match=r"dataset.split: .* no split 'dev' \(there are: test, train\)"):
        load_dataset(Description(".", "dev"), tmp_path)


def test_the_digest_is_that_of_the_rows_used_as_canonical_json(tmp_path: Path) -> None:
    write(tmp_path, '{"b": 2, "q": "é"}\n{"q": "not used", "b": 3}\n')
    dataset = load_dataset(Description("set.jsonl", "train", 1, {"question": "q"}), tmp_path)
    expected = hashlib.sha256(b"dartes-rows-v1\n" + '{"b":2,"question":"é"}\n'.encode()).hexdigest()
    assert dataset.digest == expected
    assert dataset.digest != load_dataset(Description("set.jsonl", "train", 1), tmp_path).digest


def test_the_limit_takes_the_first_problems_and_reads_no_further(tmp_path: Path) -> None:
    write(tmp_path, '{"q": 1}\n{"q": 2}\nnot JSON\n')
    assert len(load_dataset(Description("set.jsonl", max_problems=2), tmp_path).rows) == 2
    with pytest.raises(DatasetError, match="line 3"):
        load_dataset(Description("set.jsonl", max_problems=3), tmp_path)


def test_columns_are_renamed_and_replace_others_of_that_name(tmp_path: Path) -> None:
    write(tmp_path, '{"q": 1, "answer": 2, "a": 3}\n')
    description = Description("set.jsonl", columns={"question": "q", "answer": "a"})
    assert list(load_dataset(description, tmp_path).rows) == [{"question": 1, "answer": 3}]
    swapped = Description("set.jsonl", columns={"q": "a", "a": "q"})
    assert list(load_dataset(swapped, tmp_path).rows) == [{"q": 3, "a": 1, "answer": 2}]
    with pytest.raises(
        DatasetError, match=r"set.jsonl line 1: dataset.columns.x: no column 'y' \(there are: a, answer, q\)"
    ):
        load_dataset(Description("set.jsonl", columns={"x": "y"}), tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "set.jsonl: there is not one problem in it"),
        ('{"q": 1}\n\n{"q": 2}\n', "set.jsonl line 2: empty line"),
        ('{"q": 1}\n  \n', "set.jsonl line 2: empty line"),
        ('{"q": 1}\n{"q": 2\n', r"set.jsonl line 2: not JSON: .* \(column"),
        ('{"q": 1} {"q": 2}\n', "set.jsonl line 1: not JSON: Extra data"),
        ("[1]\n", "set.jsonl line 1: must be an object such as .*, not a list"),
        ('"q"\n', "set.jsonl line 1: must be an object such as .*, not text"),
        ("null\n", "set.jsonl line 1: must be an object such as .*, not null"),
        ('{"q": 1, "a": 2, "q": 3}\n', "set.jsonl line 1: column 'q' appears twice"),
        ('{"q": {"a": 1, "a": 1}}\n', "set.jsonl line 1: column 'a' appears twice"),
        ('{"q": NaN}\n', "set.jsonl line 1: NaN is not a number that JSON has"),
        ('{"q": 1e999}\n', "set.jsonl line 1: the number 1e999 is too large"),
        ('{"q": ' + "9" * 5000 + "}\n", "set.jsonl line 1: a number with too many digits"),
        ('{"q": ' + "[" * 200_000 + "}\n", "set.jsonl line 1: nested too deeply"),
        (b'{"q": "\xff"}\n', r"set.jsonl line 1: not UTF-8 \(byte 8 is 0xff\)"),
        ('{"q": "\\ud800"}\n', "set.jsonl line 1: holds half of a UTF-16 pair"),
        (b"\x00" * 100, "set.jsonl line 1: not JSON"),
    ],
)
def test_a_bad_line_is_refused_by_file_and_number(tmp_path: Path, content: str | bytes, message: str) -> None:
    write(tmp_path, content)
    with pytest.raises(DatasetError, match=message):
        load_dataset(Description("set.jsonl"), tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"q": 1}', "set.json: must hold a list of problems, not an object"),
        (
            '{"q": 1}\n{"q": 2}\n',
            "set.json: must hold a list .*; a file of one problem a line ends with .jsonl",
        ),
        ('[{"q": 1},\n {"q": }]', "set.json, line 2: not JSON"),
        ('[{"q": 1}, 5]', "set.json item 2: must be an object such as .*, not a number"),
        ("[]", "there is not one problem in it"),
    ],
)
def test_a_bad_list_is_refused_by_line_or_item(tmp_path: Path, content: str, message: str) -> None:
    write(tmp_path, content, "set.json")
    with pytest.raises(DatasetError, match=message):
        load_dataset(Description("set.json"), tmp_path)


def test_a_line_of_exactly_the_limit_and_a_byte_order_mark_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LINE_LIMIT", 1000)
    filling = 1000 - len('{"q": ""}\n')
    write(tmp_path, b"\xef\xbb\xbf" + b'{"q": "x"}\r\n{"q": "' + b"x" * filling + b'"}\n')
    assert len(load_dataset(Description("set.jsonl"), tmp_path).rows) == 2
    write(tmp_path, b'{"q": "x"}\n{"q": "' + b"x" * (filling + 1) + b'"}\n')
    with pytest.raises(DatasetError, match="set.jsonl line 2: longer than 1,000 bytes"):
        load_dataset(Description("set.jsonl"), tmp_path)


def test_a_json_file_over_its_limit_is_refused_unparsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "FILE_LIMIT", 10)
    write(tmp_path, '[{"q":1}] ', "set.json")
    assert len(load_dataset(Description("set.json"), tmp_path).rows) == 1
    write(tmp_path, "x" * 11, "set.json")
    with pytest.raises(DatasetError, match="may have 10 bytes; use .jsonl or .parquet"):
        load_dataset(Description("set.json"), tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("hf://org/name", "'hf://org/name' is a model; a data set is hf://datasets/OWNER/NAME"),
        ("ftp://host/set", "unknown scheme"),
        ("builtin://no-such", r"there is no built-in data set 'no-such' \(there are: addition, arithmetic"),
        ("missing.jsonl", "there is no file .*missing.jsonl"),
        ("set.txt", "must end with .jsonl, .*.parquet, .arrow, or be a folder of such files"),
        ("pvc://claim/set.jsonl", "the claim 'claim' is not mounted here"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"dataset.source.*{message}"):
        load_dataset(Description(source), tmp_path)


@given(
    st.binary(max_size=200)
    | st.binary(max_size=40).map(b"PAR1".__add__)
    | st.text(alphabet='{}[]":,q1\n\\u dNa', max_size=60).map(str.encode)
)
def test_any_file_gives_rows_or_a_data_set_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    for name in ("fuzz.jsonl", "fuzz.json", "fuzz.csv", "fuzz.parquet", "fuzz.arrow", "fuzz.jsonl.gz"):
        write(folder, data, name)
        try:
            dataset = load_dataset(Description(name), folder)
        except DatasetError:
            continue
        assert dataset.rows


def test_the_job_models_section_is_such_a_description(tmp_path: Path) -> None:
    spec = DatasetSpec(source="builtin://addition", max_problems=3)
    assert len(load_dataset(spec, tmp_path).rows) == 3
