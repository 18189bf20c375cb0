"""What this machine grants for confining a program, found by trying, and said in words.

Pure values, but for `probe`, which tries namespaces in a child of its own.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from dartes.sandbox import landlock, seccomp


class Namespaces(StrEnum):
    """Whose right the zygote used to get namespaces of its own."""

    USER = "user"
    ROOT = "root"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Levels:
    """The means of confinement in use.

    Attributes
    ----------
    seccomp
        Whether system calls are filtered. Without it no program is run.
    namespaces
        Own network, process, mount, IPC and host name namespaces.
    view
        Whether the root folder is a view of the interpreter's libraries, with a bounded `/tmp` in memory.
    landlock
        Version of Landlock, 0 for none.
    user
        The user id that programs run as.
    """

    seccomp: bool
    namespaces: Namespaces
    view: bool
    landlock: int
    user: int

    @property
    def may_open(self) -> bool:
        """Whether programs may open files at all: something else hides those that are not theirs."""
        return self.view or self.landlock > 0

    def to_json(self) -> dict[str, Any]:
        """A form that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**{**fields, "namespaces": Namespaces(fields["namespaces"])})


def describe(levels: Levels) -> str:
    """One line for the log: what keeps a program from the network, other processes and files."""
    network = "no network (refused system calls"
    network += ", own network namespace)" if levels.namespaces is not Namespaces.NONE else ")"
    processes = "no processes (refused system calls"
    processes += ", own process namespace)" if levels.namespaces is not Namespaces.NONE else ")"
    means = ["own root folder"] if levels.view else []
    means += [f"Landlock {levels.landlock}"] if levels.landlock else []
    files = (
        f"no files but the interpreter's and a temporary folder ({', '.join(means)})"
        if means
        else "no files at all (refused system calls; neither Landlock nor mount namespaces here)"
    )
    return f"programs have {network}, {processes}, {files}; user id {levels.user}"


def probe(attempt: Callable[[], None]) -> bool:
    """Whether an attempt goes without OSError in a child that then ends."""
    child = os.fork()
    if child == 0:
        try:
            attempt()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def kernel_levels(namespaces: Namespaces, view: bool, user: int) -> Levels:
    """The levels, given what namespaces brought; asks the kernel for the rest."""
    return Levels(seccomp.available(), namespaces, view, landlock.abi(), user)
