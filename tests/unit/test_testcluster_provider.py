"""Which cluster the tests choose in which surroundings."""

import pytest

from tests.cluster.provider import Provider, Surroundings, choose, is_required, look_around

PROBLEM = "it needs root, for mounts, network devices and cgroups"


@pytest.mark.parametrize(
    ("around", "provider"),
    [
        (Surroundings("mine", docker_answers=True, has_kind=True), Provider.NAMED),
        (Surroundings("mine", own_problem=PROBLEM), Provider.NAMED),
        (Surroundings(docker_answers=True, has_kind=True), Provider.KIND),
        (Surroundings(docker_answers=True, has_kind=True, own_problem=PROBLEM), Provider.KIND),
        (Surroundings(docker_answers=True), Provider.OWN),
        (Surroundings(has_kind=True), Provider.OWN),
        (Surroundings(), Provider.OWN),
        (Surroundings(docker_answers=True, own_problem=PROBLEM), None),
        (Surroundings(has_kind=True, own_problem=PROBLEM), None),
    ],
)
def test_a_named_context_comes_before_kind_and_kind_before_our_own(
    around: Surroundings, provider: Provider | None
) -> None:
    assert choose(around).provider is provider


def test_a_named_context_is_handed_on() -> None:
    assert choose(Surroundings("mine")).context == "mine"


def test_without_a_cluster_the_reason_names_every_way_to_one() -> None:
    reason = choose(Surroundings(own_problem=PROBLEM)).reason
    assert "DARTES_TEST_CONTEXT" in reason
    assert "Docker" in reason
    assert PROBLEM in reason


def test_an_exported_kubeconfig_names_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cluster.provider.docker_answers", lambda: False)
    monkeypatch.setattr("tests.cluster.provider.own_problem", lambda: PROBLEM)
    assert choose(look_around({"KUBECONFIG": "/home/somebody/.kube/config"})).provider is None
    assert choose(look_around({"DARTES_TEST_CONTEXT": "mine"})).provider is Provider.NAMED


def test_an_empty_variable_names_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cluster.provider.docker_answers", lambda: False)
    monkeypatch.setattr("tests.cluster.provider.own_problem", lambda: None)
    assert choose(look_around({"DARTES_TEST_CONTEXT": ""})).provider is Provider.OWN


def test_a_cluster_is_required_only_where_the_variable_is_one() -> None:
    assert is_required({"DARTES_REQUIRE_CLUSTER": "1"})
    assert not is_required({"DARTES_REQUIRE_CLUSTER": "0"})
    assert not is_required({})
