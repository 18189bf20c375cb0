"""The volume: made once, never taken by accident, kept where asked."""

from collections.abc import Callable

import pytest

from dartes_operator.plan.types import Create, Patch, Trouble

from .kit import FINAL_WORDS, UID, Cluster, job, running

CLAIM = ("PersistentVolumeClaim", "addition-checkpoint")


def _retained(cluster: Cluster, uid: str = "old-job") -> None:
    cluster.objects[CLAIM] = {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": CLAIM[1],
            "uid": "claim-uid",
            "labels": {"dartes.dev/job-uid": uid, "app.kubernetes.io/managed-by": "dartes-operator"},
        },
    }


def test_a_retained_claim_has_no_owner_and_a_deleted_one_has() -> None:
    assert "ownerReferences" not in running().objects[CLAIM]["metadata"]
    owned = running(checkpoint={"retentionPolicy": "Delete"}).objects[CLAIM]["metadata"]
    assert owned["ownerReferences"][0]["uid"] == UID


def test_the_retention_policy_may_change_at_any_time() -> None:
    cluster = running()
    cluster.edit(checkpoint={"retentionPolicy": "Delete"})
    found = cluster.step()
    patch = next(action for action in found.actions if isinstance(action, Patch))
    assert patch.patch["metadata"]["uid"] == cluster.objects[CLAIM]["metadata"]["uid"]
    assert cluster.objects[CLAIM]["metadata"]["ownerReferences"][0]["uid"] == UID
    cluster.settle()
    cluster.edit(checkpoint={"retentionPolicy": "Retain"})
    cluster.settle()
    assert not cluster.objects[CLAIM]["metadata"].get("ownerReferences")


def test_a_claim_of_another_run_is_never_taken() -> None:
    cluster = Cluster()
    _retained(cluster)
    cluster.settle()
    condition = cluster.condition("ResourcesReady")
    assert (condition["status"], condition["reason"]) == ("False", "VolumeExists")
    assert "spec.checkpoint.resumeFrom.claimName: addition-checkpoint" in condition["message"]
    assert list(cluster.objects) == [CLAIM]
    assert "startTime" not in cluster.status
    assert cluster.status["phase"] == "Pending"


def test_a_claim_that_stood_in_the_way_and_is_gone_lets_the_job_begin() -> None:
    cluster = Cluster()
    _retained(cluster)
    cluster.settle()
    assert cluster.last is not None
    assert cluster.last.requeue_after == 30
    del cluster.objects[CLAIM]
    cluster.settle()
    assert cluster.pods()
    assert cluster.condition("ResourcesReady")["status"] == "True"


def test_a_claim_named_by_resume_from_is_used_and_none_is_made() -> None:
    for source in ({"claimName": CLAIM[1]}, {"jobName": "addition"}):
        cluster = Cluster(job(checkpoint={"resumeFrom": source}))
        _retained(cluster)
        cluster.settle()
        coordinator = cluster.pod("addition-coordinator")
        volume = next(v for v in coordinator["spec"]["volumes"] if v["name"] == "checkpoint")
        assert volume["persistentVolumeClaim"] == {"claimName": CLAIM[1]}
        assert cluster.objects[CLAIM]["metadata"]["uid"] == "claim-uid"


def test_an_older_iteration_is_asked_of_the_coordinator_in_this_jobs_name() -> None:
    for iteration in (0, 12):
        cluster = Cluster(job(checkpoint={"resumeFrom": {"jobName": "addition", "iteration": iteration}}))
        _retained(cluster)
        cluster.settle()
        (container,) = cluster.pod("addition-coordinator")["spec"]["containers"]
        assert container["command"][-4:] == ["--rewind-to", str(iteration), "--rewind-key", UID]


def test_without_an_iteration_the_coordinator_is_asked_to_go_back_nowhere() -> None:
    cluster = Cluster(job(checkpoint={"resumeFrom": {"jobName": "addition"}}))
    _retained(cluster)
    cluster.settle()
    (container,) = cluster.pod("addition-coordinator")["spec"]["containers"]
    assert not [word for word in container["command"] if word.startswith("--rewind")]


def test_resume_from_and_another_claim_together_are_refused() -> None:
    cluster = Cluster(job(checkpoint={"resumeFrom": {"claimName": "a"}, "volume": {"claimName": "b"}}))
    cluster.settle()
    assert cluster.condition("Accepted")["reason"] == "InvalidSpec"
    assert not cluster.objects


def test_a_claim_of_the_users_own_is_neither_made_nor_owned() -> None:
    cluster = Cluster(job(checkpoint={"volume": {"claimName": "mine"}, "retentionPolicy": "Delete"}))
    cluster.settle()
    assert cluster.pods()
    assert not [key for key in cluster.objects if key[0] == "PersistentVolumeClaim"]
    assert cluster.status["checkpoint"]["claimName"] == "mine"


def test_two_jobs_never_work_on_one_claim() -> None:
    cluster = Cluster(job(checkpoint={"volume": {"claimName": "mine"}}))
    cluster.claim_users = ("earlier",)
    cluster.settle()
    assert cluster.condition("ResourcesReady")["reason"] == "VolumeExists"
    assert "earlier" in cluster.condition("ResourcesReady")["message"]
    assert not cluster.pods()


