"""A volume takes a model whole or not at all, once; what else lies there is never touched."""

import errno
from pathlib import Path

import pytest

from dartes.checkpoint import PROVENANCE_FILE
from dartes.destinations import deliver, open_destination
from dartes.destinations.base import parse_provenance
from dartes.errors import ConfigurationError, TransientError
from dartes.journal import Exported
from dartes.pod_claims import ROOT_VARIABLE

from .models import ROW_HASH, Builder


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mounted claim of the name `models`."""
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def test_a_model_is_written_once_and_found_the_second_time(claim: Path) -> None:
    build = Builder()
    for already in (False, True):
        done = deliver(open_destination("pvc://models/runs/a"), ROW_HASH, build)
        assert (done.uri, done.iteration, done.already) == ("pvc://models/runs/a", 4, already)
        assert done.weight_digest == build.digest
    assert build.calls == 1
    assert {path.name for path in (claim / "runs" / "a").iterdir()} == build.names
    assert [path.name for path in (claim / "runs").iterdir()] == ["a"]


def test_another_model_there_is_refused_and_kept(claim: Path) -> None:
    deliver(open_destination("pvc://models/a"), ROW_HASH, Builder())
    before = (claim / "a" / PROVENANCE_FILE).read_bytes()
    with pytest.raises(
        ConfigurationError, match=r"holds another model \(iteration 4, .*name another path or"
    ):
        deliver(open_destination("pvc://models/a"), "ff" * 32, Builder())
    assert (claim / "a" / PROVENANCE_FILE).read_bytes() == before


@pytest.mark.parametrize("content", ["weights.bin", PROVENANCE_FILE])
def test_what_somebody_else_has_put_there_is_never_touched(content: str, claim: Path) -> None:
    (claim / "a").mkdir()
    (claim / "a" / content).write_text("mine")
    build = Builder()
    with pytest.raises(ConfigurationError, match="no exported model; name another path or remove it"):
        deliver(open_destination("pvc://models/a"), ROW_HASH, build)
    assert build.calls == 0
    assert (claim / "a" / content).read_text() == "mine"


def test_a_file_of_that_name_is_refused(claim: Path) -> None:
    (claim / "a").write_text("mine")
    with pytest.raises(ConfigurationError, match="is a file"):
        deliver(open_destination("pvc://models/a"), ROW_HASH, Builder())


def test_an_empty_folder_may_be_filled(claim: Path) -> None:
    (claim / "a").mkdir()
    assert not deliver(open_destination("pvc://models/a"), ROW_HASH, Builder()).already


def test_what_a_killed_attempt_left_is_removed(claim: Path) -> None:
    left = claim / ".a.partial-01234567"
    left.mkdir()
    (left / "model.safetensors").write_bytes(bytes(1000))
    deliver(open_destination("pvc://models/a"), ROW_HASH, Builder())
    assert [path.name for path in claim.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("pvc://models", "must be pvc://claim/path, with a path inside the claim"),
        ("pvc://models/", "must be pvc://claim/path, with a path inside the claim"),
        ("pvc://models/.", "with a path inside the claim"),
        ("pvc://models/../other", r"without '\.\.'"),
        ("pvc://nowhere/a", "not mounted"),
        ("file:///tmp/a", "can't be written to from here; allowed: pvc://, s3://, gs://, hf://"),
        ("builtin://addition", "can't be written to from here"),
        ("s3://bucket", "must be s3://bucket/path, with a path"),
        ("gs://bucket/", "must be gs://bucket/path, with a path"),
        ("hf://name", "must be hf://org/name"),
        ("hf://datasets/org/name", "must be hf://org/name"),
        ("ftp://x/y", "unknown scheme"),
    ],
)
def test_what_cannot_be_a_destination_says_what_can(uri: str, words: str, claim: Path) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        open_destination(uri)
    assert "export.destination = " in str(caught.value)


def test_a_volume_that_is_not_writable_is_a_configuration_error(claim: Path) -> None:
    def refuse(output: Path) -> Exported:
        raise PermissionError(errno.EROFS, "Read-only file system", str(output))

    with pytest.raises(
        ConfigurationError, match="Read-only file system .*must be writable for the export pod"
    ):
        open_destination("pvc://models/a").place(refuse)


def test_a_volume_that_stops_answering_is_worth_another_try(claim: Path) -> None:
    def fail(output: Path) -> Exported:
        raise OSError(errno.EIO, "Input/output error", str(output))

    with pytest.raises(TransientError, match="Input/output error"):
        open_destination("pvc://models/a").place(fail)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"journal_hash": "a"}', b"\xff"])
def test_what_is_no_provenance_is_nothing(content: bytes) -> None:
    assert parse_provenance(content) is None
