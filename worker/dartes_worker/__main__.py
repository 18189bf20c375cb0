"""`python -m dartes_worker`: serve one coordinator until the run is done or the worker is drained."""

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from dartes import logs
from dartes.errors import DartesError, ExitCode
from dartes.lifeline import follow_parent
from dartes.rpc import tls
from dartes.spec.load import load_job
from dartes.state import RunFolder
from dartes_worker.agent import Agent
from dartes_worker.client import CoordinatorClient
from dartes_worker.setup import equip

log = logging.getLogger(__name__)


def main() -> int:
    """Run one worker; returns the exit code."""
    parser = argparse.ArgumentParser(prog="dartes_worker", description=__doc__)
    parser.add_argument("--coordinator", required=True, help="host:port")
    parser.add_argument("--tls", type=Path, required=True, help="folder with ca.crt, tls.crt, tls.key")
    parser.add_argument("--run-dir", type=Path, required=True, help="where job.yaml and snapshots are")
    parser.add_argument("--name", required=True)
    arguments = parser.parse_args()
    logs.set_up(arguments.name)
    follow_parent()
    folder = RunFolder(arguments.run_dir)
    try:
        credentials = tls.load(arguments.tls)
        job = load_job(folder.job)
        equipment = equip(job.job.spec, job.base_dir)
        client = CoordinatorClient(arguments.coordinator, credentials, arguments.name)
        agent = Agent(client, equipment, folder.snapshots)
        _drain_on_sigterm(agent, job.job.spec.workers.scale_down.drain_seconds)
        try:
            return agent.run()
        finally:
            client.close()
            equipment.close()
    except DartesError as error:
        log.error("%s", error)
        return error.exit_code


def _drain_on_sigterm(agent: Agent, seconds: float) -> None:
    def leave(*_: object) -> None:
        # A lease that takes longer than the drain is given up: others have it at once when we are gone.
        timer = threading.Timer(seconds, os._exit, (ExitCode.DRAINED,))
        timer.daemon = True
        timer.start()
        agent.drain()

    signal.signal(signal.SIGTERM, leave)


if __name__ == "__main__":
    sys.exit(main())
