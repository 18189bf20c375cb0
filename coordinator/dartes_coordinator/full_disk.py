"""A full disk, told apart from every other reason why a file can't be written."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dartes.errors import DISK_FULL, TransientError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""No room on the disk, in the quota, or under the process's own limit of file sizes."""


class UnwritableError(TransientError):
    """Nothing can be written now; what was committed is safe and the same write can be tried again."""


class StoreFullError(UnwritableError):
    """The disk took no more."""


def full_message(folder: Path, reason: object) -> str:
    """What people are told about a full disk."""
    return f"{folder}: {DISK_FULL} ({reason}); free some space, everything committed is kept"


@contextmanager
def full_disk_named(folder: Path) -> Iterator[None]:
    """Raise StoreFullError in the place of an OSError that says that the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StoreFullError(full_message(folder, error.strerror)) from error


@contextmanager
def every_full_disk_named(folder: Path) -> Iterator[None]:
    """As `full_disk_named`, around what also writes elsewhere: only a file of `folder` is a full store.

    Data sets are downloaded and unpacked on other disks. Room for the run would not help them, so they must
    not be told as the run's: such an end counts as a failure, and names the file where it is known.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        place = error.filename if isinstance(error.filename, str) else None
        if place is not None and Path(place).resolve().is_relative_to(folder.resolve()):
            raise StoreFullError(full_message(folder, error.strerror)) from error
        named = "" if place is None else f"{place}: "
        raise TransientError(f"{named}{DISK_FULL} ({error.strerror}); free some space there") from error
