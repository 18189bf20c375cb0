"""The coordinator's Service: a stable name for its gRPC and HTTP ports, whether it is ready or not."""

from typing import Any

from dartes_operator.resources.identity import JobIdentity, Role
from dartes_operator.resources.ports import GRPC_PORT, HTTP_PORT


def service(job: JobIdentity) -> dict[str, Any]:
    """ClusterIP Service of the coordinator.

    Not-ready addresses are published, because workers dial while the coordinator is still opening its volume
    and would otherwise wait for DNS instead of for the connection.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": job.metadata(job.coordinator, Role.COORDINATOR.value),
        "spec": {
            "type": "ClusterIP",
            "publishNotReadyAddresses": True,
            "selector": job.selector(Role.COORDINATOR)["matchLabels"],
            "ports": [
                {"name": "grpc", "port": GRPC_PORT, "targetPort": "grpc", "protocol": "TCP"},
                {"name": "http", "port": HTTP_PORT, "targetPort": "http", "protocol": "TCP"},
            ],
        },
    }
