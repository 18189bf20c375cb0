"""What the policies let through, asked of a small evaluator of the rules."""

import pytest

from dartes.spec.policies import NetworkPolicyMode
from dartes_operator.resources.identity import JobIdentity
from dartes_operator.resources.network_policy import network_policies

from ...cluster.network_rules import Network, Peer

JOB = JobIdentity("addition", "lab", "uid-1")
OTHER = JobIdentity("other", "lab", "uid-2")
NAMESPACES = {
    name: {"kubernetes.io/metadata.name": name}
    for name in ("lab", "dartes-system", "elsewhere", "kube-system")
}
OPERATOR = {"app.kubernetes.io/name": "dartes", "app.kubernetes.io/component": "operator"}


def _pod(job: JobIdentity, role: str) -> Peer:
    return Peer("lab", {**job.labels(role), "dartes.dev/role": role})


def _network(mode: NetworkPolicyMode) -> Network:
    return Network(network_policies(JOB, mode, "dartes-system"), NAMESPACES)


COORDINATOR, WORKER, EXPORT = (_pod(JOB, role) for role in ("coordinator", "worker", "export"))
BOTH = (NetworkPolicyMode.INGRESS_ONLY, NetworkPolicyMode.STRICT)


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize(
    ("pod", "peer", "port", "allowed"),
    [
        (COORDINATOR, WORKER, 7443, True),
        (COORDINATOR, Peer("dartes-system", OPERATOR), 7443, True),
        (COORDINATOR, _pod(OTHER, "worker"), 7443, False),
        (COORDINATOR, _pod(JOB, "export"), 7443, False),
        (COORDINATOR, Peer("elsewhere", OPERATOR), 7443, False),
        (COORDINATOR, Peer("dartes-system", {"app": "x"}), 7443, False),
        (COORDINATOR, Peer("lab", {}), 7443, False),
        (COORDINATOR, "10.0.0.9", 7443, False),
        (COORDINATOR, Peer("elsewhere", {}), 8080, True),
        (COORDINATOR, "10.0.0.9", 8080, True),
        (WORKER, COORDINATOR, 7443, False),
        (WORKER, WORKER, 22, False),
        (WORKER, Peer("elsewhere", {}), 8080, True),
        (EXPORT, Peer("elsewhere", {}), 22, False),
    ],
)
def test_what_comes_in(
    mode: NetworkPolicyMode, pod: Peer, peer: Peer | str, port: int, allowed: bool
) -> None:
    assert _network(mode).lets_in(pod, peer, port) is allowed


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("pod", [COORDINATOR, WORKER, EXPORT])
@pytest.mark.parametrize("address", ["169.254.169.254", "169.254.170.2", "fd00:ec2::254", "fe80::1"])
@pytest.mark.parametrize("port", [80, 443, 7443])
def test_metadata_addresses_stay_closed(mode: NetworkPolicyMode, pod: Peer, address: str, port: int) -> None:
    assert not _network(mode).lets_out(pod, address, port)


@pytest.mark.parametrize(
    ("peer", "port", "open_mode", "strict"),
    [
        ("1.2.3.4", 443, True, True),
        ("2600::1", 443, True, True),
        ("1.2.3.4", 9000, True, False),
        (COORDINATOR, 7443, True, True),
        (_pod(OTHER, "coordinator"), 7443, True, False),
        (Peer("elsewhere", {}), 5432, True, False),
        (Peer("kube-system", {}), 53, True, True),
        ("169.254.20.10", 53, True, True),
    ],
)
def test_what_a_worker_reaches(peer: Peer | str, port: int, open_mode: bool, strict: bool) -> None:
    assert _network(NetworkPolicyMode.INGRESS_ONLY).lets_out(WORKER, peer, port) is open_mode
    assert _network(NetworkPolicyMode.STRICT).lets_out(WORKER, peer, port) is strict


def test_no_policy_is_made_where_none_is_asked_for() -> None:
    assert network_policies(JOB, NetworkPolicyMode.NONE, "dartes-system") == ()
