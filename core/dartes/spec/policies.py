"""The small policies of a job: failures, network, disruption, monitoring.

The coordinator and the operator act on them; nothing here decides anything.
"""

from enum import StrEnum
from typing import Annotated

from dartes.spec.base import Boolean, Integer, SpecModel, about


class NetworkPolicyMode(StrEnum):
    """How closed the network around a job's pods is."""

    INGRESS_ONLY = "IngressOnly"
    STRICT = "Strict"
    NONE = "None"


class DisruptionBudget(StrEnum):
    """Whether a drain of a node waits for the coordinator."""

    NONE = "None"
    BLOCK_VOLUNTARY = "BlockVoluntary"


class FailurePolicy(SpecModel):
    """How many failures a run survives before it is failed."""

    coordinator_restarts: Annotated[
        Integer, about("How often the coordinator is started again after a failure.", ge=0, le=1000)
    ] = 6
    worker_failures: Annotated[
        Integer,
        about(
            "Worker failures that are forgiven; the count starts again every 10 iterations.", ge=0, le=100_000
        ),
    ] = 32
    max_disruptions: Annotated[
        Integer | None,
        about("Evictions and node losses that are forgiven; no limit if not set.", ge=0, le=1_000_000),
    ] = None


class NetworkPolicySpec(SpecModel):
    """The network policy made for a job."""

    mode: Annotated[
        NetworkPolicyMode,
        about(
            "IngressOnly closes what comes in and, of what goes out, link-local addresses such as those of "
            "metadata services; Strict leaves of what goes out only DNS, the coordinator and port 443; None "
            "makes no policy."
        ),
    ] = NetworkPolicyMode.INGRESS_ONLY


class MonitoringSpec(SpecModel):
    """What is made for a monitoring stack."""

    pod_monitor: Annotated[
        Boolean,
        about("Not supported: the chart's metrics.podMonitor makes one PodMonitor for the pods of all jobs."),
    ] = False
