"""The coordinator and worker processes of a local run: start, watch, end, and read their last words."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from dartes.lifeline import VARIABLE
from dartes.pod import FAREWELL

_PREFIX = re.compile(r"^\d\d:\d\d:\d\d (?:ERROR|WARNING|INFO|CRITICAL) \S+ ")


class Child:
    """One process with its log file; it ends when this process does, however that ends."""

    def __init__(
        self, name: str, module: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        self.started = time.monotonic()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._offset = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **environment, VARIABLE: "1"},
                start_new_session=True,  # Ctrl-C is for us; we tell the children what to do
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Exit code, negative signal number, or None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it to leave."""
        if self.exit_code() is None:
            self._process.send_signal(signal.SIGTERM)

    def end(self, seconds: float) -> None:
        """Ask it to leave and, after `seconds`, make it."""
        self.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def last_words(self) -> str:
        """The last error it logged, or the last line it printed, since it started."""
        lines = [line for line in self._lines() if FAREWELL not in line]
        errors = [line for line in lines if " ERROR " in line[:32]]
        words = errors[-1] if errors else (lines[-1] if lines else "it printed nothing")
        return _PREFIX.sub("", words)

    def warnings(self) -> list[str]:
        """The warnings it has logged since it started."""
        return [_PREFIX.sub("", line) for line in self._lines() if " WARNING " in line[:32]]

    def _lines(self) -> list[str]:
        with self.log.open("rb") as file:
            file.seek(self._offset)
            return [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
