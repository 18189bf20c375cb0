"""Moves the zygote into namespaces of its own, as far as the kernel grants them.

It becomes the first process of a process namespace: what a run leaves behind is then ended with one call,
and when the zygote ends, so does everything in there.
"""

import os
import signal
from pathlib import Path

from dartes.sandbox import linux
from dartes.sandbox.levels import Namespaces, probe

_FLAGS = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWPID | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS


def enter() -> Namespaces:
    """Enter what is granted; returns in the first process of the new namespace where there is one.

    The process that was there before stays behind, waits for it and ends as it did.
    """
    if os.geteuid() == 0 and probe(_as_root):
        _as_root()
        granted = Namespaces.ROOT
    elif probe(_as_user):
        _as_user()
        granted = Namespaces.USER
    else:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        return Namespaces.NONE
    _become_first()
    return granted


def _as_root() -> None:
    linux.unshare(_FLAGS)
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)


def _as_user() -> None:
    user, group = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER | _FLAGS)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path(f"/proc/self/{name}").write_text(text, "ascii")
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)


def _become_first() -> None:
    first = os.fork()
    if first == 0:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        return
    os.closerange(0, 64)
    status = os.waitpid(first, 0)[1]
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
