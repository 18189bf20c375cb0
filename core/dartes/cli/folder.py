"""Taking a run folder for a job: locked, compared with what is in it, the job written down."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dartes.errors import ConfigurationError, TransientError
from dartes.spec.algorithm import compare_for_resume
from dartes.spec.dump import dump_job
from dartes.spec.load import LoadedJob, load_job
from dartes.state import RunFolder


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Hold the run folder for this process.

    Raises
    ------
    ConfigurationError
        Another process holds it, or it can't be made.
    """
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise TransientError(f"{folder.path}: the disk is full; free some space and run again") from error
        raise ConfigurationError(f"{folder.path}: can't be used as a run folder: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            raise ConfigurationError(
                f"{folder.path}: in use by another process (pid {holder}); wait for it, stop it, or give "
                "another --workdir"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def take_over(folder: RunFolder, job: LoadedJob) -> list[str]:
    """Write the job into the folder, as new or as a continuation; returns what to tell the user.

    Raises
    ------
    ConfigurationError
        The folder holds a run of another job (names each field), or something that is no run.
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
    elif any(e.name != folder.lock.name and e.suffix != ".partial" for e in folder.path.iterdir()):
        raise ConfigurationError(f"{folder.path} is neither empty nor a run folder; give another --workdir")
    partial = folder.job.with_suffix(".partial")
    try:
        partial.write_text(dump_job(job.job, job.base_dir), encoding="utf-8")
        partial.replace(folder.job)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise TransientError(f"{folder.path}: the disk is full; free some space and run again") from error
        raise
    return notes


def default_folder(job: LoadedJob) -> Path:
    """`runs/NAME` under the current folder."""
    return Path("runs") / job.job.metadata.name
