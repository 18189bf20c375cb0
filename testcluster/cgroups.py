"""The cgroup tree in which every process of the cluster lives, so that later commands find them all.

Works with both cgroup versions. Touches only the tree that has this cluster's name.
"""

import os
import signal
import time
from pathlib import Path
from typing import Final

from .commands import ClusterError, read

TOP: Final = Path("/sys/fs/cgroup")
DAEMONS: Final = "daemons"
EMPTYING_SECONDS: Final = 15.0


class Cgroups:
    """The tree NAME in each hierarchy of the host (one hierarchy where cgroup version 2 is used)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.unified = (TOP / "cgroup.controllers").exists()
        if self.unified:
            self.hierarchies = [TOP]
        else:
            folders = [entry for entry in TOP.iterdir() if entry.is_dir() and entry.is_mount()]
            self.hierarchies = sorted({folder.resolve() for folder in folders if folder.name != "unified"})
        # runc uses the second version's too, where a host mounts both.
        unified = TOP / "unified"
        self.everywhere = [*self.hierarchies, unified] if unified.is_mount() else self.hierarchies
        self.tracker = TOP if self.unified else TOP / "pids"

    def exists(self) -> bool:
        """Whether a cluster of this name has run since the host started and wasn't brought down."""
        return any((top / self.name).exists() for top in self.everywhere)

    def holds(self, pid: int) -> bool:
        """Whether a process is one of ours."""
        return any(is_inside(line, self.name) for line in read(Path(f"/proc/{pid}/cgroup")).splitlines())

    def make(self, child: str) -> Path:
        """Make NAME/CHILD in every hierarchy; returns the one in which processes are found again."""
        for top in self.hierarchies:
            for level in (top / self.name, top / self.name / child):
                level.mkdir(exist_ok=True)
                if self.unified:
                    enable_controllers(level.parent)
                else:
                    copy_cpuset(level)
        return self.tracker / self.name / child

    def empty(self, child: str) -> None:
        """Kill every process in NAME/CHILD and remove it; ClusterError where one can't be killed."""
        deadline = time.monotonic() + EMPTYING_SECONDS
        branches = [top / self.name / child for top in self.everywhere]
        while not all(remove_tree(branch) for branch in branches):
            for folder in [each for branch in branches for each, _, _ in os.walk(branch)]:
                for pid in read(Path(folder) / "cgroup.procs").split():
                    end(int(pid))
            if time.monotonic() > deadline:
                raise ClusterError(f"cgroup {self.name}/{child} stays busy; see cgroup.procs in it")
            time.sleep(0.05)

    def remove(self) -> None:
        """Kill whatever is left of ours and remove the whole tree."""
        children = {entry.name for top in self.everywhere for entry in folders_of(top / self.name)}
        for child in sorted(children):
            self.empty(child)
        for top in self.everywhere:
            remove_tree(top / self.name)


def is_inside(line: str, name: str) -> bool:
    """Whether a line of /proc/PID/cgroup names the top-level cgroup `name` or one below it."""
    return line.split(":", 2)[-1].lstrip("/").split("/")[0] == name


def folders_of(folder: Path) -> list[Path]:
    """The folders in a folder; none where it doesn't exist."""
    return [entry for entry in folder.iterdir() if entry.is_dir()] if folder.exists() else []


def remove_tree(cgroup: Path) -> bool:
    """Remove a cgroup and those in it; whether nothing is left."""
    gone = True
    for folder, _, _ in os.walk(cgroup, topdown=False):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            gone = False
    return gone


def copy_cpuset(level: Path) -> None:
    """A new cpuset of version 1 is empty and takes no process until it has CPUs and memory nodes."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = level / name
        if file.exists() and not read(file).strip():
            file.write_text(read(level.parent / name))


def enable_controllers(level: Path) -> None:
    """Hand version 2's controllers to the children of a cgroup; those that the host withholds stay off."""
    for controller in read(level / "cgroup.controllers").split():
        try:
            (level / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            continue


def end(pid: int) -> None:
    """Kill a process that may have left meanwhile."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
