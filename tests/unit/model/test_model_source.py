"""`model.source` becomes a folder, or an error that says what to write instead."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from dartes.errors import ConfigurationError, DartesError, TransientError
from dartes.model_source import HUB_FILES, resolve_model


@pytest.mark.parametrize("source", ["models/tiny", "file://models/tiny", "file://{base}/models/tiny"])
def test_paths_start_at_the_job_files_folder(source: str, tmp_path: Path) -> None:
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    assert resolve_model(source.format(base=tmp_path), None, tmp_path) == folder.resolve()


def test_a_built_in_model_is_found_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no built-in model 'nonsense'"):
        resolve_model("builtin://nonsense", None, tmp_path)


@pytest.mark.parametrize(
    ("source", "revision", "message"),
    [
        ("models/none", None, "no folder .*models/none; a model on the hub is written hf://org/name"),
        ("file:///none/such", None, "no folder /none/such$"),
        ("s3://bucket/model", None, "builtin://NAME, hf://org/name"),
        ("file://models/tiny", "main", "model.revision = 'main': only hf://"),
        ("hf://just-a-name", None, "must be hf://org/name"),
        ("hf://a/b/c", None, r"not a repository.s name; allowed: hf://org/name"),
    ],
)
def test_what_is_not_a_model_is_refused_with_what_to_write(
    source: str, revision: str | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        resolve_model(source, revision, tmp_path)


def test_the_hub_is_asked_for_a_revision_and_only_for_usable_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def download(repository: str, **named: object) -> str:
        asked.append((repository, named))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert resolve_model("hf://org/name", "v1", tmp_path) == tmp_path
    named = {"revision": "v1", "allow_patterns": list(HUB_FILES), "local_files_only": False}
    assert asked == [("org/name", named)]


def response(status: int) -> Any:
    return SimpleNamespace(status_code=status, headers={}, request=None)


CLIENT_ERROR: type[Exception] = errors.HfHubHTTPError.__bases__[0]


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (errors.GatedRepoError("gated", response=response(403)), ConfigurationError, "set HF_TOKEN"),
        (errors.RepositoryNotFoundError("none", response=response(404)), ConfigurationError, "no such model"),
        (
            errors.RevisionNotFoundError("none", response=response(404)),
            ConfigurationError,
            "model.revision = 'v1'",
        ),
        (errors.LocalEntryNotFoundError("offline"), TransientError, "not in the local cache"),
        (errors.HfHubHTTPError("busy", response=response(503)), TransientError, "try again"),
        (errors.OfflineModeIsEnabled("offline"), TransientError, "can't be reached"),
        (CLIENT_ERROR("no route"), TransientError, "can't be reached"),
    ],
)
def test_what_the_hub_answers_becomes_an_error_with_advice(
    raised: Exception,
    expected: type[DartesError],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def download(*_: object, **__: object) -> str:
        raise raised

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(expected, match=message):
        resolve_model("hf://org/name", "v1", tmp_path)