def test_a_job_that_runs_is_not_stopped_by_a_later_one_on_its_claim() -> None:
    cluster = running()
    cluster.claim_users = ("later",)
    cluster.settle()
    assert cluster.condition("ResourcesReady")["status"] == "True"


def test_nothing_starts_on_a_claim_that_is_being_deleted() -> None:
    cluster = running()
    cluster.objects[CLAIM]["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:05Z"
    cluster.vanish("addition-coordinator")
    cluster.settle()
    assert "addition-coordinator" not in cluster.pods()
    assert cluster.condition("ResourcesReady")["reason"] == "VolumeExists"
    del cluster.objects[CLAIM]
    found = cluster.plan()
    assert any(
        isinstance(action, Create) and action.manifest["kind"] == "PersistentVolumeClaim"
        for action in found.actions
    )


def test_a_service_of_somebody_else_is_a_name_conflict() -> None:
    cluster = Cluster()
    cluster.objects[("Service", "addition-coordinator")] = {
        "kind": "Service",
        "metadata": {"name": "addition-coordinator", "uid": "x", "labels": {"dartes.dev/job-uid": "other"}},
    }
    cluster.settle()
    assert cluster.condition("ResourcesReady")["reason"] == "NameConflict"
    assert not cluster.pods()


def _owner(cluster: Cluster) -> str | None:
    owners = cluster.objects[CLAIM]["metadata"].get("ownerReferences")
    return owners[0]["uid"] if owners else None


def _suspended_half_way(cluster: Cluster) -> None:
    cluster.edit(suspend=True)
    cluster.settle()


def _completing(cluster: Cluster) -> None:
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    assert cluster.status["phase"] == "Completing"


def _failed(cluster: Cluster) -> None:
    cluster.end_pod("addition-coordinator", 64, message="no such model")
    cluster.settle()
    assert cluster.status["phase"] == "Failed"


@pytest.mark.parametrize("state", [_suspended_half_way, _completing, _failed])
def test_a_volume_is_kept_or_not_as_asked_also_when_the_job_does_not_run(
    state: Callable[[Cluster], None],
) -> None:
    cluster = running(
        checkpoint={"retentionPolicy": "Delete"}, export={"destination": "pvc://models/addition"}
    )
    state(cluster)
    assert _owner(cluster) == UID
    cluster.edit(checkpoint={"retentionPolicy": "Retain"})
    cluster.settle()
    assert _owner(cluster) is None
    cluster.leave_all()
    cluster.edit(checkpoint={"retentionPolicy": "Delete"})
    cluster.settle()
    assert _owner(cluster) == UID


def test_a_job_goes_after_its_time_to_live_only_once_its_volume_is_sure_to_stay() -> None:
    cluster = running(ttlSecondsAfterFinished=50, checkpoint={"retentionPolicy": "Delete"})
    _failed(cluster)
    cluster.pass_by(51)
    cluster.edit(checkpoint={"retentionPolicy": "Retain"})
    cluster.step()
    assert not cluster.job_deleted
    assert _owner(cluster) is None
    cluster.step()
    assert cluster.job_deleted


@pytest.mark.parametrize(("policy", "owner"), [("Delete", UID), ("Retain", None)])
def test_a_claim_that_a_run_goes_on_from_is_no_longer_the_first_jobs(policy: str, owner: str | None) -> None:
    cluster = Cluster(job(checkpoint={"resumeFrom": {"claimName": CLAIM[1]}, "retentionPolicy": policy}))
    _retained(cluster)
    first = {"apiVersion": "dartes.dev/v1alpha1", "kind": "DartESJob", "name": "first", "uid": "old-job"}
    cluster.objects[CLAIM]["metadata"]["ownerReferences"] = [{**first, "controller": True}]
    cluster.settle()
    assert cluster.pods()
    assert _owner(cluster) == owner
    # By these labels the first job would claim it back.
    assert cluster.objects[CLAIM]["metadata"]["labels"]["dartes.dev/job-uid"] == UID
    other = "Retain" if policy == "Delete" else "Delete"
    cluster.edit(checkpoint={"retentionPolicy": other})
    cluster.settle()
    assert _owner(cluster) == (UID if other == "Delete" else None)


def test_a_claim_is_not_adopted_before_the_job_starts_nor_after_its_end() -> None:
    resume = {"resumeFrom": {"claimName": CLAIM[1]}, "retentionPolicy": "Delete"}
    waiting = Cluster(job(suspend=True, checkpoint=resume))
    refused = Cluster(job(checkpoint=resume))
    refused.refuse = {"Pod/": (Trouble.INVALID, "words")}
    ended = Cluster(job(checkpoint=resume))
    ended.settle()
    ended.start_all()
    ended.settle()
    _failed(ended)
    for cluster in (waiting, refused, ended):
        _retained(cluster, uid="yet-another")
        cluster.settle()
        assert _owner(cluster) is None


def test_a_claim_that_no_job_made_gets_no_owner_from_a_run_that_goes_on_from_it() -> None:
    cluster = Cluster(
        job(checkpoint={"resumeFrom": {"claimName": CLAIM[1]}, "retentionPolicy": "Delete"}),
    )
    _retained(cluster)
    cluster.objects[CLAIM]["metadata"]["labels"] = {}
    cluster.settle()
    assert cluster.pods()
    assert _owner(cluster) is None
