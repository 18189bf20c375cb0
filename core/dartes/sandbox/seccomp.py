"""A seccomp filter that leaves a program its computation and its threads, but no processes and no network.

Builds the BPF program (pure) and installs it; needs `no_new_privs`. Last step of a confinement, for good.
"""

import ctypes
import errno
import os
import struct
from dataclasses import dataclass

from dartes.sandbox import linux, syscalls

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_CLONE_THREAD = 0x00010000
_AF_UNIX = 1

_MODE_FILTER = 2
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000

# BPF: load a word at an offset, jump if equal / not less / any bit set, mask, return.
_LOAD, _EQUAL, _NOT_LESS, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16

Instruction = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Filter:
    """What a filter depends on.

    Attributes
    ----------
    machine
        As `os.uname().machine` says.
    process_id
        The process that it is for, which may signal itself.
    may_open
        Whether files may be opened at all.
    may_change_attributes
        Whether modes, owners and times of files may be changed.
    """

    machine: str
    process_id: int
    may_open: bool = True
    may_change_attributes: bool = True


def supported(machine: str) -> bool:
    """Whether there is a table of system calls for this machine."""
    return machine in _ARCHITECTURE


def build(wanted: Filter) -> list[Instruction]:
    """The filter's instructions: (code, jump if true, jump if false, operand)."""
    refused = dict(syscalls.REFUSED[wanted.machine])
    if not wanted.may_change_attributes:
        refused |= syscalls.ATTRIBUTES[wanted.machine]
    if not wanted.may_open:
        refused |= syscalls.FILES[wanted.machine]
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _ARCHITECTURE[wanted.machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_NOT_LESS, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _KILL),
        (_NOT_LESS, 0, 1, syscalls.NEWEST + 1),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for name, number in syscalls.JUDGED[wanted.machine].items():
        if name in refused:
            continue
        rule = _judged(name, wanted.process_id)
        program += [(_EQUAL, 0, len(rule), number), *rule]
    for number in sorted(refused.values()):
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def install(wanted: Filter) -> None:
    """Filter this process, its threads to come included. Raises OSError where the kernel has no seccomp."""
    install_program(b"".join(struct.pack("=HBBI", *instruction) for instruction in build(wanted)))


def install_program(program: bytes) -> None:
    """Install a filter given as packed instructions."""
    buffer = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    linux.prctl(linux.PR_SET_SECCOMP, _MODE_FILTER, head)


def available() -> bool:
    """Whether this kernel filters system calls; asks with a filter that is not there."""
    try:
        linux.prctl(linux.PR_SET_SECCOMP, _MODE_FILTER, None)
    except OSError as error:
        return error.errno == errno.EFAULT and supported(os.uname().machine)
    return False


def _judged(name: str, process_id: int) -> list[Instruction]:
    """The rule behind a matched number; each of its ways ends in a return."""
    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    if name == "clone3":  # its flags are in memory, where no filter sees them; libraries fall back to clone
        return [(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    if name == "clone":
        return [_argument(0), (_ANY_BIT, 0, 1, _CLONE_THREAD), allow, refuse]
    if name in ("kill", "tgkill"):
        return [_argument(0), (_EQUAL, 0, 1, process_id), allow, refuse]
    if name == "prlimit64":
        return [_argument(0), (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, process_id), allow, refuse]
    if name == "socketpair":
        return [_argument(0), (_EQUAL, 0, 1, _AF_UNIX), allow, refuse]
    if name in (
        "open",
        "openat",
    ):  # emptying a file while opening it for reading needs no right by Landlock 1
        flags = _argument(1 if name == "open" else 2)
        return [flags, (_AND, 0, 0, os.O_TRUNC | os.O_ACCMODE), (_EQUAL, 0, 1, os.O_TRUNC), refuse, allow]
    # sendto: without an address only, as `send` on an end of a socket pair is.
    return [_argument(4), (_EQUAL, 0, 2, 0), _argument(4, high=True), (_EQUAL, 1, 0, 0), refuse, allow]


def _argument(position: int, *, high: bool = False) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * position + (4 if high else 0))
