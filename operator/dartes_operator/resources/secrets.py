"""Metadata of the three TLS Secrets and the names that the coordinator's certificate is valid for.

What is in them is made elsewhere; nothing here sees a key.
"""

from typing import Any

from dartes_operator.resources.identity import RUN_COMPONENT, JobIdentity, Role, TlsRole

_COMPONENTS = {
    TlsRole.COORDINATOR: Role.COORDINATOR.value,
    TlsRole.WORKER: Role.WORKER.value,
    TlsRole.OPERATOR: RUN_COMPONENT,
}


def tls_metadata(job: JobIdentity) -> dict[str, dict[str, Any]]:
    """Role -> metadata of its Secret."""
    return {
        role.value: job.metadata(job.tls_secret(role), component) for role, component in _COMPONENTS.items()
    }


def tls_dns_names(job: JobIdentity) -> tuple[str, ...]:
    """Every name under which the coordinator's Service is reached in the cluster."""
    short = f"{job.coordinator}.{job.namespace}"
    return (job.coordinator, short, f"{short}.svc", f"{short}.svc.cluster.local")
