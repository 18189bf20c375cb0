"""What a killed process costs: from the kill to the next committed iteration.

One run in a cluster, one coordinator and two workers; in turn the coordinator's process is killed, its pod is
deleted, and a worker's process is killed. Commits are timed by the coordinator's own log lines, kills by this
process's clock on the same machine.

Usage: python -m bench.cluster_recovery [--rounds N]
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from bench.cluster_support import installed_release, log_lines, namespace_of, parse_time
from bench.common import Figure, Row, all_reached, report
from tests.cluster.held import CommandFailedError
from tests.cluster.jobs import Job, spec_of, uid, until
from tests.cluster.release import Release

COORDINATOR_SECONDS: Final = 15.0
WORKERS: Final = 2


def commits(release: Release, job: Job) -> list[tuple[datetime, int]]:
    """Time and number of the iterations that the present coordinator has committed."""
    pods = job.live("coordinator")
    if not pods or not pods[0]["status"].get("containerStatuses"):
        return []
    try:
        text = release.kubectl("logs", pods[0]["metadata"]["name"], "-n", job.namespace)
    except CommandFailedError:
        return []  # it has not begun to log
    return [
        (parse_time(line["time"]), int(line["message"].split()[1]))
        for line in log_lines(text)
        if line["message"].startswith("iteration ")
    ]


def next_commit(release: Release, job: Job, since: datetime) -> float:
    """Seconds from a moment to the next commit."""
    found = until(
        lambda: [at for at, _ in commits(release, job) if at > since], f"a commit after {since}", 120
    )
    return (min(found) - since).total_seconds()


def typical(release: Release, job: Job) -> float:
    """Median seconds between commits while nothing happens."""
    times = [at for at, _ in until(lambda: _enough(commits(release, job)), "some iterations", 120)]
    gaps = [(after - before).total_seconds() for before, after in pairwise(times)]
    return statistics.median(gaps)


def _enough(found: list[tuple[datetime, int]]) -> list[tuple[datetime, int]] | None:
    return found[-6:] if len(found) >= 6 else None


def disturb(release: Release, job: Job, how: Callable[[], dict[str, Any]], role: str) -> float:
    """Do something to a pod; seconds to the next commit, with all pods back afterwards."""
    since = datetime.now(UTC)
    victim = how()
    seconds = next_commit(release, job, since)
    until(lambda: uid(victim) not in {uid(pod) for pod in job.live(role)}, "the victim is replaced", 60)
    job.wait_ready("coordinator", 1)
    job.wait_ready("worker", WORKERS)
    return seconds


def main() -> int:
    """Measure, print and write; 1 if a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_recovery", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with installed_release() as release, namespace_of(release.cluster, "bench-recovery") as namespace:
        spec = spec_of(es__iterations=100_000, evaluation={"sets": []})
        spec["failurePolicy"] = {"coordinatorRestarts": 100, "workerFailures": 100}
        job = Job.create(release.api, namespace, "recovery", spec)
        job.wait_ready("worker", WORKERS)
        usual = typical(release, job)

        def kill(role: str) -> dict[str, Any]:
            victim = job.live(role)[0]
            release.kill_container(victim, role)
            return victim

        def delete(role: str) -> dict[str, Any]:
            victim = job.live(role)[0]
            release.api.core.delete_namespaced_pod(victim["metadata"]["name"], namespace)
            return victim

        measured: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for what, how, role in (
                ("coordinator's process killed", kill, "coordinator"),
                ("coordinator's pod deleted", delete, "coordinator"),
                ("worker's process killed", kill, "worker"),
            ):
                seconds = disturb(release, job, lambda how=how, role=role: how(role), role)  # type: ignore[misc]
                measured.setdefault(what, []).append(seconds)
        job.delete()
    rows: list[Row] = [{"what": "an undisturbed iteration", "seconds to the next commit, median": usual}]
    rows += [
        {"what": what, "seconds to the next commit, median": statistics.median(values), "most": max(values)}
        for what, values in measured.items()
    ]
    worst = max(max(v) for what, v in measured.items() if what.startswith("coordinator"))
    worker = max(measured["worker's process killed"])
    # A lease of this job takes about an iteration's time: at most all leases of a worker are given out again.
    allowed = 2 * usual + 1.0
    figures = [
        Figure(
            "coordinator killed to next commit", "<= 15 s", f"{worst:.1f} s", worst <= COORDINATOR_SECONDS
        ),
        Figure(
            "worker killed: the iteration commits, later by at most one lease",
            f"<= {allowed:.1f} s (an iteration, a lease, 1 s to notice)",
            f"{worker:.1f} s",
            worker <= allowed,
        ),
    ]
    report("cluster_recovery", rows, {"rounds": options.rounds, "workers": WORKERS}, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
