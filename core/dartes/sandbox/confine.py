"""Takes everything from a freshly forked process but its computation: the steps, in the order that works.

Called by the zygote's children before a word of an untrusted program is looked at. There is no way back.
"""

import os
import resource
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from dartes.sandbox import landlock, linux, seccomp
from dartes.sandbox.levels import Levels, Namespaces
from dartes.sandbox.runs import MIB, Limits

OPEN_FILES = 64
TASKS = 72
"""Threads of a run, the zygote's own included, where it has a user of its own to count."""

STACK_BYTES = 64 * MIB
FIRST_FREE = 10
_ALL_DESCRIPTORS = 1 << 20
"""Descriptors from here on are closed; those below are named by the caller."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """How to confine one process: the machine's levels, limits, folder, what else Landlock leaves it."""

    levels: Levels
    limits: Limits
    temporary: str
    rules: tuple[tuple[str, int], ...]


def take_descriptors(kept: Mapping[int, int]) -> None:
    """Give this process the descriptors `target: source` and no others. Targets are below `FIRST_FREE`."""
    safe = {target: os.dup2(source, FIRST_FREE + 40 + target) for target, source in kept.items()}
    for target, source in safe.items():
        os.dup2(source, target)
    start = 0
    for target in (*sorted(safe), _ALL_DESCRIPTORS):
        if start < target:  # an empty range from 0 would close everything
            os.closerange(start, target)
        start = target + 1


def confine(how: Confinement) -> None:
    """Confine this process for good; raises OSError where a step is refused."""
    levels, limits = how.levels, how.limits
    os.setsid()
    os.chdir(how.temporary)
    os.umask(0o022)
    for name in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an error, not the end
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    _limit(resource.RLIMIT_FSIZE, limits.disk_mib * MIB)
    _limit(resource.RLIMIT_STACK, STACK_BYTES)
    _limit(resource.RLIMIT_MEMLOCK, 0)
    _limit(resource.RLIMIT_MSGQUEUE, 0)
    if levels.namespaces is Namespaces.USER or (os.geteuid() == 0 and levels.user != 0):
        # Elsewhere the kernel would count all that this user runs on the whole machine.
        _limit(resource.RLIMIT_NPROC, TASKS)
    if levels.landlock:
        landlock.restrict(levels.landlock, (*how.rules, (how.temporary, landlock.WRITE)))
    if os.geteuid() == 0 and levels.user != 0:
        os.setgroups([])
        os.setresgid(levels.user, levels.user, levels.user)
        os.setresuid(levels.user, levels.user, levels.user)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user clears it
    linux.drop_capabilities()
    _limit(resource.RLIMIT_AS, limits.memory_mib * MIB)
    resource.setrlimit(resource.RLIMIT_CPU, (limits.seconds, limits.seconds + 1))
    machine = os.uname().machine
    seccomp.install(seccomp.Filter(machine, os.getpid(), levels.may_open, may_change_attributes=levels.view))


def _limit(kind: int, most: int) -> None:
    """Lower a limit for good; one that is lower already stays."""
    hard = resource.getrlimit(kind)[1]
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (value, value))
