"""What the API server refuses is shown in its own words, costs no budget, and heals."""

import pytest

from dartes_operator.plan.types import Trouble
from dartes_operator.plan.workers import MOST_CREATED_AT_ONCE

from .kit import Cluster, running


def _refused(prefix: str, trouble: Trouble, message: str = "words") -> Cluster:
    cluster = Cluster()
    cluster.refuse = {prefix: (trouble, message)}
    cluster.settle()
    return cluster


@pytest.mark.parametrize(
    ("prefix", "trouble", "condition", "reason"),
    [
        ("PersistentVolumeClaim/", Trouble.NAME_CONFLICT, "ResourcesReady", "VolumeExists"),
        ("PersistentVolumeClaim/", Trouble.QUOTA_EXCEEDED, "ResourcesReady", "QuotaExceeded"),
        ("NetworkPolicy/", Trouble.NAME_CONFLICT, "ResourcesReady", "NameConflict"),
        ("Pod/addition-coordinator", Trouble.NAME_CONFLICT, "ResourcesReady", "NameConflict"),
        ("Pod/addition-coordinator", Trouble.QUOTA_EXCEEDED, "CoordinatorReady", "QuotaExceeded"),
        ("Pod/addition-worker", Trouble.QUOTA_EXCEEDED, "WorkersReady", "QuotaExceeded"),
        ("Pod/addition-worker", Trouble.INVALID, "Accepted", "PodTemplateInvalid"),
        ("Pod/addition-worker", Trouble.FORBIDDEN, "ResourcesReady", "Forbidden"),
        ("Pod/addition-coordinator", Trouble.WEBHOOK_AWAY, "CoordinatorReady", "WebhookUnavailable"),
        ("Pod/addition-worker", Trouble.WEBHOOK_AWAY, "WorkersReady", "WebhookUnavailable"),
        ("Service/", Trouble.WEBHOOK_AWAY, "ResourcesReady", "WebhookUnavailable"),
        ("Service/", Trouble.INVALID, "ResourcesReady", "Invalid"),
    ],
)
def test_a_refusal_is_shown_where_it_belongs_and_heals(
    prefix: str, trouble: Trouble, condition: str, reason: str
) -> None:
    cluster = _refused(prefix, trouble)
    found = cluster.condition(condition)
    assert (found["status"], found["reason"]) == ("False", reason)
    assert "words" in found["message"]
    assert cluster.last is not None
    assert cluster.last.requeue_after is not None
    cluster.refuse = {}
    cluster.pass_by(61)
    cluster.settle()
    cluster.start_all()
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    cluster.start_all()
    cluster.settle()
    assert cluster.status["phase"] == "Running"
    assert cluster.condition("Accepted")["status"] == "True"
    assert cluster.condition("ResourcesReady")["status"] == "True"


@pytest.mark.parametrize("trouble", list(Trouble))
@pytest.mark.parametrize("prefix", ["Pod/addition-worker", "Pod/addition-coordinator", "NetworkPolicy/"])
def test_a_standing_refusal_is_written_once(prefix: str, trouble: Trouble) -> None:
    cluster = _refused(prefix, trouble)
    writes, events = cluster.status_writes, len(cluster.events)
    for _ in range(3):
        cluster.pass_by(7)
        cluster.settle()
    assert cluster.status_writes == writes
    assert len(cluster.events) == events


def test_a_name_conflict_at_the_start_leaves_the_spec_open_to_change() -> None:
    cluster = _refused("PersistentVolumeClaim/", Trouble.NAME_CONFLICT)
    assert "startTime" not in cluster.status
    assert cluster.status["phase"] == "Pending"
    assert "CoordinatorCreated" not in cluster.event_reasons()


def test_more_workers_than_are_made_at_once_do_not_make_a_quota_be_asked_without_pause() -> None:
    cluster = running()
    cluster.refuse = {"Pod/addition-worker": (Trouble.QUOTA_EXCEEDED, "exceeded quota: team")}
    cluster.edit(workers={"replicas": MOST_CREATED_AT_ONCE + 100})
    cluster.settle()
    assert cluster.last is not None
    assert cluster.last.requeue_after == 15.0


def test_a_quota_costs_no_budget_and_keeps_what_runs() -> None:
    cluster = running()
    cluster.refuse = {"Pod/addition-worker": (Trouble.QUOTA_EXCEEDED, "exceeded quota: team")}
    cluster.edit(workers={"replicas": 4})
    cluster.settle()
    assert cluster.status["phase"] == "Running"
    assert cluster.condition("WorkersScaled")["reason"] == "QuotaExceeded"
    assert cluster.condition("WorkersReady")["status"] == "True"
    assert cluster.status["failures"]["worker"] == 0
    assert cluster.last is not None
    assert cluster.last.requeue_after == 15


def test_a_name_still_going_away_is_tried_again_soon() -> None:
    cluster = _refused("Pod/addition-coordinator", Trouble.TERMINATING)
    assert cluster.last is not None
    assert cluster.last.requeue_after == 1


def test_policies_refused_at_the_start_are_written_later() -> None:
    cluster = _refused("NetworkPolicy/addition-worker", Trouble.QUOTA_EXCEEDED)
    assert "observedGeneration" not in cluster.status
    cluster.refuse = {}
    cluster.settle()
    assert ("NetworkPolicy", "addition-worker") in cluster.objects


def test_a_template_that_the_api_server_refused_can_be_mended_by_an_edit() -> None:
    cluster = _refused("Pod/addition-worker", Trouble.INVALID)
    old = cluster.pod("addition-coordinator")["metadata"]["annotations"]["dartes.dev/template-hash"]
    cluster.refuse = {}
    cluster.edit(workers={"podTemplate": {"metadata": {"labels": {"team": "blue"}}}})
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    cluster.start_all()
    cluster.settle()
    assert cluster.status["phase"] == "Running"
    hashes = {pod["metadata"]["annotations"]["dartes.dev/template-hash"] for pod in cluster.pods().values()}
    assert hashes == {cluster.status["templateHash"]}
    assert old not in hashes
    assert cluster.pod("addition-worker-0")["metadata"]["labels"]["team"] == "blue"
    assert len([key for key in cluster.objects if key[0] == "ConfigMap"]) == 1
    assert cluster.status["failures"]["disruptions"] == 0


def test_what_is_refused_as_invalid_is_tried_again_soon_since_it_may_heal_by_itself() -> None:
    cluster = _refused("Pod/addition-worker", Trouble.INVALID, 'serviceaccount "trainer" not found')
    assert cluster.last is not None
    assert cluster.last.requeue_after == 30
    assert "PodTemplateInvalid" in cluster.event_reasons()
    assert "InvalidSpec" not in cluster.event_reasons()
