"""`python -m dartes_coordinator`: serve one run folder until the run is done, drained or refused."""

import argparse
import asyncio
import logging
import sys
from contextlib import closing
from pathlib import Path

from dartes import logs
from dartes.errors import DartesError, ExitCode
from dartes.lifeline import follow_parent
from dartes.rpc import tls
from dartes.spec.load import load_job
from dartes.state import RunFolder
from dartes_coordinator.full_disk import full_disk_named
from dartes_coordinator.server import serve
from dartes_coordinator.start import open_run

log = logging.getLogger(__name__)


def main() -> int:
    """Run one coordinator; returns the exit code."""
    parser = argparse.ArgumentParser(prog="dartes_coordinator", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--listen", default="127.0.0.1:0", help="host:port; port 0 takes a free one")
    parser.add_argument("--tls", type=Path, required=True, help="folder with ca.crt, tls.crt, tls.key")
    arguments = parser.parse_args()
    logs.set_up("coordinator")
    follow_parent()
    folder = RunFolder(arguments.run_dir)
    try:
        with full_disk_named(folder.path):
            credentials = tls.load(arguments.tls)
            coordinator = open_run(folder, load_job(folder.job))
            if coordinator is None:
                log.info("the run is done; nothing is left to do")
                return ExitCode.DONE
            with closing(coordinator):
                return asyncio.run(serve(coordinator, folder, arguments.listen, credentials))
    except DartesError as error:
        log.error("%s", error)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
