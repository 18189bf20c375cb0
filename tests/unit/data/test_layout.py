"""Which files of a folder are a split, and what is said where they are not, or not all, there."""

import json
from pathlib import Path

import datasets
import pytest

from dartes.data import DatasetError, load_dataset
from dartes.data.layout import files_of_split

from .kit import Description, write


def chosen(*names: str, split: str = "train", files: dict[str, object] | None = None) -> tuple[str, ...]:
    texts = {name: json.dumps(content).encode() for name, content in (files or {}).items()}
    return files_of_split([*names, *texts], split, "FOLDER", lambda name: texts[name])


@pytest.mark.parametrize(
    ("there", "files"),
    [
        (["test.csv", "train.csv", "README.md"], ["train.csv"]),
        (["data/train.jsonl.gz"], ["data/train.jsonl.gz"]),
        (
            ["train-00001-of-00002.parquet", "train-00000-of-00002.parquet", "test-00000-of-00001.parquet"],
            ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"],
        ),
        (["data/train-00000-of-00001-0a1b.parquet"], ["data/train-00000-of-00001-0a1b.parquet"]),
        (["train/b.jsonl", "train/a.jsonl", "test/a.jsonl"], ["train/a.jsonl", "train/b.jsonl"]),
        (["data/train/0000.parquet"], ["data/train/0000.parquet"]),
        (["train/_SUCCESS", "train/.part.jsonl", "train/part.jsonl", ".train.json"], ["train/part.jsonl"]),
        (["pre-train.jsonl", "train.jsonl", "train-hard.jsonl"], ["train.jsonl"]),
    ],
)
def test_the_files_of_a_split_are_found_in_order(there: list[str], files: list[str]) -> None:
    assert chosen(*there) == tuple(files)


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ([], "FOLDER has no problems in it; a folder holds train as one file .train.jsonl; also .jsonl.gz"),
        (["README.md"], "FOLDER has no problems in it"),
        (
            ["test.csv", "dev/a.json", "more-00000-of-00001.arrow"],
            r"dataset.split: FOLDER has no split 'train' \(there are: dev, more, test\)",
        ),
        (
            ["train.csv", "train.jsonl"],
            r"FOLDER has the split 'train' more than once \(train.csv, train.jsonl\); name the file",
        ),
        (
            ["train.csv", "train/a.csv"],
            r"the split 'train' more than once \(train.csv, train/\*.csv\)",
        ),
        (
            ["train-00000-of-00003.parquet", "train-00002-of-00003.parquet"],
            r"of train-\*-of-00003.parquet the file with number 00001 is missing \(2 of 3 are there\)",
        ),
        (["train/x-00001-of-00002.csv"], r"of train/\*.csv the file with number 00000 is missing"),
        (
            ["train-00000-of-00001.parquet", "train-00000-of-00002.parquet", "train-00001-of-00002.parquet"],
            "more than once",
        ),
    ],
)
def test_a_folder_without_the_whole_split_is_refused(there: list[str], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        chosen(*there)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"dataset_dict.json": {"splits": ["a", "b"]}}, r"no split 'train' \(there are: a, b\)"),
        ({"dataset_dict.json": [1]}, "FOLDER/dataset_dict.json: damaged; it has no list of splits"),
        ({"state.json": {}}, "FOLDER/state.json: damaged; it names no data files"),
        ({"state.json": {"_data_files": []}}, "it names no data files"),
        ({"state.json": {"_data_files": [{"filename": "../x.arrow"}]}}, "'../x.arrow' is no name of a data"),
        ({"state.json": {"_data_files": ["x"]}}, "None is no name of a data file"),
    ],
)
def test_a_damaged_saved_data_set_is_refused(files: dict[str, object], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        chosen(files=files)


def test_what_save_to_disk_writes_is_read(tmp_path: Path) -> None:
    train = datasets.Dataset.from_list([{"q": f"{n}"} for n in range(5)])
    both = datasets.DatasetDict({"train": train, "test": datasets.Dataset.from_list([{"q": "t"}])})
    both.save_to_disk(str(tmp_path / "both"), num_shards={"train": 2, "test": 1})
    train.save_to_disk(str(tmp_path / "one"))
    rows = [{"q": f"{n}"} for n in range(5)]
    found = load_dataset(Description("both"), tmp_path)
    assert list(found.rows) == rows
    assert found.description == f"{tmp_path / 'both'} [train] (5 problems)"
    assert list(load_dataset(Description("both", "test"), tmp_path).rows) == [{"q": "t"}]
    assert load_dataset(Description("one"), tmp_path).digest == found.digest
    with pytest.raises(DatasetError, match=r"no split 'dev' \(there are: train, test\)"):
        load_dataset(Description("both", "dev"), tmp_path)


def test_a_saved_data_set_without_one_of_its_files_says_which(tmp_path: Path) -> None:
    datasets.Dataset.from_list([{"q": "x"}]).save_to_disk(str(tmp_path / "set"))
    (tmp_path / "set" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(DatasetError, match="cannot read .*data-00000-of-00001.arrow: No such file"):
        load_dataset(Description("set"), tmp_path)


def test_shards_are_one_data_set_and_places_name_the_shard(tmp_path: Path) -> None:
    write(tmp_path, '{"q": 1}\n{"q": 2}\n', "set/train-00000-of-00002.jsonl")
    write(tmp_path, '{"q": 3}\n{"q":\n', "set/train-00001-of-00002.jsonl")
    found = load_dataset(Description("set", max_problems=3), tmp_path)
    assert [row["q"] for row in found.rows] == [1, 2, 3]
    assert found.description == f"{tmp_path / 'set'} [train] (3 problems)"
    with pytest.raises(DatasetError, match="train-00001-of-00002.jsonl line 2: not JSON"):
        load_dataset(Description("set"), tmp_path)


def test_a_mounted_claim_is_read_like_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARTES_CLAIMS", str(tmp_path))
    write(tmp_path, '{"q": 1}\n', "team/sets/train.jsonl")
    assert list(load_dataset(Description("pvc://team/sets"), tmp_path).rows) == [{"q": 1}]
    with pytest.raises(DatasetError, match="there is no file .*team/sets/no.jsonl"):
        load_dataset(Description("pvc://team/sets/no.jsonl"), tmp_path)
