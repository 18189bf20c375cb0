"""The errors that a user or a supervisor acts on, each with the process exit code it maps to.

Anything else that escapes a process is a bug and exits 1 with a traceback.
"""

from enum import IntEnum
from typing import Final

DISK_FULL: Final = "the disk is full"
"""The words by which everybody knows that a process ended, or waits, for want of room on its volume."""

RESTORED: Final = "is used instead"
"""The same of a run that lost its newest state, and goes on from a backup."""


class ExitCode(IntEnum):
    """Exit codes of every `dartes` process; the supervisor and the operator act on them."""

    DONE = 0
    BUG = 1
    CONFIGURATION = 64
    TRANSIENT = 75
    DRAINED = 76


class DartesError(Exception):
    """Base of all expected errors: the message says what was wrong, where, and what to do."""

    exit_code: ExitCode = ExitCode.BUG


class ConfigurationError(DartesError):
    """The user's input is wrong; trying again changes nothing."""

    exit_code = ExitCode.CONFIGURATION


class TransientError(DartesError):
    """Something outside failed; the same command may succeed later and loses nothing."""

    exit_code = ExitCode.TRANSIENT


class DrainedError(DartesError):
    """The process was asked to leave, or was replaced by a newer incarnation."""

    exit_code = ExitCode.DRAINED
