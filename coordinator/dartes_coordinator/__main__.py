"""`python -m dartes_coordinator`: serve one run folder until the run is done, drained or refused."""

import argparse
import sys
from pathlib import Path

from dartes import logs, pod
from dartes.lifeline import follow_parent


def main() -> int:
    """Run one coordinator; returns the exit code."""
    parser = argparse.ArgumentParser(prog="dartes_coordinator", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument(
        "--job", type=Path, help="job file that the folder is taken over for; default: the folder's job.yaml"
    )
    parser.add_argument("--listen", default="127.0.0.1:0", help="host:port; port 0 takes a free one")
    parser.add_argument("--tls", type=Path, required=True, help="folder with ca.crt, tls.crt, tls.key")
    parser.add_argument("--http", help="host:port of probes and metrics; default: none")
    parser.add_argument("--rewind-to", type=int, metavar="K", help="go back to K iterations first, once")
    parser.add_argument("--rewind-key", metavar="KEY", help="names that request: each is carried out once")
    arguments = parser.parse_args()
    if (arguments.rewind_to is None) != (arguments.rewind_key is None):
        parser.error("--rewind-to and --rewind-key are given together")
    fields = logs.set_up("coordinator")
    pod.Leaving()  # before anything slow, imports included; `serve` brings a handler of its own
    follow_parent()

    def body() -> int:
        from dartes_coordinator.process import run
        from dartes_coordinator.rewinding import Rewind

        to, key = arguments.rewind_to, arguments.rewind_key
        return run(
            arguments.run_dir,
            arguments.job,
            arguments.listen,
            arguments.tls,
            arguments.http,
            fields,
            None if to is None else Rewind(to, key),
        )

    return pod.outermost(body)


if __name__ == "__main__":
    sys.exit(main())
