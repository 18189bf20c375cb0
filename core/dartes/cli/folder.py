"""Holding a run folder on this machine: its lock, its default place, and what its user is told to do."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dartes.errors import ConfigurationError
from dartes.spec.load import LoadedJob
from dartes.state import RunFolder, takeover

LOCK_SECONDS = 0.5
"""How long a held lock is asked for again: `dartes status` takes it for an instant to see whether it can."""

LOCK_RETRY_SECONDS = 0.05


def require_run(folder: RunFolder) -> None:
    """Raise ConfigurationError unless a run was started in this folder."""
    if folder.job.is_file():
        return
    if not folder.path.exists():
        raise ConfigurationError(f"{folder.path}: there is no such folder; give the folder of a run")
    if not folder.path.is_dir():
        raise ConfigurationError(f"{folder.path}: is a file; give the folder of a run")
    raise ConfigurationError(f"{folder.path}: not a run folder (no {folder.job.name} in it)")


@contextmanager
def locked(folder: RunFolder, pause: Callable[[float], object] = time.sleep) -> Iterator[None]:
    """Hold the run folder for this process; makes it where there is none.

    Raises
    ------
    ConfigurationError
        Another process holds it, it holds something that is no run, or it can't be made.
    TransientError
        The disk is full.
    """
    takeover.prepare(folder, "give another --workdir")
    try:
        descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise takeover.unusable(folder, error) from error
    try:
        _lock(descriptor, folder, pause)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def take_over(folder: RunFolder, job: LoadedJob) -> list[str]:
    """As `dartes.state.takeover.take_over`, for a folder that this process has locked."""
    return takeover.take_over(folder, job, "Give another --workdir")


def default_folder(job: LoadedJob) -> Path:
    """`runs/NAME` under the current folder."""
    return Path("runs") / job.job.metadata.name


def _lock(descriptor: int, folder: RunFolder, pause: Callable[[float], object]) -> None:
    for attempt in range(round(LOCK_SECONDS / LOCK_RETRY_SECONDS) + 1):
        if attempt:
            pause(LOCK_RETRY_SECONDS)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError as error:
            raise ConfigurationError(
                f"{folder.path}: its file system has no locks ({error.strerror}); give a --workdir on another"
            ) from error
        return
    holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
    raise ConfigurationError(
        f"{folder.path}: in use by another process (pid {holder}); wait for it, stop it, or give "
        "another --workdir"
    )
