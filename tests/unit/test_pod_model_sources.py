"""Where a model lies in a cluster: on a mounted claim, or in a cache of the hub that workers may share."""

import errno
import fcntl
import logging
import os
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest

from dartes.errors import ConfigurationError, TransientError
from dartes.model_source import resolve_model
from dartes.pod_cache import LOCK_POLL_SECONDS, WAIT_SECONDS, from_shared_cache
from dartes.pod_claims import ROOT_VARIABLE, claim_path

# Claims --------------------------------------------------------------------------------------------


@pytest.fixture
def claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "claims"))
    (tmp_path / "claims" / "models" / "tiny").mkdir(parents=True)
    return tmp_path / "claims"


def test_a_claim_is_found_where_it_is_mounted(claims: Path) -> None:
    assert resolve_model("pvc://models/tiny", None, Path("/job")) == claims / "models" / "tiny"
    assert resolve_model("pvc://models/", None, Path("/job")) == claims / "models"
    assert claim_path("dataset.source", "models/a/b.jsonl") == claims / "models" / "a" / "b.jsonl"


def test_a_claim_that_is_not_mounted_is_told_with_where_it_would_be(claims: Path) -> None:
    words = (
        r"model.source = 'pvc://other/tiny': the claim 'other' is not mounted .*only for jobs in a cluster"
    )
    with pytest.raises(ConfigurationError, match=words):
        resolve_model("pvc://other/tiny", None, Path("/job"))


def test_a_folder_that_a_claim_lacks_is_told(claims: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"no folder {claims}/models/none$"):
        resolve_model("pvc://models/none", None, Path("/job"))


@pytest.mark.parametrize("rest", ["models/../../etc", "/models/tiny", ".."])
def test_a_path_stays_within_its_claim(claims: Path, rest: str) -> None:
    with pytest.raises(ConfigurationError, match="must be pvc://CLAIM/PATH"):
        claim_path("model.source", rest)


def test_without_the_variable_claims_lie_where_the_operator_mounts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ROOT_VARIABLE, raising=False)
    with pytest.raises(ConfigurationError, match=r"not mounted here \(/mnt/dartes/pvc/no-such\)"):
        claim_path("model.source", "no-such/model")


# The shared cache ----------------------------------------------------------------------------------


class Hub:
    """A download that makes a snapshot's folder as the hub's library does; counts what it is asked."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.calls: list[tuple[str | None, bool]] = []
        self.while_downloading: Callable[[], object] = lambda: None

    def fetch(self, revision: str | None, offline: bool) -> Path:
        self.calls.append((revision, offline))
        commit = "c0ffee" if revision in {None, "main"} else str(revision)
        folder = self.home / "hub" / "models--org--tiny" / "snapshots" / commit
        if offline and not folder.is_dir():
            raise TransientError(f"no {commit}")
        if not offline:
            self.while_downloading()
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def model(self, revision: str | None = None, **options: Callable[..., float | None]) -> Path:
        return from_shared_cache(self.home, "org/tiny", revision, self.fetch, **options)  # type: ignore[arg-type]


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path / "cache")


def test_what_one_has_downloaded_the_next_takes_without_the_hub(hub: Hub) -> None:
    assert hub.model() == hub.model() == hub.model()
    assert hub.calls == [(None, False), ("c0ffee", True), ("c0ffee", True)]


def test_each_revision_is_downloaded_for_itself(hub: Hub) -> None:
    assert hub.model("main").name == "c0ffee"
    assert hub.model("abc").name == "abc"
    assert hub.calls == [("main", False), ("abc", False)]


def test_a_download_that_broke_off_is_begun_again_by_the_next(hub: Hub) -> None:
    def broken() -> None:
        (hub.home / "hub" / "models--org--tiny" / "snapshots" / "c0ffee").mkdir(parents=True)
        raise TransientError("the hub can't be reached")

    hub.while_downloading = broken
    with pytest.raises(TransientError):
        hub.model()
    hub.while_downloading = lambda: None
    hub.model()
    assert hub.calls == [(None, False), (None, False)], "half a model is not taken for one"


def test_a_cache_that_was_cleared_is_filled_again(hub: Hub) -> None:
    hub.model().rmdir()
    assert hub.model().is_dir()
    assert hub.calls[1:] == [("c0ffee", True), ("c0ffee", True), (None, False)]


def test_a_cache_that_is_read_only_is_used_as_it_is(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    hub.fetch("v1", False)
    monkeypatch.setattr(os, "open", read_only)
    assert hub.model("v1").name == "v1"
    assert hub.calls[1:] == [("v1", True)]
    with pytest.raises(ConfigurationError, match="can't be written to and does not hold org/tiny"):
        hub.model("v2")


class Waits:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def test_the_wait_for_another_ones_download_is_told_and_has_an_end(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def held(*_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "held")

    caplog.set_level(logging.INFO)
    monkeypatch.setattr(fcntl, "lockf", held)
    waits = Waits()
    with pytest.raises(TransientError, match="another worker has been downloading org/tiny for 360"):
        hub.model(pause=waits.pause, clock=waits.clock)
    assert WAIT_SECONDS < waits.now <= WAIT_SECONDS + 2 * LOCK_POLL_SECONDS
    said = [record for record in caplog.records if "waiting for it" in record.getMessage()]
    assert 100 <= len(said) <= 125, "every half a minute"


def test_a_file_system_without_locks_lets_everybody_download(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def without(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", without)
    hub.model()
    assert "every worker downloads for itself" in caplog.text


def test_workers_of_a_cluster_go_through_the_cache_and_local_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, object]] = []

    def download(_: str, **named: object) -> str:
        asked.append((named["revision"], named["local_files_only"]))
        (tmp_path / "snapshots" / "abc").mkdir(parents=True, exist_ok=True)
        return str(tmp_path / "snapshots" / "abc")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    for _ in range(2):
        resolve_model("hf://org/name", "v1", tmp_path)
    assert not (tmp_path / "home").exists()
    monkeypatch.setenv("DARTES_POD", "addition-worker-0")
    for _ in range(2):
        assert resolve_model("hf://org/name", "v1", tmp_path).name == "abc"
    assert asked == [("v1", False), ("v1", False), ("v1", False), ("abc", True)]
