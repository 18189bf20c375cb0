"""What the cluster costs a run: the same job by `dartes run` and in the cluster, in alternating pairs.

Both on this machine, one coordinator and two workers, one thread each. Time per iteration is the median of a
run's own records (without the first); processor seconds are what the processes of coordinator and workers had
used from their start to the last commit, read from their own accounts. The operator, kubelets and API server
are no part of them, but they share the cores, so they show in the time.

Usage: python -m bench.cluster_overhead [--pairs N] [--iterations N]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.cluster_support import example, installed_release, log_lines, namespace_of
from bench.common import Figure, Row, all_reached, report
from bench.runs_support import changed_job, run_job
from dartes.pod import FAREWELL
from tests.cluster.jobs import Job, spec_of
from tests.cluster.reference import last_words
from tests.cluster.release import Release

WORKERS: Final = 2
MOST_TIME: Final = 1.25
MOST_CPU: Final = 1.05


@dataclass(frozen=True)
class Measured:
    """One run: median seconds per iteration, processor seconds of all its processes, its journal's hash."""

    seconds: float
    cpu_seconds: float
    journal_hash: str


def local(iterations: int, scratch: Path) -> Measured:
    """By `dartes run`."""
    changes = {"es.iterations": iterations, "evaluation.sets": []}
    run = run_job(changed_job(example(), changes, scratch / "job.yaml"), scratch / "run", WORKERS)
    logs = "\n".join(path.read_text(encoding="utf-8") for path in run.folder.logs.glob("*.log"))
    seconds = [float(it["seconds"]) for it in run.beside]
    return Measured(statistics.median(seconds[1:]), cpu_seconds(logs), run.summary["journal_hash"])


def clustered(release: Release, iterations: int) -> Measured:
    """In the cluster."""
    with namespace_of(release.cluster, "bench-overhead") as namespace:
        spec = spec_of(es__iterations=iterations, evaluation={"sets": []})
        job = Job.create(release.api, namespace, "overhead", spec)
        pods = [*job.wait_ready("coordinator", 1), *job.wait_ready("worker", WORKERS)]
        # Followed from here on: workers may be gone with their logs soon after the end.
        following = [
            subprocess.Popen(
                [*release.kubectl_command, "logs", "-f", pod["metadata"]["name"], "-n", namespace],
                stdout=subprocess.PIPE,
                text=True,
            )
            for pod in pods
        ]
        job.wait_complete()
        coordinator, *workers = (process.communicate(timeout=60)[0] for process in following)
        return Measured(
            statistics.median(committed(coordinator)[1:]),
            cpu_seconds("".join([coordinator, *workers])),
            str(last_words(job)["journalHash"]),
        )


def committed(text: str) -> list[float]:
    """Seconds of each iteration, from the coordinator's log."""
    lines = [line for line in log_lines(text) if line["message"].startswith("iteration ")]
    return [float(line["message"].rpartition(" in ")[2].removesuffix(" s")) for line in lines]


def cpu_seconds(logs: str) -> float:
    """The sum of what every process said at its end that it had used."""
    words = f"{FAREWELL}: "
    found = [
        float(line.partition(words)[2].split('"')[0].split()[0])
        for line in logs.splitlines()
        if words in line
    ]
    if len(found) != WORKERS + 1:
        raise RuntimeError(f"{len(found)} processes said what they used, not {WORKERS + 1}")
    return sum(found)


def main() -> int:
    """Measure, print and write; 1 if a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_overhead", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20)
    options = parser.parse_args()
    pairs: list[tuple[Measured, Measured]] = []
    with installed_release() as release:
        for _ in range(options.pairs):
            with tempfile.TemporaryDirectory() as scratch:
                pairs.append(
                    (local(options.iterations, Path(scratch)), clustered(release, options.iterations))
                )
    rows: list[Row] = [
        {
            "pair": number,
            "dartes run, s per iteration": here.seconds,
            "cluster, s per iteration": there.seconds,
            "dartes run, CPU s": here.cpu_seconds,
            "cluster, CPU s": there.cpu_seconds,
            "same journal hash": here.journal_hash == there.journal_hash,
        }
        for number, (here, there) in enumerate(pairs, start=1)
    ]
    time = statistics.median(there.seconds / here.seconds for here, there in pairs)
    cpu = statistics.median(there.cpu_seconds / here.cpu_seconds for here, there in pairs)
    same = all(here.journal_hash == there.journal_hash for here, there in pairs)
    rows.append({"pair": "median ratio", "cluster, s per iteration": time, "cluster, CPU s": cpu})
    figures = [
        Figure("same journal hash", "in every pair", "yes" if same else "NO", same),
        Figure("time per iteration, cluster / dartes run", "<= 1.25", f"{time:.2f}", time <= MOST_TIME),
        Figure("CPU seconds, cluster / dartes run", "<= 1.05", f"{cpu:.2f}", cpu <= MOST_CPU),
    ]
    meta: dict[str, Any] = {"pairs": options.pairs, "iterations": options.iterations, "workers": WORKERS}
    report("cluster_overhead", rows, meta, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
