"""A small evaluator of NetworkPolicies: what they let through, asked of policies, pods and namespaces.

It follows the rules of the API's reference, not those of a network plugin, and knows nothing of dartes. The
policies may be rendered ones or read from an API server.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]
TCP = "TCP"


@dataclass(frozen=True)
class Peer:
    """A pod as policies see it: its namespace, its labels, and its named ports as (protocol, number)."""

    namespace: str
    labels: Mapping[str, str]
    ports: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, pod: Object) -> "Peer":
        """A pod as the API server gives it."""
        ports = {
            port["name"]: (port.get("protocol", TCP), port["containerPort"])
            for container in pod["spec"]["containers"]
            for port in container.get("ports", ())
            if "name" in port
        }
        metadata = pod["metadata"]
        return cls(metadata["namespace"], metadata.get("labels") or {}, ports)


Other = Peer | str
"""The other end: a pod, or an address that is no pod's."""


class Network:
    """The policies of a cluster, and the labels of its namespaces."""

    def __init__(self, policies: Iterable[Object], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._policies = tuple(policies)
        self._namespaces = namespaces

    def lets_in(self, pod: Peer, other: Other, port: int, protocol: str = TCP) -> bool:
        """Whether the pod's side lets the other connect to that port of the pod."""
        return self._open(pod, "ingress", other, (pod, port, protocol))

    def lets_out(self, pod: Peer, other: Other, port: int, protocol: str = TCP) -> bool:
        """Whether the pod's side lets it connect to that port of the other."""
        to = other if isinstance(other, Peer) else None
        return self._open(pod, "egress", other, (to, port, protocol))

    def connects(self, source: Peer, target: Peer, port: int, protocol: str = TCP) -> bool:
        """Whether one pod can connect to another: both sides have to let it."""
        return self.lets_out(source, target, port, protocol) and self.lets_in(target, source, port, protocol)

    def _open(self, pod: Peer, direction: str, other: Other, target: tuple[Peer | None, int, str]) -> bool:
        chosen = [policy for policy in self._of(pod) if direction in _directions(policy["spec"])]
        side = "from" if direction == "ingress" else "to"
        # A pod that no policy isolates in this direction is open; else the rules of all of them add up.
        return not chosen or any(
            _has_port(rule.get("ports"), target) and self._has_peer(rule.get(side), pod.namespace, other)
            for policy in chosen
            for rule in policy["spec"].get(direction) or ()
        )

    def _of(self, pod: Peer) -> Iterator[Object]:
        for policy in self._policies:
            here = policy["metadata"]["namespace"] == pod.namespace
            if here and selects(policy["spec"].get("podSelector") or {}, pod.labels):
                yield policy

    def _has_peer(self, entries: Iterable[Object] | None, namespace: str, other: Other) -> bool:
        # A list that is missing or empty means everybody.
        entries = list(entries or ())
        return not entries or any(self._is_peer(entry, namespace, other) for entry in entries)

    def _is_peer(self, entry: Object, namespace: str, other: Other) -> bool:
        block = entry.get("ipBlock")
        if isinstance(other, str):
            return block is not None and _in_block(block, other)
        if block is not None:
            # A pod's address may be in a block; plugins differ, so a block opens nothing for a pod here.
            return False
        if "namespaceSelector" in entry:
            in_namespace = selects(entry["namespaceSelector"] or {}, self._namespaces[other.namespace])
        else:
            in_namespace = other.namespace == namespace
        return in_namespace and selects(entry.get("podSelector") or {}, other.labels)


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; ValueError for an operator that there is not."""
    exact = (selector.get("matchLabels") or {}).items()
    return all(labels.get(key) == value for key, value in exact) and all(
        _expression(entry, labels) for entry in selector.get("matchExpressions") or ()
    )


def _expression(entry: Object, labels: Mapping[str, str]) -> bool:
    key, values = entry["key"], entry.get("values") or ()
    match entry["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case operator:
            raise ValueError(f"operator {operator} of a label selector is not known")


def _directions(spec: Object) -> set[str]:
    given = spec.get("policyTypes")
    if given is None:
        return {"ingress", "egress"} if spec.get("egress") else {"ingress"}
    return {str(each).lower() for each in given}


def _has_port(entries: Iterable[Object] | None, target: tuple[Peer | None, int, str]) -> bool:
    entries = list(entries or ())
    return not entries or any(_is_port(entry, *target) for entry in entries)


def _is_port(entry: Object, pod: Peer | None, number: int, protocol: str) -> bool:
    if entry.get("protocol", TCP) != protocol:
        return False
    wanted = entry.get("port")
    if wanted is None:
        return True
    if isinstance(wanted, str):
        return pod is not None and pod.ports.get(wanted) == (protocol, number)
    return bool(wanted <= number <= entry.get("endPort", wanted))


def _in_block(block: Object, address: str) -> bool:
    found = ipaddress.ip_address(address)
    return found in ipaddress.ip_network(block["cidr"]) and not any(
        found in ipaddress.ip_network(cidr) for cidr in block.get("except") or ()
    )
