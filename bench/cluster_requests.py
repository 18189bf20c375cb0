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
from pathlib import Path
from typing import Any, Final

from bench.cluster_support import installed_release, namespace_of
from bench.common import Figure, Row, all_reached, report
from tests.cluster.jobs import Job, spec_of
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


def count(release: Release, workers: int) -> Counter[str]:
    """Requests by kind for a job with so many workers, until all of them are ready and it says Running."""
    log = release.cluster.audit_log
    assert log is not None, "the cluster keeps an audit log"
    spec = spec_of(es__iterations=100_000, evaluation={"sets": []})
    spec["workers"] |= {"replicas": workers, "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}}
    with namespace_of(release.cluster, "bench-requests") as namespace:
        offset = log.stat().st_size
        job = Job.create(release.api, namespace, "requests", spec)
        job.wait_ready("worker", workers, seconds=240)
        job.wait_condition("WorkersReady", seconds=60)
        counted = Counter(map(kind_of, requests_since(log, offset, namespace)))
        assert job.status["phase"] == "Running"
        job.delete()
    return counted


def main() -> int:
    """Count, print and write; 1 if a figure is missed."""
    argparse.ArgumentParser(prog="python -m bench.cluster_requests", description=__doc__).parse_args()
    with installed_release() as release:
        few, many = count(release, FEW), count(release, MANY)
    total, further = few.total(), (many.total() - few.total()) / (MANY - FEW)
    rows: list[Row] = [
        {"request": kind, f"{FEW} workers": few[kind], f"{MANY} workers": many[kind]}
        for kind in sorted(few | many)
    ]
    rows.append({"request": "all", f"{FEW} workers": total, f"{MANY} workers": many.total()})
    figures = [
        Figure("requests of a 5-pod job, apply to Running", "<= 30", str(total), total <= MOST_REQUESTS),
        Figure("requests per further worker", "<= 1.2", f"{further:.2f}", further <= MOST_PER_WORKER),
    ]
    report("cluster_requests", rows, {"account": ACCOUNT}, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
