"""The cache over time: pods that are gone and not counted yet, and news that is older than a listing."""

from typing import Any

import pytest

from dartes_operator.cache import Cache

from .cache_kit import KEY, MANAGED_BY, pod, version_known
from .kit import JOB_UID, NAMESPACE, job, owned


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


def status(version: int, phase: str, **more: Any) -> dict[str, Any]:
    return job(version=version, status={"phase": phase}, **more)


def trusting() -> Cache:
    cache = Cache()
    cache.put(status(5, "Pending"))
    cache.trust(job())
    return cache


def test_a_job_whose_status_somebody_else_has_written_is_not_trusted_until_it_is_ensured_again() -> None:
    cache = trusting()
    cache.put(status(6, "Running"))
    assert not cache.trusts(job())
    cache.distrust(status(6, "Running"))
    cache.trust(job())
    assert cache.trusts(job())


def test_another_spec_and_an_own_write_of_the_status_leave_the_trust() -> None:
    cache = trusting()
    cache.put(status(6, "Pending", spec={"suspend": True}))
    assert cache.trusts(job())
    cache.put_written(status(7, "Running"))
    assert cache.trusts(job())


def test_a_watch_that_tells_of_an_own_write_before_its_answer_is_in_leaves_the_trust() -> None:
    cache = trusting()
    cache.put(status(6, "Running"))
    cache.put(status(7, "Running", spec={"suspend": True}))
    cache.put_written(status(6, "Running"))
    assert cache.trusts(job())


def test_what_somebody_else_writes_right_after_an_own_write_is_not_taken_for_it() -> None:
    cache = trusting()
    cache.put(status(7, "Restarting"))
    cache.put_written(status(6, "Running"))
    assert not cache.trusts(job())


def test_what_somebody_else_writes_while_a_job_is_ensured_is_not_overlooked() -> None:
    cache = trusting()
    cache.put(status(6, "Restarting"))
    cache.distrust(status(6, "Restarting"))
    cache.put(status(7, "Running"))
    cache.trust(job())
    assert not cache.trusts(job())


def test_what_somebody_else_writes_while_a_job_is_read_is_not_overlooked() -> None:
    cache = trusting()
    cache.put(status(7, "Running"))
    cache.distrust(status(6, "Restarting"))
    cache.trust(job())
    assert not cache.trusts(job())


@pytest.mark.parametrize("goes_first", [True, False])
def test_a_pod_that_a_second_operator_may_have_counted_is_not_shown_as_gone(goes_first: bool) -> None:
    """It takes the mark of a pod that is gone off the status again."""
    cache = trusting()
    cache.put(pod(version=5))
    if goes_first:
        cache.remove(pod(version=6))
    cache.put(status(7, "Restarting"))
    if not goes_first:
        cache.remove(pod(version=8))
    cache.distrust(status(7, "Restarting"))
    cache.trust(job())
    assert departed(cache) == []
