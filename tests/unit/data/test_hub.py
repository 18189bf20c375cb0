"""Data sets of the hub: the library itself reads its layout, from folders here; refusals say what to do."""

import importlib
import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import errors as hub_errors

from dartes.data import DatasetError, load_dataset
from dartes.data.hub import HubDataset, one_revision, rows_of_hub
from dartes.errors import TransientError

from .kit import Description, write

CARD = """---
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: main/test-*
- config_name: {other}
  data_files:
  - split: train
    path: other/*.parquet
---
"""
CHAT = [{"role": "user", "content": "Go"}]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library's cache in a folder of the test."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    yield
    if shown:
        datasets.enable_progress_bars()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository of a data set with two configurations."""
    root = tmp_path / "set"
    write(root, CARD.format(other="other"), "README.md")
    shards: list[list[dict[str, Any]]] = [
        [{"q": "a", "m": CHAT}, {"q": "b", "m": []}],
        [{"q": "c", "m": CHAT * 2}],
    ]
    for number, rows in enumerate(shards):
        write(root, parquet(rows), f"main/train-0000{number}-of-00002.parquet")
    write(root, parquet([{"q": "t", "m": CHAT}]), "main/test-00000-of-00001.parquet")
    write(root, parquet([{"q": "o", "image": b"PNG"}]), "other/a.parquet")
    return root


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def wanted(folder: Path | str, config: str | None = "main", split: str = "train") -> HubDataset:
    return HubDataset(str(folder), config, split, None)


def test_a_split_of_a_configuration_comes_in_order_as_json(folder: Path) -> None:
    rows = list(rows_of_hub(wanted(folder)))
    assert [row for _, row in rows] == [{"q": "a", "m": CHAT}, {"q": "b", "m": []}, {"q": "c", "m": CHAT * 2}]
    assert rows[2][0] == f"hf://datasets/{folder} [main, train] row 3"
    assert [row["q"] for _, row in rows_of_hub(wanted(folder, split="test"))] == ["t"]


def test_a_column_of_images_is_left_out_and_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert [row for _, row in rows_of_hub(wanted(folder, "other"))] == [{"q": "o"}]
    assert "are left out: image (binary)" in caplog.text


def test_columns_of_mixed_objects_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [{"id": 1, "kwargs": [{"n": 3}, {}]}, {"id": 2, "kwargs": [{"word": "x"}]}]
    write(tmp_path / "mixed", "".join(json.dumps(row) + "\n" for row in rows), "train.jsonl")
    found: list[Any] = [row for _, row in rows_of_hub(wanted(tmp_path / "mixed", None))]
    assert [row["id"] for row in found] == [1, 2]
    kept = [[{k: v for k, v in item.items() if v is not None} for item in row["kwargs"]] for row in found]
    assert kept == [row["kwargs"] for row in rows]


@pytest.mark.parametrize(
    ("config", "split", "message"),
    [
        (None, "train", r"dataset.config: .*: name one of its configurations \(there are: main, other\)"),
        ("socratic", "train", r"no 'socratic' among its configurations \(there are: main, other\)"),
        ("main", "dev", r"dataset.split: .*main, dev\]: no split 'dev' \(there are: train, test\)"),
    ],
)
def test_an_unknown_configuration_or_split_names_those_there_are(
    folder: Path, config: str | None, split: str, message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        list(rows_of_hub(wanted(folder, config, split)))


def test_a_damaged_file_of_a_data_set_is_no_reason_to_try_again(folder: Path) -> None:
    write(folder, b"PAR1 no more", "main/test-00000-of-00001.parquet")
    with pytest.raises(DatasetError, match=r"hf://datasets/.* \[main, train\]"):
        list(rows_of_hub(wanted(folder)))


def gone(kind: type[hub_errors.HfHubHTTPError]) -> Exception:
    client: Any = importlib.import_module(hub_errors.HfHubHTTPError.__bases__[0].__module__.split(".")[0])
    request = client.Request("GET", "https://hub.example/x")
    return kind("said by the hub", response=client.Response(404, request=request))


def broken_by(cause: Exception) -> Exception:
    error: Exception = datasets.exceptions.DatasetGenerationError("while generating")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (
            lambda: datasets.exceptions.DatasetNotFoundError("Dataset 'o/n' is a gated dataset on the Hub."),
            DatasetError,
            "access is restricted; accept its terms on the hub and set HF_TOKEN",
        ),
        (
            lambda: datasets.exceptions.DatasetNotFoundError("Revision 'v9' doesn't exist for dataset 'o/n'"),
            DatasetError,
            "it has no revision 'v9'",
        ),
        (
            lambda: datasets.exceptions.DatasetNotFoundError("Dataset 'o/n' doesn't exist on the Hub"),
            DatasetError,
            "no such data set, or a private one; check the name, or set HF_TOKEN",
        ),
        (lambda: gone(hub_errors.GatedRepoError), DatasetError, "access is restricted"),
        (lambda: gone(hub_errors.RepositoryNotFoundError), DatasetError, "no such data set"),
        (lambda: gone(hub_errors.RevisionNotFoundError), DatasetError, "it has no revision 'v9'"),
        (lambda: hub_errors.HFValidationError("bad name"), DatasetError, "bad name"),
        (
            lambda: datasets.exceptions.DataFilesNotFoundError("No (supported) data files found"),
            DatasetError,
            "No .supported. data files",
        ),
        (
            lambda: RuntimeError("Dataset scripts are no longer supported, but found n.py"),
            DatasetError,
            "cannot be read .Dataset scripts are no longer supported",
        ),
        (lambda: FileNotFoundError("it is empty"), DatasetError, "it is empty"),
        (lambda: broken_by(ValueError("bad column")), DatasetError, r"cannot be read \(bad column\)"),
        (lambda: broken_by(ConnectionError("cut off")), TransientError, r"can't be reached .*cut off"),
        (lambda: gone(hub_errors.HfHubHTTPError), TransientError, "the hub can't be reached"),
        (lambda: ConnectionError("Couldn't reach 'o/n' on the Hub"), TransientError, "can't be reached"),
        (lambda: hub_errors.OfflineModeIsEnabled("offline"), TransientError, "not in the local cache"),
        (lambda: OSError(28, "No space left on device"), TransientError, "cannot be fetched .*is there room"),
    ],
)
def test_what_the_libraries_raise_becomes_an_error_with_its_fix(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    raised: Callable[[], Exception],
    kind: type[Exception],
    message: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised()

    monkeypatch.setattr(datasets, "load_dataset_builder", fail)
    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda *_, **__: ["default"])
    with pytest.raises(kind, match=rf"dataset.source: hf://datasets/o/n@v9 \[train\]: .*{message}"):
        load_dataset(Description("hf://datasets/o/n@v9"), tmp_path)


def test_the_libraries_own_lines_about_retries_are_kept_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chatty = logging.getLogger("huggingface_hub.utils._http")

    def retry(*_: object, **__: object) -> None:
        chatty.warning("Retrying in 1s [Retry 1/5].")
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset_builder", retry)
    with pytest.raises(TransientError, match="the hub can't be reached"):
        load_dataset(Description("hf://datasets/o/n"), tmp_path)
    assert caplog.text == ""
    chatty.warning("of other things they speak")
    assert "of other things" in caplog.text


def test_a_hub_that_is_away_is_said_with_the_place_that_the_job_has_it_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset_builder", fail)
    with pytest.raises(TransientError, match=r"^spec\.dataset\.mix\[0\]\.source: hf://datasets/o/n"):
        load_dataset(Description("hf://datasets/o/n"), tmp_path, "dataset.mix[0]")


def test_the_job_asks_the_hub_for_its_revision_with_the_token_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    asked: list[dict[str, Any]] = []
    real = datasets.load_dataset_builder

    def builder(repository: str, *, name: str, revision: str, token: str) -> Any:
        asked.append({"repository": repository, "name": name, "revision": revision, "token": token})
        return real(str(folder), name=name)

    monkeypatch.setattr(datasets, "load_dataset_builder", builder)
    monkeypatch.setenv("HF_TOKEN", "secret")
    found = load_dataset(
        Description("hf://datasets/o/n", config="main", revision="v1", filters={"q": ("c",)}), tmp_path
    )
    assert asked == [{"repository": "hf://datasets/o/n", "name": "main", "revision": "v1", "token": "secret"}]
    assert list(found.rows) == [{"q": "c", "m": CHAT * 2}]
    assert found.description == "hf://datasets/o/n@v1 [main, train] (1 problems)"


def test_in_a_pod_the_workers_that_share_a_cache_take_the_revision_of_the_first(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    asked: list[str | None] = []
    real = datasets.load_dataset_builder

    def builder(_: str, *, name: str, revision: str | None, token: None) -> Any:
        asked.append(revision)
        return real(str(folder), name=name, token=token)

    monkeypatch.setattr(datasets, "load_dataset_builder", builder)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("DARTES_POD", "worker-0")
    digests = {
        load_dataset(Description("hf://datasets/o/n", config="main"), tmp_path).digest for _ in range(2)
    }
    commit = Path(real(str(folder), name="main").cache_dir).name
    assert asked == [None, commit]
    assert len(digests) == 1


def test_progress_bars_are_off_where_the_log_is_json(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    datasets.enable_progress_bars()
    monkeypatch.setenv("DARTES_LOG_FORMAT", "json")
    assert len(list(rows_of_hub(wanted(folder)))) == 3
    assert capfd.readouterr().err == ""


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(DatasetError, match=r"No module named 'datasets'.*pip install '\.\[data\]' in a"):
        list(rows_of_hub(wanted("o/n")))


@pytest.mark.parametrize(
    ("in_source", "in_field", "revision"),
    [(None, None, None), ("a", None, "a"), (None, "b", "b"), ("a", "a", "a")],
)
def test_the_revision_stands_in_either_place(
    in_source: str | None, in_field: str | None, revision: str | None
) -> None:
    assert one_revision(in_source, in_field) == revision


def test_two_revisions_that_differ_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match="dataset.revision: 'b', but dataset.source ends with @a; keep one"
    ):
        load_dataset(Description("hf://datasets/o/n@a", revision="b"), tmp_path)
