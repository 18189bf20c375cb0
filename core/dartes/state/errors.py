"""What can be wrong with a store, as errors that say what to do. Shared by its reader and its writer."""

import sqlite3

from dartes.errors import ConfigurationError

_DAMAGE_CODES = {
    sqlite3.SQLITE_ERROR,  # a table or column is missing
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
}


class NoStateError(ConfigurationError):
    """There is a store, but nothing was ever committed to it."""


class DamagedStoreError(ConfigurationError):
    """A store does not hold what was committed to it; trying again changes nothing."""


def extended_code(error: sqlite3.Error) -> int:
    """SQLite's extended result code; SQLITE_ERROR where the error was found on Python's side (text
    that is not UTF-8)."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file's content is at fault, rather than a lock, the disk or the machine."""
    # The low byte of an extended code is the primary one.
    return extended_code(error) & 0xFF in _DAMAGE_CODES
