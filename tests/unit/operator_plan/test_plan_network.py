"""Policies and budget follow the spec, with few requests."""

from dataclasses import replace
from typing import Any

import pytest

from dartes_operator.plan.conclude import conclude
from dartes_operator.plan.types import Apply, Delete, Refused, Trouble

from .kit import Cluster, job, running


def test_policies_are_written_again_only_when_the_spec_moves_on() -> None:
    cluster = running()
    before = cluster.requests
    for _ in range(3):
        cluster.settle()
    assert cluster.requests == before
    cluster.edit(networkPolicy={"mode": "Strict"})
    cluster.settle()
    assert "443" in str(cluster.objects[("NetworkPolicy", "addition-worker")]["spec"]["egress"])


def test_an_operator_that_came_back_in_another_namespace_is_let_in() -> None:
    cluster = running()
    cluster.defaults = replace(cluster.defaults, operator_namespace="elsewhere")
    cluster.settle()
    ingress = cluster.objects[("NetworkPolicy", "addition-coordinator")]["spec"]["ingress"]
    assert "elsewhere" in str(ingress)
    before = cluster.requests
    cluster.settle()
    assert cluster.requests == before, "they are written once"


def test_policies_that_were_refused_are_asked_for_again() -> None:
    cluster = running()
    cluster.defaults = replace(cluster.defaults, operator_namespace="elsewhere")
    written = cluster.status["policyHash"]
    planned = cluster.plan()
    (action, *_) = [each for each in planned.actions if isinstance(each, Apply)]
    assert planned.status["policyHash"] != written
    concluded = conclude(planned, [Refused(action, Trouble.FORBIDDEN, "no")])
    assert concluded.status["policyHash"] == written


def test_policies_turned_off_are_deleted() -> None:
    cluster = running()
    cluster.edit(networkPolicy={"mode": "None"})
    cluster.settle()
    assert not [key for key in cluster.objects if key[0] == "NetworkPolicy"]


def test_a_disruption_budget_comes_and_goes_as_asked() -> None:
    cluster = Cluster(job(disruptionBudget="BlockVoluntary"))
    cluster.settle()
    assert ("PodDisruptionBudget", "addition-coordinator") in cluster.objects
    cluster.edit(disruptionBudget="None")
    cluster.settle()
    assert ("PodDisruptionBudget", "addition-coordinator") not in cluster.objects


def test_a_lost_service_is_made_again() -> None:
    cluster = running()
    del cluster.objects[("Service", "addition-coordinator")]
    cluster.settle()
    assert ("Service", "addition-coordinator") in cluster.objects


def test_policies_changed_while_something_stands_in_the_way_are_written_once_it_is_gone() -> None:
    cluster = running()
    service = cluster.objects[("Service", "addition-coordinator")]
    ours = service["metadata"]["labels"]
    service["metadata"]["labels"] = {"dartes.dev/job-uid": "other"}
    cluster.edit(networkPolicy={"mode": "None"})
    cluster.settle()
    assert cluster.condition("ResourcesReady")["reason"] == "NameConflict"
    assert cluster.status["observedGeneration"] == 1
    service["metadata"]["labels"] = ours
    cluster.settle()
    assert not [key for key in cluster.objects if key[0] == "NetworkPolicy"]
    assert cluster.status["observedGeneration"] == 2


def begun_without_a_status(**spec: Any) -> Cluster:
    """A job whose first pass has made everything, but could not write the status."""
    cluster = Cluster(job(**spec))
    cluster.crash(len(cluster.plan().actions))
    assert "startTime" not in cluster.status
    return cluster


def test_a_stricter_mode_asked_for_before_the_start_is_written_down_is_what_holds() -> None:
    cluster = begun_without_a_status(networkPolicy={"mode": "IngressOnly"})
    before = cluster.objects[("NetworkPolicy", "addition-worker")]["spec"]["egress"]
    cluster.edit(networkPolicy={"mode": "Strict"})
    cluster.settle()
    after = cluster.objects[("NetworkPolicy", "addition-worker")]["spec"]["egress"]
    assert after != before
    assert "443" in str(after)


@pytest.mark.parametrize(
    ("kind", "wanted", "dropped"),
    [
        ("NetworkPolicy", {"networkPolicy": {"mode": "Strict"}}, {"networkPolicy": {"mode": "None"}}),
        ("PodDisruptionBudget", {"disruptionBudget": "BlockVoluntary"}, {"disruptionBudget": "None"}),
    ],
)
def test_what_is_turned_off_before_the_start_is_written_down_goes(
    kind: str, wanted: dict[str, Any], dropped: dict[str, Any]
) -> None:
    cluster = begun_without_a_status(**wanted)
    assert [key for key in cluster.objects if key[0] == kind]
    cluster.edit(**dropped)
    cluster.settle()
    assert not [key for key in cluster.objects if key[0] == kind]


def test_a_new_job_deletes_no_policies_that_nobody_has_made() -> None:
    cluster = Cluster(job(networkPolicy={"mode": "None"}))
    assert not [action for action in cluster.plan().actions if isinstance(action, Delete)]
