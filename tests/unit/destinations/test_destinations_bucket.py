"""An object store, asked over HTTP as in earnest: all or nothing, delivered once, and refusals in words."""

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from dartes.checkpoint import PROVENANCE_FILE
from dartes.destinations import bucket as bucket_module
from dartes.destinations import deliver, open_destination
from dartes.destinations.bucket import STARTED_MARKER
from dartes.errors import ConfigurationError, TransientError

from ...s3_server import s3_server
from .models import ROW_HASH, Builder

pytestmark = pytest.mark.slow  # not for `make test-fast`

URI = "s3://models/runs/a"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An S3 server of this machine; gives its address."""
    with s3_server() as address:
        yield address


@pytest.fixture
def store(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """An empty bucket `models` on the server, and the environment of an export pod that may write to it."""
    reset = urllib.request.Request(f"{server}/moto-api/reset", method="POST")
    with urllib.request.urlopen(reset, timeout=10):
        pass
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    files = fsspec.filesystem(
        "s3", client_kwargs={"endpoint_url": server}, use_listings_cache=False, skip_instance_cache=True
    )
    files.mkdir("models")
    return files


def names(store: Any) -> set[str]:
    return {str(path).removeprefix("models/runs/a/") for path in store.find("models/runs/a")}


def test_a_model_is_uploaded_once_and_found_the_second_time(store: Any, tmp_path: Path) -> None:
    build = Builder()
    for already in (False, True):
        done = deliver(open_destination(URI), ROW_HASH, build)
        assert (done.uri, done.weight_digest, done.iteration, done.already) == (URI, build.digest, 4, already)
    assert build.calls == 1
    assert names(store) == build.names
    assert store.cat_file("models/runs/a/model.safetensors") == build.content("model.safetensors")
    assert list((tmp_path / "cache").iterdir()) == [], "nothing stays on the pod's own volume"


def test_a_large_file_goes_up_in_parts(store: Any) -> None:
    weights = os.urandom(1024) * (60 * 1024)
    deliver(open_destination(URI), ROW_HASH, Builder(weights))
    assert store.info("models/runs/a/model.safetensors")["size"] == len(weights)
    assert store.cat_file("models/runs/a/model.safetensors") == weights


def test_an_upload_that_was_cut_short_is_done_again(store: Any) -> None:
    store.pipe_file(f"models/runs/a/{STARTED_MARKER}", b"x")
    store.pipe_file("models/runs/a/model.safetensors", b"half")
    store.pipe_file("models/runs/a/model-00001-of-00002.safetensors", b"of an older attempt")
    build = Builder()
    assert not deliver(open_destination(URI), ROW_HASH, build).already
    assert names(store) == build.names
    assert store.cat_file("models/runs/a/model.safetensors") == build.content("model.safetensors")


def test_the_provenance_goes_up_last(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    place = open_destination(URI)
    sent: list[str] = []
    files = vars(place)["_files"]
    put = files.put_file

    def recording(local: str, remote: str) -> None:
        sent.append(remote.rpartition("/")[2])
        assert STARTED_MARKER in names(store), "the marker stands while files go up"
        put(local, remote)

    monkeypatch.setattr(files, "put_file", recording)
    build = Builder()
    deliver(place, ROW_HASH, build)
    assert sent[-1] == PROVENANCE_FILE
    assert set(sent) == build.names


def test_another_model_there_is_refused_and_kept(store: Any) -> None:
    deliver(open_destination(URI), ROW_HASH, Builder())
    with pytest.raises(ConfigurationError, match="holds another model"):
        deliver(open_destination(URI), "ff" * 32, Builder())
    assert names(store) == Builder().names


def test_what_somebody_else_has_put_there_is_never_touched(store: Any) -> None:
    store.pipe_file("models/runs/a/data.csv", b"mine")
    build = Builder()
    with pytest.raises(ConfigurationError, match=r"holds 'data\.csv', and no exported model"):
        deliver(open_destination(URI), ROW_HASH, build)
    assert build.calls == 0
    assert names(store) == {"data.csv"}
    store.pipe_file(f"models/runs/a/{PROVENANCE_FILE}", b"{}")
    with pytest.raises(ConfigurationError, match=r"its dartes\.json isn't one of ours"):
        deliver(open_destination(URI), ROW_HASH, build)


def test_a_neighbour_with_a_longer_name_is_another_place(store: Any) -> None:
    store.pipe_file("models/runs/a2/data.csv", b"mine")
    assert not deliver(open_destination(URI), ROW_HASH, Builder()).already
    assert store.cat_file("models/runs/a2/data.csv") == b"mine"


def test_a_missing_bucket_is_found_before_the_model_is_built(store: Any) -> None:
    build = Builder()
    with pytest.raises(ConfigurationError, match="no such bucket .*; make it, or correct the name"):
        deliver(open_destination("s3://elsewhere/a"), ROW_HASH, build)
    assert build.calls == 0


def test_refused_access_names_the_secret(store: Any, server: str) -> None:
    def calls_without_check(count: str) -> None:
        url, plain = f"{server}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        request = urllib.request.Request(url, data=count.encode(), headers=plain, method="POST")
        with urllib.request.urlopen(request, timeout=10):
            pass

    calls_without_check("0")
    try:
        with pytest.raises(ConfigurationError, match=r"access is refused .*export\.secretRef"):
            deliver(open_destination(URI), ROW_HASH, Builder())
    finally:
        calls_without_check("inf")


def test_missing_credentials_say_which(store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(
        ConfigurationError, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY|access is refused"
    ):
        deliver(open_destination(URI), ROW_HASH, Builder())


def test_a_store_that_is_away_is_worth_another_try(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(bucket_module, "ATTEMPTS", 1)
    with pytest.raises(TransientError, match="trying again may help"):
        deliver(open_destination(URI), ROW_HASH, Builder())


def test_an_object_that_arrives_short_is_no_success(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    place = open_destination(URI)
    files = vars(place)["_files"]
    put = files.put_file
    monkeypatch.setattr(files, "put_file", lambda _, remote: files.pipe_file(remote, b"short"))
    with pytest.raises(TransientError, match=r"config\.json has 5 bytes there and 2 here"):
        deliver(place, ROW_HASH, Builder())
    assert PROVENANCE_FILE not in names(store)
    monkeypatch.setattr(files, "put_file", put)
    assert not deliver(place, ROW_HASH, Builder()).already


def test_google_storage_goes_through_the_same_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    place = open_destination("gs://models/runs/a")
    assert "gs" in vars(place)["_files"].protocol
    memory = fsspec.filesystem("memory", skip_instance_cache=True)
    monkeypatch.setattr(place, "_files", memory)
    monkeypatch.setattr(place, "_path", "/models/runs/a")
    build = Builder()
    assert not deliver(place, ROW_HASH, build).already
    assert deliver(place, ROW_HASH, build).already
    assert json.loads(memory.cat_file(f"/models/runs/a/{PROVENANCE_FILE}"))["journal_hash"] == ROW_HASH
