"""Starts the cluster's daemons and finds them again later: by pid and start time, never by name.

Each runs in the cluster's cgroup, with its own log. Knows nothing of what they do.
"""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .cgroups import DAEMONS, Cgroups
from .commands import ClusterError, clean_environment, read, write
from .paths import Paths

STOP_SECONDS: Final = 3.0
# The shell joins the cgroup before it becomes the program, so that no child can be born outside.
JOIN_AND_BECOME: Final = 'echo 0 > "$0" && exec "$@"'


class Processes:
    """The daemons of the cluster in `paths.state`."""

    def __init__(self, paths: Paths, cgroups: Cgroups) -> None:
        self.paths = paths
        self.cgroups = cgroups
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, command: Sequence[str | Path], **environment: str) -> None:
        """Start a daemon; its output goes to the log NAME.log."""
        procs = self.cgroups.make(DAEMONS) / "cgroup.procs"
        self.paths.logs.mkdir(parents=True, exist_ok=True)
        words = ["sh", "-c", JOIN_AND_BECOME, str(procs), *map(str, command)]
        with (self.paths.logs / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.paths.state,
                start_new_session=True,
                env={**clean_environment(), **environment},
            )
        self._children.append(child)
        write(self._pid_file(name), f"{child.pid} {start_time(child.pid)}")

    def pid(self, name: str) -> int | None:
        """The pid of a daemon while it is that same process and runs."""
        pid, _, began = read(self._pid_file(name)).partition(" ")
        return int(pid) if pid and began and start_time(int(pid)) == began else None

    def stop(self, name: str, seconds: float = STOP_SECONDS) -> None:
        """End a daemon, by force after `seconds`; nothing where it doesn't run."""
        deadline = time.monotonic() + seconds
        if pid := self.pid(name):
            send(pid, signal.SIGTERM)
        while pid := self.pid(name):
            if time.monotonic() > deadline:
                send(pid, signal.SIGKILL)
            time.sleep(0.02)
        self._pid_file(name).unlink(missing_ok=True)

    def kill(self, name: str) -> None:
        """End a daemon as a power cut would."""
        if not (pid := self.pid(name)):
            raise ClusterError(f"{name} doesn't run")
        send(pid, signal.SIGKILL)
        self.stop(name)

    def names(self) -> list[str]:
        """The daemons that were started and not stopped, dead ones included."""
        folder = self.paths.state / "pid"
        return sorted(file.name for file in folder.iterdir()) if folder.exists() else []

    def last_words(self, name: str, lines: int = 5) -> str:
        """The end of a daemon's log."""
        return "\n".join(read(self.paths.logs / f"{name}.log").splitlines()[-lines:])

    def _pid_file(self, name: str) -> Path:
        return self.paths.state / "pid" / name


def start_time(pid: int) -> str:
    """When a process started, in clock ticks: with the pid it names one process. Empty for a dead one.

    One of which only the first thread has ended still has its files and its ports, though it says that it is
    a zombie: that is what a killed process with many threads looks like for a while.
    """
    fields = read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[19] if fields and (fields[0] != "Z" or int(fields[17]) > 1) else ""


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have left meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
