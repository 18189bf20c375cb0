"""The Linux system calls that Python has no function for, through ctypes. Each raises OSError.

Thin by intent: what to call, and in which order, is decided elsewhere.
"""

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

SYS_MOUNT_SETATTR = 442
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_CAPSET = {"x86_64": 126, "aarch64": 91}

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID = 1, 2
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """A raw system call; pointers are given as bytes or buffers, numbers as up to 64 bits."""
    passed = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *passed))


def unshare(flags: int) -> None:
    """Leave the given namespaces for new ones."""
    _checked(_libc.unshare(flags))


def prctl(
    option: int, value: int | bytes | ctypes.Array[ctypes.c_char] = 0, pointer: bytes | None = None
) -> None:
    """Set a property of this process."""
    first = ctypes.c_ulong(value) if isinstance(value, int) else value
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, first, pointer if pointer is not None else zero, zero, zero))


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount a file system."""
    _checked(
        _libc.mount(
            source.encode(),
            os.fsencode(target),
            kind.encode() if kind else None,
            ctypes.c_ulong(flags),
            data.encode() or None,
        )
    )


def unmount(target: str) -> None:
    """Take a mount away, at once for all who look, whatever is open in it."""
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH))


def make_read_only(target: str) -> None:
    """Make a mount and all below it read-only, without set-user-id. Linux 5.12."""
    attributes = struct.pack("=4Q", _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID, 0, 0, 0)
    syscall(SYS_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, len(attributes))


def enter_root(folder: str) -> None:
    """Make a mounted folder the root, with nothing of the old root left."""
    os.chdir(folder)
    syscall(SYS_PIVOT_ROOT[os.uname().machine], b".", b".")
    unmount(".")
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up all capabilities of this thread."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    syscall(SYS_CAPSET[os.uname().machine], header, bytes(24))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
