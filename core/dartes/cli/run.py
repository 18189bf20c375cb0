"""`dartes run`: the whole of a job on this machine."""

from pathlib import Path

from dartes.cli.folder import default_folder, locked, take_over
from dartes.cli.progress import progress_for_terminal
from dartes.cli.show import results
from dartes.cli.supervisor import LocalRun
from dartes.cli.validate import checked_with_data
from dartes.spec import load_job
from dartes.state import RunFolder


def run(job_file: Path, workdir: Path | None, workers: int | None, port: int, export: Path | None) -> None:
    """Run or resume a job; prints progress and results.

    Raises
    ------
    DartesError
        With the message and exit code that the user gets.
    """
    job = load_job(job_file)
    notes = [*job.warnings, *checked_with_data(job)]
    folder = RunFolder((workdir or default_folder(job)).absolute())
    count = job.job.spec.workers.replicas if workers is None else workers
    with locked(folder):
        notes += take_over(folder, job)
        with progress_for_terminal() as progress:
            for note in notes:
                progress.say(f"note: {note}")
            progress.say(f"{job.job.metadata.name}: 1 coordinator + {count} workers, folder {folder.path}")
            LocalRun(folder, job.job.spec, count, port, progress).run()
        results(folder, export)
