"""Data sets in object stores are those of a folder; refusals and outages are told apart."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dartes.data import DatasetError, load_dataset
from dartes.data.bucket import BucketStorage
from dartes.data.dataset import rows_of_parts
from dartes.data.storage import parts_of
from dartes.destinations import bucket as bucket_module
from dartes.errors import ConfigurationError, TransientError

from ...s3_server import refuse_after, s3_server
from .kit import Description, write

ROWS = [{"q": f"{number}", "n": number} for number in range(50)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), sink, row_group_size=20)
    return sink.getvalue()


def test_objects_below_a_prefix_are_laid_out_like_files() -> None:
    files = fsspec.filesystem("memory", skip_instance_cache=True)
    try:
        for name in ("train/b.csv", "train/a.csv", "train2/c.csv", "deep/1/2/train.csv"):
            files.pipe_file(f"/bucket/set/{name}", b"q\n1\n")
        storage = BucketStorage("gs://bucket/set", "bucket/set", _Plain(files))
        names = [part.name for part in parts_of(storage, "train")]
        assert names == ["gs://bucket/set/train/a.csv", "gs://bucket/set/train/b.csv"]
        one = BucketStorage("gs://bucket/set/train/a.csv", "bucket/set/train/a.csv", _Plain(files))
        (part,) = parts_of(one, "test")
        assert (part.name, part.suffix) == ("gs://bucket/set/train/a.csv", ".csv")
        with part.open() as file:
            assert file.read() == b"q\n1\n"
        with pytest.raises(DatasetError, match="there is nothing at gs://bucket/no"):
            parts_of(BucketStorage("gs://bucket/no", "bucket/no", _Plain(files)), "train")
    finally:
        files.rm("/bucket", recursive=True)


class _Plain:
    """A file system in memory that names objects without a slash before them, as the stores do."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def isfile(self, path: str) -> bool:
        return bool(self._files.isfile(path))

    def find(self, path: str) -> list[str]:
        return [str(name).lstrip("/") for name in self._files.find(path)]

    def open(self, path: str, mode: str, **_: object) -> Any:
        return self._files.open(path, mode)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(scope="module")
def bucket(server: str) -> Any:
    """A bucket `sets` on the server."""
    files = fsspec.filesystem(
        "s3",
        key="key",
        secret="secret",
        client_kwargs={"endpoint_url": server},
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    files.mkdir("sets")
    return files


@pytest.fixture
def store(server: str, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The bucket's file system, and the environment of a pod that may read it."""
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    return bucket


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", LINES), ("a.jsonl.gz", gzip.compress(LINES, mtime=0)), ("a.parquet", parquet())],
)
def test_an_object_is_the_data_set_of_its_file(store: Any, tmp_path: Path, name: str, content: bytes) -> None:
    store.pipe_file(f"sets/one/{name}", content)
    write(tmp_path, content, name)
    found = load_dataset(Description(f"s3://sets/one/{name}"), tmp_path)
    assert list(found.rows) == ROWS
    assert found.description == f"s3://sets/one/{name} (50 problems)"
    assert found.digest == load_dataset(Description(name), tmp_path).digest


@pytest.mark.slow
def test_a_prefix_is_read_as_a_folder_shard_by_shard(store: Any, tmp_path: Path) -> None:
    store.pipe_file("sets/two/data/train-00001-of-00002.jsonl", LINES[len(LINES) // 2 :].split(b"\n", 1)[1])
    store.pipe_file("sets/two/data/train-00000-of-00002.parquet", parquet())
    with pytest.raises(DatasetError, match="s3://sets/two has the split 'train' more than once"):
        load_dataset(Description("s3://sets/two"), tmp_path)
    store.rm_file("sets/two/data/train-00000-of-00002.parquet")
    store.pipe_file("sets/two/data/train-00000-of-00002.jsonl", b'{"q": "first"}\n{"q"')
    with pytest.raises(DatasetError, match="s3://sets/two/data/train-00000-of-00002.jsonl line 2: not JSON"):
        load_dataset(Description("s3://sets/two"), tmp_path)
    store.pipe_file("sets/two/data/train-00000-of-00002.jsonl", b'{"q": "first"}\n')
    rows = load_dataset(Description("s3://sets/two"), tmp_path).rows
    assert [rows[0], rows[-1]] == [{"q": "first"}, ROWS[-1]]
    with pytest.raises(DatasetError, match=r"s3://sets/two has no split 'dev' \(there are: train\)"):
        load_dataset(Description("s3://sets/two", "dev"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["s3://sets/nothing", "s3://no-bucket/a.jsonl", "s3://no-bucket"])
def test_nothing_there_is_said(store: Any, tmp_path: Path, source: str) -> None:
    with pytest.raises(DatasetError, match=f"there is nothing at {source}|{source}.*no such bucket"):
        load_dataset(Description(source), tmp_path)


@pytest.mark.slow
def test_refused_access_names_the_secret(store: Any, server: str, tmp_path: Path) -> None:
    store.pipe_file("sets/three/a.jsonl", LINES)
    refuse_after(server, "0")
    try:
        with pytest.raises(DatasetError, match=r"access is refused .*dataset\.secretRef"):
            load_dataset(Description("s3://sets/three/a.jsonl"), tmp_path)
    finally:
        refuse_after(server, "inf")


@pytest.mark.slow
def test_missing_credentials_say_which(store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(
        ConfigurationError, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY|access is refused"
    ):
        load_dataset(Description("s3://sets/three/a.jsonl"), tmp_path)


@pytest.mark.slow
def test_a_store_that_is_away_is_worth_another_try(
    store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(bucket_module, "ATTEMPTS", 1)
    with pytest.raises(TransientError, match="s3://sets/one/a.jsonl.*trying again may help"):
        load_dataset(Description("s3://sets/one/a.jsonl"), tmp_path)


@pytest.mark.slow
def test_an_object_that_goes_away_while_it_is_read_is_no_shorter_data_set(store: Any, tmp_path: Path) -> None:
    # Larger than a block, so that it is asked for more than once.
    line = json.dumps({"q": "x" * 500_000}).encode() + b"\n"
    store.pipe_file("sets/four/a.jsonl", line * 40)
    storage = BucketStorage("s3://sets/four/a.jsonl", "sets/four/a.jsonl", store)
    rows = rows_of_parts(storage, parts_of(storage, "train"))
    assert len(str(next(rows)[1]["q"])) == 500_000
    store.rm_file("sets/four/a.jsonl")
    with pytest.raises(DatasetError, match="no such bucket or object"):
        list(rows)


def test_without_the_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "filesystem", missing)
    with pytest.raises(ConfigurationError, match=r"pip install '\.\[remote\]' in a clone"):
        load_dataset(Description("s3://sets/a.jsonl"), tmp_path)
