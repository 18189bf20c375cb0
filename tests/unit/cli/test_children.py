"""The processes of a local run: their last words are kept, and none outlives its parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from dartes.cli.children import Child, describe_exit
from dartes.lifeline import VARIABLE

from ...waiting import DEADLINE_SECONDS, until


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Child]:
    """Starts a process that runs some code, with a log file that an earlier one has written to."""
    log = tmp_path / "logs" / "child.log"

    def start(code: str) -> Child:
        (tmp_path / "childs_code.py").write_text(code)
        return Child("child", "childs_code", [], log, {"PYTHONPATH": str(tmp_path)})

    log.parent.mkdir()
    log.write_text("19:00:00 ERROR child from an earlier life\n")
    return start


def ended(child: Child) -> int:
    """Wait for its end; returns the exit code."""
    until(lambda: child.exit_code() is not None, "the child's end")
    code = child.exit_code()
    assert code is not None
    return code


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("19:00:01 ERROR child one\\n19:00:02 ERROR child two\\n19:00:03 INFO child bye", "two"),
        ("19:00:01 INFO child hello\\n\\n", "hello"),
        ("Traceback (most recent call last):\\n  ...\\nValueError: boo", "ValueError: boo"),
        ("", "it printed nothing"),
        ("\\xff\\xfe", "\ufffd\ufffd"),
    ],
)
def test_the_last_words_are_the_last_error_or_the_last_line_of_this_life(
    child: Callable[[str], Child], printed: str, words: str
) -> None:
    code = f"import os, sys; os.write(2, b'{printed}'); sys.exit(75)"
    process = child(code)
    assert ended(process) == 75
    assert process.last_words() == words
    process.end(1.0)


def test_a_child_is_asked_to_leave_and_then_made_to(child: Callable[[str], Child]) -> None:
    code = (
        "import signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\n"
        "threading.Event().wait()"
    )
    process = child(code)
    until(lambda: process.last_words() == "ready", "the child's first word")
    process.end(0.05)
    assert process.exit_code() == -signal.SIGKILL
    process.end(0.05)


def test_a_child_whose_parent_is_killed_goes_away(tmp_path: Path) -> None:
    (tmp_path / "childs_code.py").write_text(
        "import threading; from dartes.lifeline import follow_parent\n"
        "follow_parent(); print('ready', flush=True); threading.Event().wait()"
    )
    parents_code = (
        "import pathlib, threading; from dartes.cli.children import Child\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "child = Child('c', 'childs_code', [], folder / 'log', {'PYTHONPATH': str(folder)})\n"
        "print(child.pid, flush=True); threading.Event().wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", parents_code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    orphan = psutil.Process(int(parent.stdout.readline()))
    until(lambda: (tmp_path / "log").read_text() == "ready\n", "the orphan's first word")
    assert orphan.is_running()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    psutil.wait_procs([orphan], timeout=DEADLINE_SECONDS)
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("held", [True, False])
def test_only_a_parent_that_holds_the_line_is_followed(held: bool) -> None:
    code = (
        "import threading; from dartes.lifeline import follow_parent; follow_parent()\n"
        "print([thread.name for thread in threading.enumerate()])"
    )
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, **({VARIABLE: "1"} if held else {})},
    ) as process:
        assert process.stdout is not None
        assert ("lifeline" in process.stdout.read()) == held


def test_exits_are_described_in_words() -> None:
    assert describe_exit(75) == "ended with exit code 75"
    assert describe_exit(-9) == "was killed by SIGKILL"
