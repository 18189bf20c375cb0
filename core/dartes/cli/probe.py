"""`dartes probe`: hands over to the worker package, which has the engine."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dartes.cli.validate import checked_with_data
from dartes.spec import load_job


def probe(job_file: Path, sigmas: Sequence[float] | None, members: int, as_json: bool) -> int:
    """Measure and print; returns the exit code. Raises as `load_job` and `checked_with_data` do."""
    job = load_job(job_file)
    checked_with_data(job)
    threads = str(job.job.spec.workers.threads)
    command = [sys.executable, "-m", "dartes_worker.probe", str(job_file), "--members", str(members)]
    if sigmas is not None:
        command += ["--sigmas", ",".join(map(repr, sigmas))]
    if as_json:
        command.append("--json")
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.run(command, env=environment, check=False).returncode
