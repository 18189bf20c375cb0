"""Running other programs, waiting for conditions and speaking to the user: the helpers of every other module.

Knows nothing of clusters. A failure that a user can mend is a `ClusterError` with one plain message.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

POLL_SECONDS: Final = 0.1
Found = TypeVar("Found")


class ClusterError(Exception):
    """The command can't be done; the message says why and what to do."""


def say(text: str) -> None:
    """One line for the user, at once."""
    sys.stdout.write(f"testcluster: {text}\n")
    sys.stdout.flush()


def run(command: Sequence[str | Path], **environment: str) -> str:
    """Run a program and return its standard output; ClusterError with its last words when it fails."""
    done = attempt(command, **environment)
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip())[-1500:]
        raise ClusterError(f"{' '.join(map(str, command))}: exit status {done.returncode}: {words}")
    return done.stdout


def attempt(command: Sequence[str | Path], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose failure the caller reads; ClusterError where the program doesn't exist."""
    env = {**clean_environment(), **environment}
    words = [str(word) for word in command]
    try:
        return subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise ClusterError(
            f"no program {words[0]} on PATH; `python -m testcluster packages` installs it"
        ) from None


def clean_environment() -> dict[str, str]:
    """The environment without proxies: nothing that is started here may send the cluster's traffic to one."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def wait_for(what: str, probe: Callable[[], Found | None], seconds: float = 60.0) -> Found:
    """Ask until the answer is true and return it; OSError and ClusterError count as no.

    ClusterError after `seconds`, with the last error's words."""
    deadline = time.monotonic() + seconds
    last = ""
    while True:
        try:
            if found := probe():
                return found
        except (OSError, ClusterError) as error:
            last = f" ({error})"
        if time.monotonic() > deadline:
            raise ClusterError(f"no {what} within {seconds:g} s{last}")
        time.sleep(POLL_SECONDS)


def write(path: Path, value: object) -> Path:
    """Write text as it is and anything else as JSON, whole or not at all; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(value if isinstance(value, str) else json.dumps(value, indent=1))
    partial.replace(path)
    return path


def read(path: Path) -> str:
    """The file's text, or nothing where it doesn't exist or has just vanished."""
    try:
        return path.read_text()
    except OSError:
        return ""


@contextmanager
def locked(path: Path, seconds: float = 1800.0) -> Iterator[None]:
    """Hold the lock file, so that two commands don't build, start or stop at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        told = False

        def take() -> bool:
            nonlocal told
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    sys.stderr.write(f"testcluster: another command holds {path}; waiting\n")
                    told = True
                return False
            return True

        wait_for(f"lock {path}", take, seconds)
        yield
