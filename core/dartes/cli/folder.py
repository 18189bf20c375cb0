"""Taking a run folder for a job: locked, compared with what is in it, the job written down."""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dartes.errors import ConfigurationError, TransientError
from dartes.spec.algorithm import compare_for_resume
from dartes.spec.dump import dump_job
from dartes.spec.load import LoadedJob, load_job
from dartes.state import RunFolder

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
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        _refuse_other_content(folder)
        descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise _full(folder) from error
        raise ConfigurationError(f"{folder.path}: can't be used as a run folder: {error.strerror}") from error
    try:
        _lock(descriptor, folder, pause)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def take_over(folder: RunFolder, job: LoadedJob) -> list[str]:
    """Write the job into the locked folder, as new or as a continuation; returns what to tell the user.

    Raises
    ------
    ConfigurationError
        The folder holds a run of another job (names each field).
    TransientError
        The disk is full.
    """
    notes: list[str] = []
    if folder.job.exists():
        comparison = compare_for_resume(load_job(folder.job).job.spec, job.job.spec)
        if comparison.refused:
            listed = "\n".join(f"  {difference}" for difference in comparison.refused)
            raise ConfigurationError(
                f"{folder.path} holds a run of another job:\n{listed}\n"
                "Give another --workdir, or the job file that the run was started with"
            )
        notes = [str(difference) for difference in (*comparison.grown, *comparison.placement)]
    partial = folder.job.with_suffix(".partial")
    try:
        partial.write_text(dump_job(job.job, job.base_dir), encoding="utf-8")
        partial.replace(folder.job)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise _full(folder) from error
        raise
    return notes


def default_folder(job: LoadedJob) -> Path:
    """`runs/NAME` under the current folder."""
    return Path("runs") / job.job.metadata.name


def _refuse_other_content(folder: RunFolder) -> None:
    """Before anything is written: a home folder must not become a run by a slip of the hand."""
    ours = {folder.lock.name, folder.job.with_suffix(".partial").name}
    if not folder.job.exists() and any(entry.name not in ours for entry in folder.path.iterdir()):
        raise ConfigurationError(f"{folder.path} is neither empty nor a run folder; give another --workdir")


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


def _full(folder: RunFolder) -> TransientError:
    return TransientError(f"{folder.path}: the disk is full; free some space and run again")
