"""The cache: which of two states is newer, what a listing says of things gone, whose objects are whose."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dartes_operator.cache import Cache, Changes
from dartes_operator.kinds import Key
from dartes_operator.plan.types import Progress

from .kit import JOB_UID, NAMESPACE, job, owned

KEY = Key(NAMESPACE, "sums")
MANAGED_BY = "app.kubernetes.io/managed-by"


def pod(
    name: str = "sums-worker-0", version: int = 5, *, own_uid: str = "uid-pod", owner: str = JOB_UID
) -> dict[str, Any]:
    manifest = owned("Pod", name, uid=owner, resourceVersion=str(version))
    manifest["metadata"]["uid"] = own_uid
    manifest["metadata"]["labels"][MANAGED_BY] = "dartes-operator"
    return manifest


def version_known(cache: Cache, name: str = "sums-worker-0") -> str | None:
    found = cache.get("Pod", NAMESPACE, name)
    return None if found is None else found["metadata"]["resourceVersion"]


def test_a_watch_event_older_than_the_operators_own_write_is_no_news() -> None:
    cache = Cache()
    assert cache.put(pod(version=10))
    assert not cache.put(pod(version=9))
    assert not cache.put(pod(version=10))
    assert version_known(cache) == "10"
    assert cache.put(pod(version=11))


def test_versions_are_compared_as_numbers() -> None:
    cache = Cache()
    cache.put(pod(version=9))
    assert cache.put(pod(version=10))


def test_a_late_answer_does_not_bring_back_what_a_watch_saw_go() -> None:
    cache = Cache()
    cache.put(pod(version=5))
    assert cache.remove(pod(version=7))
    assert not cache.put(pod(version=6))
    assert version_known(cache) is None


def test_a_pod_gone_before_its_creation_was_answered_stays_gone() -> None:
    cache = Cache()
    assert not cache.remove(pod(version=7))
    assert not cache.put(pod(version=5))


def test_the_end_of_a_predecessor_does_not_remove_its_successor() -> None:
    cache = Cache()
    cache.put(pod(version=8, own_uid="new"))
    assert not cache.remove(pod(version=9, own_uid="old"))
    assert version_known(cache) == "8"


def test_a_listing_removes_what_it_lacks_and_names_the_jobs_it_changed() -> None:
    cache = Cache()
    cache.put(pod("sums-worker-0", 5, own_uid="a"))
    cache.put(pod("sums-worker-1", 6, own_uid="b"))
    changes = cache.replace("Pod", NAMESPACE, (pod("sums-worker-1", 6, own_uid="b"),), "20")
    assert changes == Changes(newer=frozenset(), gone=frozenset({KEY}))
    assert version_known(cache, "sums-worker-0") is None
    assert version_known(cache, "sums-worker-1") == "6"


def test_a_listing_does_not_remove_what_is_newer_than_itself() -> None:
    cache = Cache()
    cache.put(pod(version=30))
    assert cache.replace("Pod", None, (), "20") == Changes(frozenset(), frozenset())
    assert version_known(cache) == "30"


def test_a_listing_of_one_namespace_says_nothing_of_another() -> None:
    cache = Cache()
    cache.put(pod(version=5))
    assert cache.replace("Pod", "elsewhere", (), "20") == Changes(frozenset(), frozenset())
    assert version_known(cache) == "5"


def test_a_listing_that_shows_nothing_new_touches_nobody() -> None:
    cache = Cache()
    cache.put(pod(version=5))
    assert cache.replace("Pod", None, (pod(version=5),), "20") == Changes(frozenset(), frozenset())


def test_a_job_is_observed_with_its_own_objects_and_not_with_those_of_a_namesake_before_it() -> None:
    cache = Cache()
    cache.put(job())
    cache.put(pod("sums-worker-0", 5, own_uid="a"))
    cache.put(pod("sums-worker-1", 5, own_uid="b", owner="uid-of-the-namesake"))
    found = cache.observe(KEY)
    assert found is not None
    assert [p["metadata"]["name"] for p in found[1].pods] == ["sums-worker-0"]


def test_service_and_claim_are_observed_by_name_whoever_owns_them() -> None:
    cache = Cache()
    cache.put(job(spec={"checkpoint": {"volume": {"claimName": "shared"}}}))
    cache.put(owned("PersistentVolumeClaim", "shared", uid="another", job="other", resourceVersion="3"))
    cache.put(owned("Service", "sums-coordinator", uid="another", job="other", resourceVersion="3"))
    found = cache.observe(KEY)
    assert found is not None
    assert found[1].claim is not None
    assert found[1].service is not None


def test_an_unknown_job_is_not_observed() -> None:
    assert Cache().observe(KEY) is None


def test_the_job_that_started_or_came_first_has_the_claim() -> None:
    spec = {"checkpoint": {"volume": {"claimName": "shared"}}}
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    cache = Cache()
    for name, created, status in (
        ("early", "2030-01-01T00:00:00Z", {}),
        ("late", "2030-01-03T00:00:00Z", {}),
        ("started", "2030-01-04T00:00:00Z", {"startTime": "2030-01-04T00:00:01Z"}),
        ("ended", "2029-01-01T00:00:00Z", ended),
        ("sums", "2030-01-02T00:00:00Z", {}),
    ):
        manifest = job(name, uid=f"uid-{name}", spec=spec, status=status)
        manifest["metadata"]["creationTimestamp"] = created
        cache.put(manifest)
    found = cache.observe(KEY)
    assert found is not None
    assert sorted(found[1].claim_users) == ["early", "started"]


def test_two_jobs_never_both_wait_for_each_other() -> None:
    spec = {"checkpoint": {"volume": {"claimName": "shared"}}}
    cache = Cache()
    for name in ("a", "b"):
        manifest = job(name, uid=name, spec=spec, status={"startTime": "2030-01-01T00:00:00Z"})
        manifest["metadata"]["creationTimestamp"] = "2030-01-01T00:00:00Z"
        cache.put(manifest)
    found = [cache.observe(Key(NAMESPACE, name)) for name in ("a", "b")]
    assert [one[1].claim_users for one in found if one is not None] == [(), ("a",)]


def progress() -> Progress:
    return Progress(
        time=datetime(2030, 1, 1, tzinfo=UTC),
        phase="PHASE_RUNNING",
        message="",
        incarnation=1,
        iteration=3,
        total_iterations=20,
        epoch=0,
        train_pass_rate=0.5,
        eval_accuracy=None,
        replay_buffer_size=0,
        last_iteration_seconds=1.0,
        estimated_remaining_seconds=17.0,
        workers_connected=2,
        workers_caught_up=2,
        journal_hash="",
        weight_digest="",
    )


def test_progress_of_a_predecessor_of_that_name_is_not_this_jobs() -> None:
    cache = Cache()
    cache.put(job())
    cache.put_progress(KEY, "uid-of-the-namesake", progress())
    assert cache.progress(KEY, job()) is None
    cache.put_progress(KEY, JOB_UID, progress())
    assert cache.progress(KEY, job()) == progress()
    cache.put_progress(KEY, JOB_UID, None)
    assert cache.progress(KEY, job()) is None


def test_jobs_are_counted_by_phase() -> None:
    cache = Cache()
    cache.put(job("a", uid="a", status={"phase": "Running"}))
    cache.put(job("b", uid="b"))
    assert cache.count_phases() == {"Running": 1, "Pending": 1}


def test_of_a_pod_only_what_is_read_again_is_kept() -> None:
    cache = Cache()
    manifest = pod()
    manifest["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    manifest["spec"] = {"nodeName": "node1", "volumes": [{"name": "tls"}], "containers": [{"name": "worker"}]}
    state = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}
    manifest["status"] = {
        "phase": "Running",
        "hostIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "worker", "state": state, "imageID": "sha256:0", "volumeMounts": []}],
    }
    cache.put(manifest)
    kept = cache.get("Pod", NAMESPACE, "sums-worker-0")
    assert kept is not None
    assert kept["spec"] == {"nodeName": "node1", "volumes": [{"name": "tls"}]}
    assert kept["status"] == {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "worker", "state": state}],
    }
    assert kept["metadata"] == {k: v for k, v in manifest["metadata"].items() if k != "managedFields"}


def test_a_job_is_kept_whole_but_for_who_set_which_field() -> None:
    cache = Cache()
    manifest = job(spec={"containers": 1})
    manifest["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    cache.put(manifest)
    assert list(cache.jobs()) == [(KEY, job(spec={"containers": 1}))]
    cache.remove(manifest)
    assert list(cache.jobs()) == []
    assert cache.observe(KEY) is None


def departed(cache: Cache) -> list[tuple[str, str]]:
    """Uids of pods that are gone, each with its phase as last seen."""
    found = cache.observe(KEY)
    assert found is not None
    return [(each["metadata"]["uid"], each["status"].get("phase", "")) for each in found[1].departed]


def ended(phase: str, **of: Any) -> dict[str, Any]:
    return {**pod(**of), "status": {"phase": phase}}


def test_a_pod_that_is_gone_is_shown_as_last_told_until_it_is_forgotten() -> None:
    cache = Cache()
    cache.put(job())
    cache.trust(job())
    cache.put(pod(version=5))
    assert departed(cache) == []
    cache.remove(ended("Failed", version=7))
    assert departed(cache) == [("uid-pod", "Failed")]
    cache.remove(ended("Failed", version=7))
    cache.forget_departed(job(), {"another"})
    assert departed(cache) == [("uid-pod", "Failed")]
    cache.forget_departed(job(), {"uid-pod"})
    assert departed(cache) == []


def test_a_pod_that_a_listing_lacks_and_one_whose_name_is_taken_are_shown_as_gone() -> None:
    cache = Cache()
    cache.put(job())
    cache.trust(job())
    cache.put(ended("Running", version=5, own_uid="lacking"))
    cache.replace("Pod", None, (), "9")
    cache.put(ended("Running", version=10, own_uid="before"))
    cache.put(ended("Pending", version=11, own_uid="after"))
    assert departed(cache) == [("lacking", "Running"), ("before", "Running")]


def test_a_pod_that_had_ended_before_its_deletion_was_asked_for_is_shown_as_it_was_then() -> None:
    def leaving(manifest: dict[str, Any]) -> dict[str, Any]:
        return {**manifest, "metadata": {**manifest["metadata"], "deletionTimestamp": "then"}}

    cache = Cache()
    cache.put(job())
    cache.trust(job())
    for uid, known in (
        ("failed", ended("Failed", version=5, own_uid="failed")),
        ("leaving", leaving(ended("Running", version=15, own_uid="leaving"))),
    ):
        cache.put(known)
        cache.remove(leaving(ended("Failed", version=20, own_uid=uid)))
    found = cache.observe(KEY)
    assert found is not None
    shown = {each["metadata"]["uid"]: "deletionTimestamp" in each["metadata"] for each in found[1].departed}
    assert shown == {"failed": False, "leaving": True}


def test_pods_of_a_job_that_is_not_trusted_yet_are_not_kept_when_they_go() -> None:
    cache = Cache()
    cache.put(job())
    cache.put(pod())
    assert not cache.trusts(job())
    cache.remove(pod())
    assert departed(cache) == []
    cache.trust(job())
    assert cache.trusts(job())
    cache.remove(job())
    assert not cache.trusts(job())


def test_the_last_listing_that_speaks_of_a_namespace_is_known() -> None:
    cache = Cache()
    assert cache.listed("Pod", NAMESPACE) == 0
    cache.replace("Pod", NAMESPACE, (), "5")
    cache.replace("Pod", NAMESPACE, (), "7")
    cache.replace("Pod", "another", (), "9")
    assert cache.listed("Pod", NAMESPACE) == 7
    cache.replace("Pod", None, (), "8")
    assert cache.listed("Pod", NAMESPACE) == 8
    assert cache.listed("Service", NAMESPACE) == 0


def test_what_a_newer_listing_lacked_is_no_news_though_a_late_watch_tells_of_it() -> None:
    cache = Cache()
    cache.put(job())
    cache.trust(job())
    cache.replace("Pod", NAMESPACE, (), "20")
    assert not cache.put(pod(version=15))
    assert not cache.remove(pod(version=18))
    assert departed(cache) == []
    cache.replace("Pod", NAMESPACE, (pod(version=15),), "16")
    assert version_known(cache) is None, "an old listing brings nobody back"
    assert cache.put(pod(version=21, own_uid="made-since"))


def test_what_no_listing_shows_is_taken_in_however_old_it_is() -> None:
    cache = Cache()
    cache.replace("Service", NAMESPACE, (), "20")
    assert cache.put(owned("Service", "sums-coordinator", resourceVersion="15"))
    stranger = owned("Service", "another", resourceVersion="15")
    stranger["metadata"]["labels"][MANAGED_BY] = "dartes-operator"
    assert not cache.put(stranger)


def test_versions_that_have_gone_back_are_known_after_two_listings() -> None:
    """As where the API server's store was restored."""
    cache = Cache()
    cache.replace("Pod", NAMESPACE, (), "9000")
    for _ in range(2):
        cache.replace("Pod", NAMESPACE, (pod(version=80),), "100")
    assert version_known(cache) == "80"


def test_of_what_is_gone_only_pods_of_jobs_that_are_there_are_kept() -> None:
    cache = Cache()
    cache.put(job())
    cache.trust(job())
    for manifest in (pod(owner="a-predecessor"), owned("ConfigMap", "sums-run")):
        cache.put(manifest)
        cache.remove(manifest)
    assert cache._departed == {}


@pytest.mark.parametrize("told", [True, False])
def test_a_job_takes_what_was_kept_of_its_pods_along(told: bool) -> None:
    """Also where its end is not told, only that another one has its name."""
    cache = Cache()
    cache.put(job())
    cache.trust(job())
    cache.put(pod())
    cache.remove(pod())
    assert list(cache._departed) == [JOB_UID]
    if told:
        cache.remove(job())
    successor = {**job()["metadata"], "uid": "a-successor", "resourceVersion": "99"}
    cache.put({**job(), "metadata": successor})
    assert cache._departed == {}
