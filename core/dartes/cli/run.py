"""`dartes run`: the whole of a job on this machine."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dartes.cli.folder import default_folder, locked, take_over
from dartes.cli.progress import progress_for_terminal
from dartes.cli.show import require_free, results
from dartes.cli.supervisor import LocalRun
from dartes.cli.validate import checked_with_data
from dartes.spec import load_job
from dartes.state import DamagedStoreError, NoStateError, RunFolder, RunReader


def run(
    job_file: Path,
    workdir: Path | None,
    workers: int | None,
    port: int,
    export: Path | None,
    from_iteration: int | None = None,
) -> None:
    """Run or resume a job, `from_iteration` from an older state; prints progress and results.

    Raises
    ------
    DartesError
        With the message and exit code that the user gets.
    KeyboardInterrupt
        After Ctrl-C, SIGTERM or SIGHUP, with every process ended.
    """
    job = load_job(job_file)
    notes = [*job.warnings, *checked_with_data(job)]
    folder = RunFolder((workdir or default_folder(job)).absolute())
    count = job.job.spec.workers.replicas if workers is None else workers
    with _signals_interrupt(), locked(folder):
        if export is not None:
            # A run that goes back comes to another end than the one whose model may be there.
            require_free(export, _last_row_hash(folder) if from_iteration is None else None)
        notes += take_over(folder, job)
        if from_iteration is not None:
            notes.append(
                f"the run goes back to iteration {from_iteration}; "
                "leave --from-iteration out to resume it later"
            )
        with progress_for_terminal() as progress:
            for note in notes:
                progress.say(f"note: {note}")
            progress.say(
                f"{job.job.metadata.name}: 1 coordinator + {count} worker{'s' if count > 1 else ''}, "
                f"folder {folder.path}"
            )
            LocalRun(folder, job.job.spec, count, port, progress, from_iteration).run()
        results(folder, export)


def _last_row_hash(folder: RunFolder) -> bytes | None:
    if not folder.store.exists():
        return None
    try:
        with RunReader.open(folder) as reader:
            return reader.last_row_hash()
    except (NoStateError, DamagedStoreError):
        return None  # the coordinator puts a backup in the place of a damaged store


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP (a closed terminal) end a run as Ctrl-C does: every process is told to leave."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
