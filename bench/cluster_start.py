"""How soon a cluster trains: the chart installed, then a job from `kubectl apply` to its first commit.

Images are on the nodes. The operator counts as ready when `helm install --wait` returns. The way to the first
committed iteration is split by what Kubernetes and the pods wrote down: the pods' conditions and logs.

Usage: python -m bench.cluster_start [--rounds N]
"""

import argparse
import statistics
import sys
import time
from datetime import UTC, datetime
from typing import Any, Final

from bench.cluster_support import example, log_lines, namespace_of, own_cluster, parse_time
from bench.common import Figure, Row, all_reached, report
from tests.cluster.jobs import Job, until
from tests.cluster.release import Release

INSTALL_SECONDS: Final = 20.0
FIRST_COMMIT_SECONDS: Final = 45.0
NAME: Final = "addition"


def install_seconds(release: Release) -> float:
    """From `helm install` to an operator that is ready."""
    start = time.monotonic()
    release.install()
    return time.monotonic() - start


def first_commit(release: Release, namespace: str) -> dict[str, float]:
    """Seconds after `kubectl apply` at which things had happened, in that order."""
    began = datetime.now(UTC)
    release.kubectl("apply", "-n", namespace, "-f", str(example()))
    job = Job(release.api, namespace, NAME)
    coordinator, workers = until(lambda: _pods(job), "all pods are ready", 120)
    lines = until(lambda: _committed(release, namespace), "the first commit", 120)

    def after(text: str) -> float:
        return (parse_time(text) - began).total_seconds()

    return {
        "coordinator's pod created": after(coordinator["metadata"]["creationTimestamp"]),
        "last worker scheduled": max(after(_condition(pod, "PodScheduled")) for pod in workers),
        "coordinator's process started": after(_started(coordinator)),
        "coordinator listens": after(_first(lines, "listens on port")),
        "last worker's process started": max(after(_started(pod)) for pod in workers),
        "first worker's weights loaded": min(after(_condition(pod, "Ready")) for pod in workers),
        "first iteration committed": after(_first(lines, "iteration 1 ")),
    }


def _pods(job: Job) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    coordinators, workers = job.ready("coordinator"), job.ready("worker")
    return (coordinators[0], workers) if coordinators and len(workers) == 2 else None


def _committed(release: Release, namespace: str) -> list[dict[str, Any]] | None:
    lines = log_lines(release.kubectl("logs", f"{NAME}-coordinator", "-n", namespace))
    return lines if any(line["message"].startswith("iteration 1 ") for line in lines) else None


def _first(lines: list[dict[str, Any]], words: str) -> str:
    return next(str(line["time"]) for line in lines if words in line["message"])


def _condition(pod: dict[str, Any], kind: str) -> str:
    found = next(c for c in pod["status"]["conditions"] if c["type"] == kind)
    return str(found["lastTransitionTime"])


def _started(pod: dict[str, Any]) -> str:
    return str(pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"])


def main() -> int:
    """Measure, print and write; 1 if a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    installs: list[float] = []
    ways: list[dict[str, float]] = []
    with own_cluster() as cluster:
        release = Release(cluster)
        for _ in range(options.rounds):
            installs.append(install_seconds(release))
            with namespace_of(cluster, "bench-start") as namespace:
                ways.append(first_commit(release, namespace))
            release.uninstall()
    install = statistics.median(installs)
    commit = statistics.median(way["first iteration committed"] for way in ways)
    rows: list[Row] = [
        {"what": "helm install to operator ready", "seconds, median": install, "most": max(installs)}
    ]
    rows += [
        {
            "what": f"apply to: {what}",
            "seconds, median": statistics.median(way[what] for way in ways),
            "most": max(way[what] for way in ways),
        }
        for what in ways[0]
    ]
    figures = [
        Figure("chart installed, operator ready", "<= 20 s", f"{install:.1f} s", install <= INSTALL_SECONDS),
        Figure(
            "apply to first committed iteration", "<= 45 s", f"{commit:.1f} s", commit <= FIRST_COMMIT_SECONDS
        ),
    ]
    meta = {"rounds": options.rounds, "job": example().name, "times of pods": "whole seconds"}
    report("cluster_start", rows, meta, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
