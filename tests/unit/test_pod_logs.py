"""Log lines: for people as ever, for a cluster one JSON object each, whoever writes."""

import datetime
import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from dartes import logs


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging is the process's own; each test leaves it as it was."""
    root, hook = logging.getLogger(), threading.excepthook
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(False)
    threading.excepthook = hook


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


@pytest.fixture
def in_pod(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO) -> logs.LogFields:
    for name, value in (("JOB", "addition"), ("POD", "addition-worker-0"), ("NAMESPACE", "team")):
        monkeypatch.setenv(f"DARTES_{name}", value)
    monkeypatch.setenv("DARTES_LOG_FORMAT", "json")
    return logs.set_up("worker-0")


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_when_who_and_what(in_pod: logs.LogFields, stderr: io.StringIO) -> None:
    logging.getLogger("dartes.some.place").warning("%d of\n%d", 3, 4)
    (line,) = lines(stderr)
    at = datetime.datetime.fromisoformat(line.pop("time"))
    assert at.utcoffset() == datetime.timedelta(0)
    assert abs((datetime.datetime.now(datetime.UTC) - at).total_seconds()) < 60
    assert line == {
        "level": "WARNING",
        "logger": "dartes.some.place",
        "message": "3 of\n4",
        "role": "worker-0",
        "job": "addition",
        "pod": "addition-worker-0",
        "namespace": "team",
    }


def test_the_incarnation_is_said_as_soon_as_it_is_known(in_pod: logs.LogFields, stderr: io.StringIO) -> None:
    log = logging.getLogger("dartes")
    log.info("before")
    in_pod.note(incarnation=3)
    log.info("after")
    in_pod.note(incarnation=4)
    log.info("later")
    assert [line.get("incarnation") for line in lines(stderr)] == [None, 3, 4]


@pytest.mark.usefixtures("in_pod")
def test_an_exception_is_a_field_of_its_line(stderr: io.StringIO) -> None:
    try:
        raise ValueError("bits")
    except ValueError:
        logging.getLogger("dartes").exception("no luck")
    (line,) = lines(stderr)
    assert line["message"] == "no luck"
    assert line["exception"].splitlines()[0] == "Traceback (most recent call last):"
    assert line["exception"].splitlines()[-1] == "ValueError: bits"


@pytest.mark.usefixtures("in_pod")
def test_warnings_and_errors_of_threads_are_lines_too(stderr: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)  # within this block, whose end undoes it
        warnings.warn("of a library", stacklevel=1)
    # As the interpreter calls it; a thread that really failed would be told to pytest instead.
    error = RuntimeError("in a thread")
    threading.excepthook(threading.ExceptHookArgs((RuntimeError, error, None, threading.current_thread())))
    warning, of_thread = lines(stderr)
    assert "of a library" in warning["message"]
    assert "RuntimeError: in a thread" in of_thread["exception"]


def test_people_get_time_level_role_and_words(stderr: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DARTES_LOG_FORMAT", raising=False)
    monkeypatch.setattr(sys, "stderr", stderr)  # once more: between set-up and test it is put back
    logs.set_up("coordinator").note(incarnation=3)
    logging.getLogger("dartes.some.place").info("words")
    at, level, role, words = stderr.getvalue().split(maxsplit=3)
    assert (len(at), level, role, words) == (8, "INFO", "coordinator", "words\n")
