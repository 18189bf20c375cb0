"""Quotas and limits that can stand in a job's way, with the condition and the API's words that tell of it.

Values only: `test_quotas.py` puts each into a namespace with a job of three workers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .held import Document


@dataclass(frozen=True)
class Case:
    """What stands in a namespace, and what the job there says of it."""

    name: str
    condition: str
    words: str
    quota: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)

    def objects(self) -> Iterator[tuple[str, Document]]:
        """(plural, object) of what stands in the namespace."""
        if self.quota:
            yield "resourcequotas", {"metadata": {"name": "tight"}, "spec": {"hard": dict(self.quota)}}
        if self.limits:
            yield "limitranges", {"metadata": {"name": "tight"}, "spec": {"limits": [dict(self.limits)]}}


def counted(name: str, resource: str, *, condition: str = "ResourcesReady", **changes: Any) -> Case:
    """A quota that has no room for one more of a kind."""
    # Each namespace has one ConfigMap from the start, with the cluster's authority.
    room = "1" if resource == "configmaps" else "0"
    return Case(
        name, condition, f"exceeded quota: tight, requested: {resource}=1", {resource: room}, {}, changes
    )


def limit(kind: str = "Container", **bounds: Any) -> Mapping[str, Any]:
    """One limit of a LimitRange."""
    return {"type": kind, **bounds}


BUDGET = {"disruptionBudget": "BlockVoluntary"}
CASES = [
    counted("no-pods", "pods", condition="CoordinatorReady"),
    counted("no-services", "services"),
    counted("no-config-maps", "configmaps"),
    counted("no-secrets", "secrets"),
    counted("no-claims", "persistentvolumeclaims"),
    counted("no-policies", "count/networkpolicies.networking.k8s.io"),
    counted("no-budgets", "count/poddisruptionbudgets.policy", **BUDGET),
    Case("two-pods", "WorkersScaled", "exceeded quota: tight, requested: pods=1", {"pods": "2"}),
    Case(
        "little-memory",
        "WorkersScaled",
        "exceeded quota: tight, requested: requests.memory",
        {"requests.memory": "1500Mi"},
    ),
    Case(
        "limits-wanted",
        "CoordinatorReady",
        "failed quota: tight: must specify limits.memory",
        {"limits.memory": "64Gi"},
    ),
    Case(
        "no-gpus",
        "WorkersReady",
        "exceeded quota: tight, requested: requests.example.com/gpu=1",
        {"requests.example.com/gpu": "0"},
        changes={"workers__gpusPerWorker": 1, "workers__gpuResourceName": "example.com/gpu"},
    ),
    Case(
        "little-storage",
        "ResourcesReady",
        "exceeded quota: tight, requested: requests.storage=1Gi",
        {"requests.storage": "100Mi"},
    ),
    Case(
        "small-containers",
        "WorkersReady",
        "must be less than or equal to memory limit of 768Mi",
        limits=limit(max={"memory": "768Mi"}),
    ),
    Case(
        "limited-containers",
        "WorkersReady",
        "maximum memory usage per Container is 2Gi, but limit is 4Gi",
        limits=limit(max={"memory": "2Gi"}),
        changes={"workers__resources": {"limits": {"memory": "4Gi"}}},
    ),
    Case(
        "large-containers",
        "CoordinatorReady",
        "minimum cpu usage per Container is 2",
        limits=limit(min={"cpu": "2"}, default={"cpu": "4"}),
    ),
    Case(
        "even-containers",
        "CoordinatorReady",
        "cpu max limit to request ratio per Container is 1",
        limits=limit(maxLimitRequestRatio={"cpu": "1"}, default={"cpu": "8"}),
    ),
    Case(
        "small-claims",
        "ResourcesReady",
        "maximum storage usage per PersistentVolumeClaim is 10Mi",
        limits=limit("PersistentVolumeClaim", max={"storage": "10Mi"}),
    ),
]
