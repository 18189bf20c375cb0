"""What chaos can do: every kind of act, what it may hit, how long it may last and how often it comes up.

A table of values; how an act is carried out is `injections`' to know.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Act(StrEnum):
    """Kinds of acts, in words for people."""

    WORKER_DELETED = "worker's pod deleted"
    WORKER_EVICTED = "worker's pod evicted"
    WORKER_KILLED = "worker's process killed"
    WORKER_TERMINATED = "worker's process told to leave (SIGTERM)"
    WORKER_OUT_OF_MEMORY = "worker out of memory"
    HALF_THE_WORKERS_EVICTED = "half of all workers evicted at once"
    COORDINATOR_DELETED = "coordinator's pod deleted"
    COORDINATOR_EVICTED = "coordinator's pod evicted"
    COORDINATOR_KILLED = "coordinator's process killed"
    COORDINATOR_TERMINATED = "coordinator's process told to leave (SIGTERM)"
    SCALED = "scaled"
    SUSPENDED = "suspended, then resumed"
    JOB_DELETED = "job deleted half-way and created again"
    SECRET_DELETED = "TLS Secret deleted"
    QUOTA_SET = "quota without room for pods, then lifted"
    VOLUME_FILLED = "checkpoint volume filled, then grown"
    OPERATOR_DELETED = "operator's pod deleted"
    OPERATOR_KILLED = "operator's process killed"
    OPERATOR_AWAY = "operator away, then back"
    API_FAULT = "faults between operator and API server"
    API_SERVER_RESTARTED = "API server restarted"
    NODE_DRAINED = "node drained, then uncordoned"
    KUBELET_STOPPED = "kubelet stopped, then started"
    NODE_LOST = "node lost, then another added"


class Scope(StrEnum):
    """Who else on the cluster notices."""

    NAMESPACES = "namespaces"
    CLUSTER = "cluster"


class Target(StrEnum):
    """What an act is aimed at."""

    JOB = "job"
    SMALL_JOB = "the job on a small volume"
    NAMESPACE = "namespace"
    OPERATOR = "operator"
    API = "api"
    NODES = "nodes"


@dataclass(frozen=True)
class Properties:
    """One kind of act. `weight` is how often it is in each bag; `lasts` says for how many steps at least and
    at most it stays, None where it is over at once."""

    target: Target
    weight: int = 1
    lasts: tuple[int, int] | None = None
    variants: int | None = None
    """So many kinds of it there are, each of which is to come up as often as the others."""
    scope: Scope = Scope.NAMESPACES


PROPERTIES = MappingProxyType(
    {
        Act.WORKER_DELETED: Properties(Target.JOB, 2),
        Act.WORKER_EVICTED: Properties(Target.JOB),
        Act.WORKER_KILLED: Properties(Target.JOB, 3),
        Act.WORKER_TERMINATED: Properties(Target.JOB),
        Act.WORKER_OUT_OF_MEMORY: Properties(Target.JOB),
        Act.HALF_THE_WORKERS_EVICTED: Properties(Target.JOB),
        Act.COORDINATOR_DELETED: Properties(Target.JOB, 2),
        Act.COORDINATOR_EVICTED: Properties(Target.JOB),
        Act.COORDINATOR_KILLED: Properties(Target.JOB, 3),
        Act.COORDINATOR_TERMINATED: Properties(Target.JOB),
        Act.SCALED: Properties(Target.JOB, 2, lasts=(2, 5)),
        Act.SUSPENDED: Properties(Target.JOB, 2, lasts=(1, 3)),
        Act.JOB_DELETED: Properties(Target.JOB),
        Act.SECRET_DELETED: Properties(Target.JOB, 2),
        Act.QUOTA_SET: Properties(Target.NAMESPACE, lasts=(1, 3)),
        Act.VOLUME_FILLED: Properties(Target.SMALL_JOB, lasts=(1, 3)),
        Act.OPERATOR_DELETED: Properties(Target.OPERATOR, 2),
        Act.OPERATOR_KILLED: Properties(Target.OPERATOR),
        Act.OPERATOR_AWAY: Properties(Target.OPERATOR, lasts=(1, 3)),
        Act.API_FAULT: Properties(Target.API, 4, lasts=(2, 4), variants=15),
        Act.API_SERVER_RESTARTED: Properties(Target.API, scope=Scope.CLUSTER),
        Act.NODE_DRAINED: Properties(Target.NODES, 2, lasts=(1, 3), scope=Scope.CLUSTER),
        Act.KUBELET_STOPPED: Properties(Target.NODES, lasts=(2, 8), scope=Scope.CLUSTER),
        Act.NODE_LOST: Properties(Target.NODES, lasts=(1, 4), scope=Scope.CLUSTER),
    }
)
