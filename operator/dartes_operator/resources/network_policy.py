"""The network policies around a job's pods.

Both modes keep every link-local address closed, where clouds hand out node credentials. A policy can only say
what is open, so also `IngressOnly` has a rule for what goes out: everything but those addresses.
"""

from typing import Any

from dartes.spec.policies import NetworkPolicyMode
from dartes_operator.resources.identity import COMPONENT_LABEL, NAME_LABEL, JobIdentity, Role
from dartes_operator.resources.ports import GRPC_PORT, HTTP_PORT

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
DNS_PORT = 53
HTTPS_PORT = 443

_WORLD: tuple[dict[str, Any], ...] = (
    {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}},
    {"ipBlock": {"cidr": "::/0", "except": ["fe80::/10", "fd00:ec2::254/128"]}},
)
# Some network plugins match pods only by selector, never by address block.
_ALL_PODS: dict[str, Any] = {"namespaceSelector": {}}


def network_policies(
    job: JobIdentity, mode: NetworkPolicyMode, operator_namespace: str
) -> tuple[dict[str, Any], ...]:
    """The policies of the coordinator and of the workers (with the export pod); none in mode None."""
    if mode is NetworkPolicyMode.NONE:
        return ()
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: operator_namespace}},
        "podSelector": {"matchLabels": {NAME_LABEL: "dartes", COMPONENT_LABEL: "operator"}},
    }
    # Probes come from the node and metrics from any namespace: this port carries no data of the job.
    http = {"ports": [_tcp(HTTP_PORT)]}
    grpc = {"from": [{"podSelector": job.selector(Role.WORKER)}, operator], "ports": [_tcp(GRPC_PORT)]}
    return (
        _policy(job, job.coordinator, (Role.COORDINATOR,), [grpc, http], _egress(job, mode)),
        _policy(job, job.worker_policy, (Role.WORKER, Role.EXPORT), [http], _egress(job, mode)),
    )


def _egress(job: JobIdentity, mode: NetworkPolicyMode) -> list[dict[str, Any]]:
    # Without `to`: a node-local DNS cache has a link-local address itself, and nothing else listens on 53.
    dns = {"ports": [{"protocol": "UDP", "port": DNS_PORT}, _tcp(DNS_PORT)]}
    if mode is NetworkPolicyMode.STRICT:
        return [
            dns,
            {"to": [{"podSelector": job.selector(Role.COORDINATOR)}], "ports": [_tcp(GRPC_PORT)]},
            {"to": list(_WORLD), "ports": [_tcp(HTTPS_PORT)]},
        ]
    return [dns, {"to": [_ALL_PODS, *_WORLD]}]


def _policy(
    job: JobIdentity,
    name: str,
    roles: tuple[Role, ...],
    ingress: list[dict[str, Any]],
    egress: list[dict[str, Any]],
) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": job.metadata(name, roles[0].value),
        "spec": {
            "podSelector": job.selector(*roles),
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _tcp(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}
