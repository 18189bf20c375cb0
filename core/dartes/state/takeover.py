"""Taking a run folder for a job: what is in it is compared with the job, then the job is written down.

Who may write in the folder is the caller's business: a local run holds its lock, a coordinator in a cluster
relies on the fence of the store.
"""

import errno
import os
from pathlib import Path

from dartes.durable import sync_folder
from dartes.errors import DISK_FULL, ConfigurationError, TransientError
from dartes.spec.algorithm import compare_for_resume
from dartes.spec.dump import dump_job
from dartes.spec.load import LoadedJob, load_job
from dartes.state.folder import RunFolder

FULL_CODES = frozenset({errno.ENOSPC, errno.EDQUOT})
"""`errno` of a disk or quota that takes no more."""


def prepare(folder: RunFolder, elsewhere: str) -> None:
    """Make the folder where there is none; `elsewhere` ends a refusal ("give another --workdir").

    Raises
    ------
    ConfigurationError
        It holds something that is no run, or can't be made.
    TransientError
        The disk is full.
    """
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        # Before anything is written: a home folder must not become a run by a slip of the hand.
        ours = {folder.lock.name, _partial(folder).name}
        others = not folder.job.exists() and any(entry.name not in ours for entry in folder.path.iterdir())
    except OSError as error:
        raise unusable(folder, error) from error
    if others:
        raise ConfigurationError(f"{folder.path} is neither empty nor a run folder; {elsewhere}")


def take_over(folder: RunFolder, job: LoadedJob, elsewhere: str) -> list[str]:
    """Write the job into the folder, as new or as a continuation; returns what to tell the user.

    Parameters
    ----------
    elsewhere
        What to do instead where the folder holds another job's run ("Give another --workdir").

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
                f"{elsewhere}, or the job file that the run was started with"
            )
        notes = [str(difference) for difference in (*comparison.grown, *comparison.placement)]
    text = dump_job(job.job, job.base_dir)
    if folder.job.exists() and folder.job.read_text(encoding="utf-8") == text:
        return notes
    try:
        _write(folder, text)
    except OSError as error:
        if error.errno in FULL_CODES:
            raise full(folder) from error
        raise
    return notes


def unusable(folder: RunFolder, error: OSError) -> ConfigurationError | TransientError:
    """What an error at making or opening the folder amounts to."""
    if error.errno in FULL_CODES:
        return full(folder)
    return ConfigurationError(f"{folder.path}: can't be used as a run folder: {error.strerror}")


def full(folder: RunFolder) -> TransientError:
    """A full disk, before the run has begun."""
    return TransientError(f"{folder.path}: {DISK_FULL}; free some space and run again")


def _partial(folder: RunFolder) -> Path:
    return folder.job.with_suffix(".partial")


def _write(folder: RunFolder, text: str) -> None:
    partial = _partial(folder)
    partial.write_text(text, encoding="utf-8")
    # A node may be lost right after: a job file that came out empty would make the run unreadable.
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(folder.job)
    sync_folder(folder.path)
