"""The outermost edge of a process in a pod: exit codes stay what they are, and last words are left."""

import json
from pathlib import Path

import pytest

from dartes import pod
from dartes.errors import ConfigurationError, DartesError, DrainedError, ExitCode, TransientError


@pytest.fixture
def termination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "termination-log"
    monkeypatch.setenv(pod.TERMINATION_VARIABLE, str(path))
    monkeypatch.delenv("DARTES_LOG_FORMAT", raising=False)
    return path


def failing(error: Exception) -> int:
    def body() -> int:
        raise error

    return pod.outermost(body)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("spec.es.sigma: must be above 0"), ExitCode.CONFIGURATION),
        (TransientError("the disk is full"), ExitCode.TRANSIENT),
        (DrainedError("incarnation 2 has taken over"), ExitCode.DRAINED),
        (DartesError("weights differ"), ExitCode.BUG),
    ],
)
def test_an_expected_error_gives_its_code_and_its_words(
    termination: Path, error: DartesError, code: ExitCode
) -> None:
    assert failing(error) == code
    assert termination.read_text() == str(error)


def test_a_bug_leaves_its_type_and_message_and_goes_on_to_its_traceback(termination: Path) -> None:
    with pytest.raises(KeyError):
        failing(KeyError("slices"))
    assert termination.read_text() == "KeyError: 'slices'"


def test_a_bug_is_logged_whole_where_logs_are_json(
    termination: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DARTES_LOG_FORMAT", "json")
    assert failing(ZeroDivisionError("by nothing")) == ExitCode.BUG
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "ZeroDivisionError: by nothing" in record.getMessage()


def test_a_good_end_leaves_no_words(termination: Path) -> None:
    assert pod.outermost(lambda: ExitCode.DONE) == ExitCode.DONE
    assert not termination.exists()


def test_no_termination_file_is_no_trouble(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(pod.TERMINATION_VARIABLE, str(tmp_path / "none" / "such"))
    assert failing(ConfigurationError("words")) == ExitCode.CONFIGURATION
    monkeypatch.delenv(pod.TERMINATION_VARIABLE)
    assert failing(ConfigurationError("words")) == ExitCode.CONFIGURATION


def test_words_that_are_too_long_keep_their_front_and_their_end(termination: Path) -> None:
    text = "job.yaml: 900 problems: " + "ä€𝄞" * 2000 + " give another file"
    failing(ConfigurationError(text))
    kept = termination.read_bytes()
    assert pod.MESSAGE_BYTES - 8 <= len(kept) <= pod.MESSAGE_BYTES
    words = kept.decode("utf-8")
    assert words.startswith("job.yaml: 900 problems: ä")
    assert " [...] " in words
    assert words.endswith(" give another file")


def test_values_are_left_as_one_line_of_json(termination: Path) -> None:
    pod.last_words_json({"iteration": 20, "journalHash": None, "trainPassRate": 0.5})
    words = termination.read_text()
    assert json.loads(words) == {"iteration": 20, "journalHash": None, "trainPassRate": 0.5}
    assert "\n" not in words
