"""The three jobs: small, alike enough to be compared and different enough to be three.

Values only. Each is at the pace of a larger model (see `tests/cluster/disturbed_engine.py`), so that an act
meets it at work; the same job without cluster and pace is what it must come out as.
"""

from collections.abc import Mapping
from typing import Any

from tests.cluster.jobs import spec_of, with_disturbed_engine

from .schedule import Layout

LAYOUT = Layout({"red": "first", "green": "first", "blue": "second"}, small="blue")
"""Two jobs share a namespace; the third has a volume that can fill, and so a node that it stays on."""

KEPT_NODE = "node1"
"""Never lost, only drained or silent: a volume that cannot follow is there."""

WORKERS = 2
ITERATIONS = 50
PACE_SECONDS = 0.25
"""With 8 members on two workers an iteration takes at least 1 s."""

SMALL_SIZE = "16Mi"
MANY = 1000
"""A budget that no schedule uses up: what chaos checks is what is charged to it."""

_DIFFERENCES: Mapping[str, Mapping[str, Any]] = {
    "red": {"es__seed": 11},
    "green": {"es__seed": 12, "es__slicesPerMember": 2},
    "blue": {"es__seed": 13, "es__antithetic": True},
}


def plain_spec(name: str) -> dict[str, Any]:
    """A job as anybody could run it anywhere."""
    return spec_of(
        es__iterations=ITERATIONS,
        es__populationSize=8,
        es__batchSize=16,
        evaluation={"sets": []},
        workers__replicas=WORKERS,
        **_DIFFERENCES[name],
    )


def cluster_spec(name: str, strikes: str) -> dict[str, Any]:
    """The same for the cluster: its pace, its volume, and where its coordinators kill themselves."""
    spec = plain_spec(name)
    small = name == LAYOUT.small
    volume = {"size": SMALL_SIZE if small else "64Mi", "storageClassName": "small" if small else "portable"}
    spec["checkpoint"] = {"volume": volume, "retentionPolicy": "Delete"}
    spec["failurePolicy"] = {"coordinatorRestarts": MANY, "workerFailures": MANY}
    spec["workers"] = {
        **with_disturbed_engine(spec["workers"], PACE_SECONDS),
        # Where it is out of memory; the scheduler is not what is tried here.
        "resources": {"limits": {"memory": "1200Mi"}, "requests": {"memory": "300Mi", "cpu": "50m"}},
    }
    spec["coordinator"] = {
        "env": [{"name": "DARTES_FAULT", "value": strikes}],
        "resources": {"requests": {"memory": "100Mi", "cpu": "50m"}},
        **({"nodeSelector": {"kubernetes.io/hostname": KEPT_NODE}} if small else {}),
    }
    return spec


def planned_strikes(job: Mapping[str, Any]) -> int:
    """How many coordinators of a job may kill themselves, as its manifest says."""
    env = ((job["spec"].get("coordinator") or {}).get("env")) or ()
    plans = [str(each.get("value", "")) for each in env if each["name"] == "DARTES_FAULT"]
    return sum(len(plan.split(",")) for plan in plans if plan)
