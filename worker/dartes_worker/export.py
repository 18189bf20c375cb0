"""`python -m dartes_worker.export`: the export pod, which puts a finished run's model where the job wants it.

Rebuilds the weights as `dartes export` does and needs no engine. It may be started again at any time: a model
that stands at the destination already is a success.
"""

import argparse
import errno
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dartes import logs, pod
from dartes.cli.export import prepare_export
from dartes.destinations import Delivered, deliver, open_destination
from dartes.destinations.choice import wanted_of
from dartes.errors import ExitCode, TransientError
from dartes.state import RunFolder

log = logging.getLogger(__name__)

ALLOWED_ITERATIONS: Final = "a number from 0 on, Best or Last"


def export_to(run_dir: Path, job_file: Path, destination: str, iteration: int | str) -> Delivered:
    """Deliver the model of a run folder, read only, to a destination.

    Raises
    ------
    ConfigurationError
        The run, its base model, the iteration or the destination is at fault.
    TransientError
        Something outside failed: the network, a disk.
    """
    place = open_destination(destination)
    prepared = prepare_export(RunFolder(run_dir), wanted_of(iteration), None, job_file)
    if prepared.note is not None:
        log.info("%s", prepared.note)
    done = deliver(place, prepared.row_hash.hex(), prepared.write)
    said = "stood there already" if done.already else "is written"
    log.info(
        "%s: the model after %d iterations %s, weight digest %s",
        done.uri,
        done.iteration,
        said,
        done.weight_digest,
    )
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one export; returns the exit code, and leaves a result or an error as last words."""
    options = _command_line().parse_args(arguments)
    logs.set_up("export")
    pod.Leaving()  # whenever it is told to: what it leaves unfinished, the next attempt replaces
    return pod.outermost(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    try:
        done = export_to(options.run_dir, options.job, options.destination, options.iteration)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TransientError(f"the disk is full ({error}); give the pod more room") from error
        raise
    pod.last_words_json({"uri": done.uri, "digest": done.weight_digest, "iteration": done.iteration})
    return ExitCode.DONE


def _command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dartes_worker.export", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run folder; only read")
    parser.add_argument("--job", type=Path, required=True, help="the job as it runs (YAML)")
    parser.add_argument("--destination", required=True, help="pvc://, s3://, gs:// or hf://")
    parser.add_argument("--iteration", type=_iteration, default="Last", help=ALLOWED_ITERATIONS)
    return parser


def _iteration(text: str) -> int | str:
    if text in ("Best", "Last"):
        return text
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}; allowed: {ALLOWED_ITERATIONS}")


if __name__ == "__main__":
    sys.exit(main())
