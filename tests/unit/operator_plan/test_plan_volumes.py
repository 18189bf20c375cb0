"""The volume: made once, never taken by accident, kept where asked."""

from dartes_operator.plan.types import Create, Patch

from .kit import UID, Cluster, job, running

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
