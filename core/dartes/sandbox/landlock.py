"""Landlock: a process gives up all access to files, but below the folders that it names. Linux 5.13.

Needs no privilege but `no_new_privs`. Also gives up TCP (ABI 4) and signals to others (ABI 6).
"""

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from dartes.sandbox import linux

_CREATE, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE = 1 << 4 | 1 << 5
_MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 7, 1 << 8, 1 << 12
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_FILE_RIGHTS_NOW = (1 << 16) - 1
_NET_RIGHTS = 0b11
_SCOPES = 0b11

READ = _READ_FILE | _READ_DIR
WRITE = READ | _WRITE_FILE | _REMOVE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE
USE_DEVICE = _READ_FILE | _WRITE_FILE


def abi() -> int:
    """The kernel's Landlock version; 0 where it has none or it is switched off."""
    try:
        return linux.syscall(_CREATE, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(version: int, rules: Iterable[tuple[str, int]]) -> None:
    """Keep, of all files, what the rules (path, rights) allow. `no_new_privs` must be set.

    A path that does not exist is left out: what isn't there needs no right.
    """
    handled = _FILE_RIGHTS.get(version, _FILE_RIGHTS_NOW)
    attributes = struct.pack("=Q", handled)
    if version >= 4:
        attributes += struct.pack("=Q", _NET_RIGHTS)
    if version >= 6:
        attributes += struct.pack("=Q", _SCOPES)
    ruleset = linux.syscall(_CREATE, attributes, len(attributes), 0)
    for path, rights in rules:
        _add(ruleset, path, rights & handled)
    linux.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _add(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not Path(path).is_dir():
            rights &= USE_DEVICE | _TRUNCATE
        linux.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
    finally:
        os.close(opened)
