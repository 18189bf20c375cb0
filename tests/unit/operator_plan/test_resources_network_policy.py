"""What the policies let through, asked of a small evaluator of the rules."""

import ipaddress
from collections.abc import Mapping
from typing import Any

import pytest

from dartes.spec.policies import NetworkPolicyMode
from dartes_operator.resources.identity import JobIdentity
from dartes_operator.resources.network_policy import network_policies

JOB = JobIdentity("addition", "lab", "uid-1")
OTHER = JobIdentity("other", "lab", "uid-2")
NAMESPACES = {
    name: {"kubernetes.io/metadata.name": name}
    for name in ("lab", "dartes-system", "elsewhere", "kube-system")
}
OPERATOR = {"app.kubernetes.io/name": "dartes", "app.kubernetes.io/component": "operator"}
Peer = tuple[str, Mapping[str, str]]  # namespace, labels


def _pod(job: JobIdentity, role: str) -> Peer:
    return "lab", {**job.labels(role), "dartes.dev/role": role}


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    exact = selector.get("matchLabels", {}).items()
    return all(labels.get(key) == value for key, value in exact) and all(
        labels.get(entry["key"]) in entry["values"] for entry in selector.get("matchExpressions", ())
    )


def _matches(entry: Mapping[str, Any], namespace: str, peer: Peer | str) -> bool:
    if isinstance(peer, str):
        block = entry.get("ipBlock")
        if block is None:
            return False
        address = ipaddress.ip_address(peer)
        return address in ipaddress.ip_network(block["cidr"]) and not any(
            address in ipaddress.ip_network(cidr) for cidr in block.get("except", ())
        )
    if "ipBlock" in entry:
        return False
    where, labels = peer
    if "namespaceSelector" in entry:
        in_namespace = _selects(entry["namespaceSelector"], NAMESPACES[where])
    else:
        in_namespace = where == namespace
    return in_namespace and _selects(entry.get("podSelector", {}), labels)


def _allowed(mode: NetworkPolicyMode, pod: Peer, direction: str, peer: Peer | str, port: int) -> bool:
    policies = network_policies(JOB, mode, "dartes-system")
    chosen = [policy for policy in policies if _selects(policy["spec"]["podSelector"], pod[1])]
    if not chosen:
        return True
    side = "from" if direction == "ingress" else "to"
    return any(
        any(entry["port"] == port for entry in rule.get("ports", ({"port": port},)))
        and (side not in rule or any(_matches(entry, "lab", peer) for entry in rule[side]))
        for policy in chosen
        for rule in policy["spec"][direction]
    )


COORDINATOR, WORKER, EXPORT = (_pod(JOB, role) for role in ("coordinator", "worker", "export"))
BOTH = (NetworkPolicyMode.INGRESS_ONLY, NetworkPolicyMode.STRICT)


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize(
    ("pod", "peer", "port", "allowed"),
    [
        (COORDINATOR, WORKER, 7443, True),
        (COORDINATOR, ("dartes-system", OPERATOR), 7443, True),
        (COORDINATOR, _pod(OTHER, "worker"), 7443, False),
        (COORDINATOR, _pod(JOB, "export"), 7443, False),
        (COORDINATOR, ("elsewhere", OPERATOR), 7443, False),
        (COORDINATOR, ("dartes-system", {"app": "x"}), 7443, False),
        (COORDINATOR, ("lab", {}), 7443, False),
        (COORDINATOR, "10.0.0.9", 7443, False),
        (COORDINATOR, ("elsewhere", {}), 8080, True),
        (COORDINATOR, "10.0.0.9", 8080, True),
        (WORKER, COORDINATOR, 7443, False),
        (WORKER, WORKER, 22, False),
        (WORKER, ("elsewhere", {}), 8080, True),
        (EXPORT, ("elsewhere", {}), 22, False),
    ],
)
def test_what_comes_in(
    mode: NetworkPolicyMode, pod: Peer, peer: Peer | str, port: int, allowed: bool
) -> None:
    assert _allowed(mode, pod, "ingress", peer, port) is allowed


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("pod", [COORDINATOR, WORKER, EXPORT])
@pytest.mark.parametrize("address", ["169.254.169.254", "169.254.170.2", "fd00:ec2::254", "fe80::1"])
@pytest.mark.parametrize("port", [80, 443, 7443])
def test_metadata_addresses_stay_closed(mode: NetworkPolicyMode, pod: Peer, address: str, port: int) -> None:
    assert not _allowed(mode, pod, "egress", address, port)


@pytest.mark.parametrize(
    ("peer", "port", "open_mode", "strict"),
    [
        ("1.2.3.4", 443, True, True),
        ("2600::1", 443, True, True),
        ("1.2.3.4", 9000, True, False),
        (COORDINATOR, 7443, True, True),
        (_pod(OTHER, "coordinator"), 7443, True, False),
        (("elsewhere", {}), 5432, True, False),
        (("kube-system", {}), 53, True, True),
        ("169.254.20.10", 53, True, True),
    ],
)
def test_what_a_worker_reaches(peer: Peer | str, port: int, open_mode: bool, strict: bool) -> None:
    assert _allowed(NetworkPolicyMode.INGRESS_ONLY, WORKER, "egress", peer, port) is open_mode
    assert _allowed(NetworkPolicyMode.STRICT, WORKER, "egress", peer, port) is strict


def test_no_policy_is_made_where_none_is_asked_for() -> None:
    assert network_policies(JOB, NetworkPolicyMode.NONE, "dartes-system") == ()
