"""API requests of the operator, counted in the API server's own audit log, from apply to Running.

A job with four workers (five pods), and one with twelve: the difference gives the price of a worker. Counted
are all requests under the operator's account in the job's namespace but watches, which are open all the time;
the operator's own start (one listing of each kind) is no part of a job.

Usage: python -m bench.cluster_requests
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.cluster_support import installed_release, namespace_of
from bench.common import Figure, Row, all_reached, report
from tests.cluster.jobs import Job, spec_of, until
from tests.cluster.release import NAME, NAMESPACE, Release

ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:{NAME}"
FEW, MANY = 4, 12
MOST_REQUESTS: Final = 30
MOST_PER_WORKER: Final = 1.2


def requests_since(log: Path, offset: int, namespace: str) -> list[dict[str, Any]]:
    """The operator's finished requests in a namespace from a position of the log on, watches left out."""
    with log.open("rb") as file:
        file.seek(offset)
        text = file.read().decode()
    entries = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return [
        entry
        for entry in entries
        if entry["stage"] == "ResponseComplete"
        and entry["user"]["username"] == ACCOUNT
        and entry.get("objectRef", {}).get("namespace") == namespace
        and entry["verb"] != "watch"
    ]


def kind_of(entry: dict[str, Any]) -> str:
    """`verb resource`, as `create pods` or `patch dartesjobs/status`."""
    what = entry.get("objectRef", {})
    parts = [what.get("resource", entry["requestURI"]), what.get("subresource", "")]
    return f"{entry['verb']} {'/'.join(filter(None, parts))}"


@dataclass(frozen=True)
class Counted:
    """Requests by kind until the job said Running, and how many until every worker was ready."""

    to_running: Counter[str]
    to_all_ready: int


def count(release: Release, workers: int) -> Counted:
    """Count for a job with so many workers. It runs as soon as the first of them is ready."""
    log = release.cluster.audit_log
    assert log is not None, "the cluster keeps an audit log"
    spec = spec_of(es__iterations=100_000, evaluation={"sets": []})
    spec["workers"] |= {"replicas": workers, "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}}
    with namespace_of(release.cluster, "bench-requests") as namespace:
        offset = log.stat().st_size
        job = Job.create(release.api, namespace, "requests", spec)
        until(lambda: job.status.get("phase") == "Running", "the job says Running", 120)
        to_running = Counter(map(kind_of, requests_since(log, offset, namespace)))
        job.wait_ready("worker", workers, seconds=240)
        to_all_ready = len(requests_since(log, offset, namespace))
        job.delete()
    return Counted(to_running, to_all_ready)


def main() -> int:
    """Count, print and write; 1 if a figure is missed."""
    argparse.ArgumentParser(prog="python -m bench.cluster_requests", description=__doc__).parse_args()
    with installed_release() as release:
        few, many = count(release, FEW), count(release, MANY)
    total = few.to_running.total()
    further = (many.to_running.total() - total) / (MANY - FEW)
    few_column, many_column = f"{FEW} workers", f"{MANY} workers"
    rows: list[Row] = [
        {"request": kind, few_column: few.to_running[kind], many_column: many.to_running[kind]}
        for kind in sorted(few.to_running | many.to_running)
    ]
    rows += [
        {"request": "all, to Running", few_column: total, many_column: many.to_running.total()},
        {
            "request": "all, until every worker is ready",
            few_column: few.to_all_ready,
            many_column: many.to_all_ready,
        },
    ]
    figures = [
        Figure("requests of a 5-pod job, apply to Running", "<= 30", str(total), total <= MOST_REQUESTS),
        Figure("requests per further worker", "<= 1.2", f"{further:.2f}", further <= MOST_PER_WORKER),
    ]
    report("cluster_requests", rows, {"account": ACCOUNT}, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
