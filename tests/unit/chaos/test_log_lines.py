"""Which lines of the logs count as errors, and which of those an act explains."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.chaos.acts import Act
from tests.chaos.log_lines import EXPECTED, GRACE_SECONDS, Line, Windows, read_line, unexpected

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def line(
    message: str, role: str = "operator", level: str = "ERROR", at: datetime = NOON, logger: str = "x"
) -> Line:
    return Line(role, "pod", at, level, logger, message)


def during(act: Act, begin: datetime, end: datetime | None = None) -> Windows:
    windows = Windows()
    number = windows.begin(act, begin)
    if end:
        windows.end(number, end)
    return windows


def test_a_line_of_ours_is_read_with_its_level() -> None:
    said = json.dumps({"level": "ERROR", "logger": "dartes", "message": "no", "exception": "trace"})
    found = read_line("worker", "red-worker-0", f"2026-01-01T12:00:00.123456789Z stderr F {said}\n")
    assert found is not None
    assert (found.level, found.logger, found.message, found.exception) == ("ERROR", "dartes", "no", "trace")
    assert found.time.replace(microsecond=0) == NOON
    assert found.is_error


@pytest.mark.parametrize(
    ("text", "is_error"),
    [
        ("Traceback (most recent call last):", True),
        ("ERROR something", True),
        ("panic: runtime error", True),
        ("a warning of some library: error rate 0", False),
        ('{"no": "level"}', False),
    ],
)
def test_what_is_no_line_of_ours_is_judged_by_its_words(text: str, is_error: bool) -> None:
    found = read_line("worker", "pod", f"2026-01-01T12:00:00Z stderr F {text}")
    assert found is not None
    assert found.is_error is is_error


def test_what_a_kubelet_did_not_write_is_no_line() -> None:
    assert read_line("worker", "pod", "half a li") is None


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "WARNING"])
def test_what_is_no_error_is_never_unexpected(level: str) -> None:
    assert unexpected([line("a bug", level=level)], Windows()) == []


@pytest.mark.parametrize("level", ["ERROR", "CRITICAL"])
def test_an_error_that_nothing_explains_is_caught(level: str) -> None:
    (found,) = unexpected([line("a bug; tried again in 1 s", level=level)], during(Act.API_FAULT, NOON))
    assert "a bug" in found


def test_an_error_is_expected_only_while_its_act_is_under_way() -> None:
    said = [line("listing fails, nothing is done until it works: 503")]
    assert len(unexpected(said, Windows())) == 1
    assert unexpected(said, during(Act.API_FAULT, NOON)) == []
    assert unexpected(said, during(Act.API_SERVER_RESTARTED, NOON - timedelta(seconds=9), NOON)) == []
    assert len(unexpected(said, during(Act.API_FAULT, NOON + timedelta(seconds=1)))) == 1, "it had not begun"
    assert len(unexpected(said, during(Act.VOLUME_FILLED, NOON))) == 1, "another act explains nothing"
    long_ago = NOON - timedelta(seconds=GRACE_SECONDS + 1)
    assert len(unexpected(said, during(Act.API_FAULT, long_ago, long_ago))) == 1, "it is long over"


def test_an_error_of_one_role_explains_none_of_another() -> None:
    windows = during(Act.VOLUME_FILLED, NOON)
    assert unexpected([line("paused: the disk is full", "coordinator")], windows) == []
    assert len(unexpected([line("paused: the disk is full", "worker")], windows)) == 1


def test_each_expected_error_says_why() -> None:
    assert all(each.because for each in EXPECTED)
