"""Pods that are gone before a plan has seen their ends: each is counted once, by what was last seen of it."""

import copy

import pytest

from dartes.spec.crd.status import MOST_COUNTED
from dartes_operator.plan.times import parse_time

from .kit import FINAL_WORDS, running


def test_a_pod_that_vanishes_between_two_passes_is_one_disruption_and_told() -> None:
    cluster = running()
    cluster.vanish("addition-worker-0")
    counting = cluster.step()
    assert counting.status_first
    assert counting.actions == ()
    assert cluster.status["failures"]["disruptions"] == 1
    last = cluster.status["lastFailure"]
    assert (last["pod"], last["reason"], last["counted"]) == ("addition-worker-0", "Deleted", False)
    assert parse_time(last["time"]) == cluster.now
    cluster.settle()
    assert "addition-worker-0" in cluster.pods()
    assert cluster.departed == []
    assert cluster.status["failures"]["disruptions"] == 1
    assert cluster.status["failures"]["counted"] == []
    assert cluster.event_reasons().count("WorkerDisrupted") == 1


@pytest.mark.parametrize("name", ["addition-worker-0", "addition-coordinator"])
def test_a_pod_that_failed_and_vanished_between_two_passes_is_one_failure(name: str) -> None:
    cluster = running()
    cluster.end_pod(name, 1)
    cluster.vanish(name)
    cluster.settle()
    failures = cluster.status["failures"]
    role = "coordinator" if "coordinator" in name else "worker"
    assert (failures[role], failures["disruptions"]) == (1, 0)
    assert name in cluster.pods()


def test_a_pod_that_has_been_counted_is_not_counted_again_when_it_vanishes() -> None:
    cluster = running()
    cluster.end_pod("addition-worker-0", 1)
    cluster.delete_pod("addition-worker-1")
    cluster.step()
    cluster.vanish("addition-worker-0")
    cluster.vanish("addition-worker-1")
    cluster.settle()
    assert (cluster.status["failures"]["worker"], cluster.status["failures"]["disruptions"]) == (1, 1)
    assert cluster.departed == []


def test_pods_that_the_job_lets_go_are_no_disruptions_when_they_vanish() -> None:
    cluster = running()
    cluster.edit(workers={"replicas": 1})
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.leave_all()
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.pods("worker")
    assert cluster.status["failures"]["disruptions"] == 0


def test_of_very_many_pods_that_vanish_at_once_each_is_counted() -> None:
    cluster = running(workers={"replicas": MOST_COUNTED + 100})
    for name in list(cluster.pods("worker")):
        cluster.vanish(name)
    for _ in range(20):
        cluster.step()
        assert len(repr(cluster.status)) < 12_000
    assert cluster.status["failures"]["disruptions"] == MOST_COUNTED + 100
    assert len(cluster.pods("worker")) == MOST_COUNTED + 100


def test_a_pod_that_vanishes_where_there_is_no_room_to_count_it_is_counted_later() -> None:
    cluster = running(workers={"replicas": MOST_COUNTED + 1})
    *others, last = list(cluster.pods("worker"))
    for name in others:
        cluster.delete_pod(name)
    for _ in range(20):
        cluster.step()
    assert len(cluster.status["failures"]["counted"]) == MOST_COUNTED
    cluster.vanish(last)
    cluster.step()
    assert cluster.status["failures"]["disruptions"] == MOST_COUNTED
    cluster.leave_all()
    cluster.settle()
    assert cluster.status["failures"]["disruptions"] == MOST_COUNTED + 1


def test_a_pod_that_failed_and_was_then_deleted_is_what_was_last_seen_of_it() -> None:
    cluster = running()
    cluster.end_pod("addition-worker-0", 1)
    cluster.delete_pod("addition-worker-0", grace=0)
    cluster.vanish("addition-worker-0")
    cluster.settle()
    failures = cluster.status["failures"]
    assert (failures["worker"], failures["disruptions"]) == (0, 1), "it may have been told to go before"


def test_a_coordinator_that_left_with_the_end_of_the_run_and_vanished_ends_the_job() -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.vanish("addition-coordinator")
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    assert cluster.condition("Complete")["status"] == "True"
    assert cluster.status["failures"]["coordinator"] == 0


def test_a_pod_that_is_told_to_leave_stays_accounted_for_while_others_are_counted() -> None:
    cluster = running(workers={"replicas": 3})
    cluster.edit(workers={"replicas": 2})
    cluster.step()
    (mark,) = cluster.status["failures"]["counted"]
    cluster.end_pod("addition-worker-0", 1)
    cluster.step()
    assert mark in cluster.status["failures"]["counted"]
    cluster.vanish("addition-worker-2")
    cluster.settle()
    failures = cluster.status["failures"]
    assert (failures["worker"], failures["disruptions"]) == (1, 0)


def test_what_vanishes_while_the_spec_cannot_be_read_is_counted_afterwards() -> None:
    cluster = running()
    (key,) = [key for key in cluster.objects if key[0] == "ConfigMap"]
    run = cluster.objects.pop(key)
    cluster.edit(es={"populationSize": -1})
    cluster.vanish("addition-worker-0")
    cluster.settle()
    assert cluster.status["failures"]["disruptions"] == 0
    cluster.objects[key] = run
    cluster.settle()
    assert cluster.status["failures"]["disruptions"] == 1


def test_what_vanishes_while_the_operator_keeps_its_hands_off_is_not_counted() -> None:
    cluster = running()
    annotations = cluster.job["metadata"].setdefault("annotations", {})
    annotations["dartes.dev/reconcile"] = "disabled"
    cluster.vanish("addition-worker-0")
    cluster.step()
    del annotations["dartes.dev/reconcile"]
    cluster.settle()
    assert "addition-worker-0" in cluster.pods()
    assert cluster.status["failures"]["disruptions"] == 0


def test_a_pod_of_no_known_role_is_forgotten_when_it_has_gone() -> None:
    cluster = running()
    stranger = copy.deepcopy(cluster.pod("addition-worker-0"))
    stranger["metadata"]["labels"]["dartes.dev/role"] = "stranger"
    stranger["metadata"]["uid"] = "a-stranger"
    cluster.departed.append(stranger)
    cluster.step()
    assert cluster.departed == []


def test_workers_that_a_queue_holds_back_are_looked_at_again_after_they_were_made() -> None:
    cluster = running(queueName="team")
    for name in list(cluster.pods("worker")):
        cluster.vanish(name)
    cluster.step()
    making = cluster.step()
    assert len(cluster.pods("worker")) == 2
    assert making.requeue_after == 1
