"""`python -m dartes_worker`: serve one coordinator until the run is done or the worker is drained."""

import argparse
import sys
from pathlib import Path

from dartes import logs, pod
from dartes.lifeline import follow_parent


def main() -> int:
    """Run one worker; returns the exit code."""
    parser = argparse.ArgumentParser(prog="dartes_worker", description=__doc__)
    parser.add_argument("--coordinator", required=True, help="host:port")
    parser.add_argument("--tls", type=Path, required=True, help="folder with ca.crt, tls.crt, tls.key")
    parser.add_argument("--job", type=Path, required=True, help="job file of the run")
    parser.add_argument("--snapshots", type=Path, required=True, help="folder of weight snapshots")
    parser.add_argument("--name", required=True)
    parser.add_argument("--http", help="host:port of probes and metrics; default: none")
    arguments = parser.parse_args()
    fields = logs.set_up(arguments.name)
    leaving = pod.Leaving()  # before anything slow, imports included
    follow_parent()

    def body() -> int:
        from dartes_worker.process import Settings, run

        settings = Settings(
            coordinator=arguments.coordinator,
            tls=arguments.tls,
            job=arguments.job,
            snapshots=arguments.snapshots,
            name=arguments.name,
            http=arguments.http,
        )
        return run(settings, fields, leaving)

    return pod.outermost(body)


if __name__ == "__main__":
    sys.exit(main())
