"""The evaluator of NetworkPolicies, held to the rules of the API's reference."""

from typing import Any

import pytest

from ..cluster.network_rules import Network, Peer, selects

NAMESPACES = {"a": {"team": "red"}, "b": {"team": "blue"}}
WEB = Peer("a", {"app": "web"}, {"http": ("TCP", 8080)})
SAME = Peer("a", {"app": "db"})
FAR = Peer("b", {"app": "db"})


def _policy(selector: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "a"}, "spec": {"podSelector": selector or {}, **spec}}


def _in(*rules: dict[str, Any]) -> Network:
    return Network([_policy(policyTypes=["Ingress"], ingress=list(rules))], NAMESPACES)


def test_a_pod_without_a_policy_is_open_both_ways() -> None:
    elsewhere = _policy(selector={"matchLabels": {"app": "db"}}, policyTypes=["Ingress", "Egress"])
    network = Network([elsewhere], NAMESPACES)
    assert network.lets_in(WEB, FAR, 1)
    assert network.lets_out(WEB, "1.2.3.4", 1)
    assert not network.lets_in(SAME, FAR, 1)
    assert network.lets_in(FAR, SAME, 1), "a policy is its own namespace's alone"


def test_a_policy_isolates_in_its_directions_only() -> None:
    assert not _in().lets_in(WEB, SAME, 8080)
    assert _in().lets_out(WEB, SAME, 8080)
    # Without policyTypes it isolates what comes in, and what goes out where it has rules for that.
    assert Network([_policy(ingress=[])], NAMESPACES).lets_out(WEB, SAME, 1)
    assert not Network([_policy(egress=[{"ports": [{"port": 2}]}])], NAMESPACES).lets_out(WEB, SAME, 1)


def test_the_rules_of_all_policies_add_up() -> None:
    one = _policy(ingress=[{"ports": [{"port": 1}]}])
    two = _policy(ingress=[{"ports": [{"port": 2}]}])
    network = Network([one, two], NAMESPACES)
    assert [network.lets_in(WEB, SAME, port) for port in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize(
    ("entry", "same", "far"),
    [
        ({"podSelector": {}}, True, False),
        ({"podSelector": {"matchLabels": {"app": "db"}}}, True, False),
        ({"podSelector": {"matchLabels": {"app": "x"}}}, False, False),
        ({"namespaceSelector": {}}, True, True),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False, True),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}, "podSelector": {}}, False, True),
        (
            {
                "namespaceSelector": {"matchLabels": {"team": "blue"}},
                "podSelector": {"matchLabels": {"app": "x"}},
            },
            False,
            False,
        ),
        ({"ipBlock": {"cidr": "0.0.0.0/0"}}, False, False),
    ],
)
def test_peers_are_chosen_by_namespace_and_labels(entry: dict[str, Any], same: bool, far: bool) -> None:
    network = _in({"from": [entry]})
    assert network.lets_in(WEB, SAME, 1) is same
    assert network.lets_in(WEB, FAR, 1) is far


def test_an_empty_list_of_peers_or_ports_means_all() -> None:
    assert _in({"from": [], "ports": []}).lets_in(WEB, FAR, 99)


@pytest.mark.parametrize(
    ("entry", "port", "protocol", "is_open"),
    [
        ({"port": 8080}, 8080, "TCP", True),
        ({"port": 8080}, 8080, "UDP", False),
        ({"port": 53, "protocol": "UDP"}, 53, "UDP", True),
        ({"port": "http"}, 8080, "TCP", True),
        ({"port": "http"}, 8081, "TCP", False),
        ({"port": "other"}, 8080, "TCP", False),
        ({"port": 80, "endPort": 90}, 90, "TCP", True),
        ({"port": 80, "endPort": 90}, 91, "TCP", False),
        ({"protocol": "TCP"}, 1, "TCP", True),
    ],
)
def test_ports_are_numbers_names_and_ranges(
    entry: dict[str, Any], port: int, protocol: str, is_open: bool
) -> None:
    assert _in({"ports": [entry]}).lets_in(WEB, SAME, port, protocol) is is_open


def test_blocks_hold_addresses_but_their_exceptions() -> None:
    block = {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}
    network = Network([_policy(policyTypes=["Egress"], egress=[{"to": [{"ipBlock": block}]}])], NAMESPACES)
    assert network.lets_out(WEB, "10.2.0.1", 1)
    assert not network.lets_out(WEB, "10.1.0.1", 1)
    assert not network.lets_out(WEB, "11.0.0.1", 1)
    assert not network.lets_out(WEB, "fd00::1", 1)


def test_a_connection_needs_both_sides() -> None:
    closed_out = _policy(selector={"matchLabels": {"app": "db"}}, policyTypes=["Egress"])
    assert not Network([closed_out], NAMESPACES).connects(SAME, WEB, 8080)
    assert Network([closed_out], NAMESPACES).connects(WEB, SAME, 8080)
    assert not _in().connects(SAME, WEB, 8080)


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("In", ["web"], True),
        ("In", ["x"], False),
        ("NotIn", ["web"], False),
        ("NotIn", ["x"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_expressions_of_selectors(operator: str, values: list[str], matches: bool) -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}
    assert selects(selector, WEB.labels) is matches


def test_an_unknown_operator_is_no_match_by_silence() -> None:
    with pytest.raises(ValueError, match="Gt"):
        selects({"matchExpressions": [{"key": "app", "operator": "Gt"}]}, WEB.labels)
