"""The cache: which of two states is newer, what a listing says of things gone, whose objects are whose."""

from datetime import UTC, datetime

from dartes_operator.cache import Cache, Changes
from dartes_operator.kinds import Key
from dartes_operator.plan.types import Progress

from .cache_kit import KEY, pod, version_known
from .kit import JOB_UID, NAMESPACE, job, owned


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
