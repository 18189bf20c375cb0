"""One coordinator's process from its arguments to its exit code: the folder taken over, opened and served."""

import asyncio
import logging
from contextlib import closing
from pathlib import Path

from dartes import pod
from dartes.errors import ExitCode
from dartes.logs import LogFields
from dartes.rpc import tls
from dartes.spec.checks import warnings_for
from dartes.spec.load import LoadedJob, load_job
from dartes.state import RunFolder, takeover
from dartes_coordinator.completion import completion
from dartes_coordinator.full_disk import every_full_disk_named
from dartes_coordinator.observer import Observer
from dartes_coordinator.rewinding import Rewind
from dartes_coordinator.server import serve
from dartes_coordinator.start import open_run

log = logging.getLogger(__name__)

ELSEWHERE = "give the job another volume, or another name"


def run(
    run_dir: Path,
    job_file: Path | None,
    listen: str,
    tls_folder: Path,
    http: str | None,
    fields: LogFields,
    rewind: Rewind | None = None,
) -> int:
    """Serve the run of a folder; returns the exit code. A finished run's result is left as last words.

    Parameters
    ----------
    job_file
        What the folder is taken over for; None where somebody else has seen to that.
    listen, http
        `HOST:PORT` for workers, and for probes and metrics; None for none of these.
    rewind
        Asks that the run goes on from an older iteration.

    Raises
    ------
    DartesError
        With the message and exit code that the process ends with.
    """
    folder = RunFolder(run_dir)
    observer = _observer(http)
    with every_full_disk_named(folder.path):
        job = load_job(folder.job) if job_file is None else _taken_over(folder, job_file)
        credentials = tls.load(tls_folder)
        coordinator = open_run(folder, job, rewind=rewind)
        if coordinator is None:
            log.info("the run is done; nothing is left to do")
            code: int = ExitCode.DONE
        else:
            fields.note(incarnation=coordinator.incarnation)
            with closing(coordinator):
                code = asyncio.run(serve(coordinator, folder, listen, credentials, observer=observer))
        if code == ExitCode.DONE:
            pod.last_words_json(completion(folder, job.job.spec))
        return code


def _observer(http: str | None) -> Observer:
    if http is None:
        return Observer()
    from dartes_coordinator.probes import Probes  # the client of Prometheus is not needed without it

    return Probes.start(http)


def _taken_over(folder: RunFolder, job_file: Path) -> LoadedJob:
    """The job of a file, written down in the folder.

    No lock is taken: on a lost node an older coordinator may hold one for ever. The store's fence decides.
    """
    job = load_job(job_file)
    takeover.prepare(folder, ELSEWHERE)
    for note in [*warnings_for(job.job.spec), *takeover.take_over(folder, job, ELSEWHERE.capitalize())]:
        log.info("note: %s", note)
    return job
