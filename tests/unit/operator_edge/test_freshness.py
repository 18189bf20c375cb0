"""Old lists at the operator's start: nothing is decided on them for a job that somebody has acted on."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dartes_operator.api import Api, ApiUnavailableError
from dartes_operator.cache import Cache
from dartes_operator.freshness import MOST_SECONDS, Freshness
from dartes_operator.kinds import Key
from dartes_operator.listing import Listings
from dartes_operator.plan.types import Manifest
from dartes_operator.status_writer import StaleJobError

from .kit import NAMESPACE, FakeServer, job, owned, with_server

KEY = Key(NAMESPACE, "sums")
PREFIX = "/apis/dartes.dev/v1alpha1"
ListAgain = Callable[[str, str], Awaitable[object]]


class Scene:
    """A server with a job, and an operator whose lists are as old as the test says."""

    def __init__(self, **status: Any) -> None:
        self.server, self.cache, self.now = FakeServer(), Cache(), 0.0
        self.job = self.server.put("dartesjobs", job(status=status), PREFIX)
        self.cache.put(self.job)

    def knows(self, version: int, *pods: Manifest) -> None:
        """All kinds were listed at a version, with these pods."""
        for kind in ("Service", "ConfigMap", "PersistentVolumeClaim"):
            self.cache.replace(kind, NAMESPACE, (), str(version))
        self.cache.replace("Pod", NAMESPACE, pods, str(version))

    def ensures(self, list_again: ListAgain | None = None) -> None:
        """The operator makes sure of the job."""

        async def scenario(api: Api) -> None:
            await self.freshness(api, list_again).ensure(KEY, self.job)

        with_server(self.server, scenario)

    def freshness(self, api: Api, list_again: ListAgain | None = None) -> Freshness:
        """What makes sure, with real listings or the test's."""
        listings = Listings(api, self.cache, (NAMESPACE,), lambda _: None, lambda: self.now)
        return Freshness(api, self.cache, list_again or listings.list, lambda: self.now)

    @property
    def requests(self) -> list[str]:
        """Names in the requests."""
        return [call.name for call in self.server.calls]


def pod(uid: str, version: int) -> dict[str, Any]:
    manifest = owned("Pod", "sums-worker-0", resourceVersion=str(version))
    manifest["metadata"]["uid"] = uid
    return manifest


def test_a_new_job_is_trusted_by_a_look_at_itself() -> None:
    scene = Scene()
    scene.ensures()
    assert scene.requests == ["sums"]
    assert scene.cache.trusts(scene.job)


def test_lists_that_are_as_new_as_the_job_are_not_asked_for_again() -> None:
    scene = Scene(phase="Running")
    scene.knows(scene.server.version)
    scene.ensures()
    assert scene.requests == ["sums"]
    assert scene.cache.trusts(scene.job)


def test_what_is_older_than_the_job_is_listed_again_and_who_was_gone_is_not_counted_anew() -> None:
    scene = Scene(phase="Running")
    scene.knows(3, pod("gone", 2))
    scene.server.version = 20
    there = scene.server.put("pods", pod("there", 0))
    scene.server.put("dartesjobs", {**scene.job, "metadata": dict(scene.job["metadata"])}, PREFIX)
    scene.ensures()
    assert scene.requests == ["sums", "pods", "services", "configmaps", "persistentvolumeclaims"]
    found = scene.cache.observe(KEY)
    assert found is not None
    assert [each["metadata"]["uid"] for each in found[1].pods] == [there["metadata"]["uid"]]
    assert found[1].departed == ()
    assert scene.cache.trusts(scene.job)


def test_nothing_is_done_as_long_as_the_lists_stay_old_but_for_two_minutes_at_most(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene(phase="Running")
    scene.server.version = 20
    scene.server.put("dartesjobs", scene.job, PREFIX)
    asked: list[str] = []

    async def list_again(kind: str, namespace: str) -> None:
        asked.append(f"{kind} of {namespace}")

    async def scenario(api: Api) -> None:
        freshness = scene.freshness(api, list_again)
        for scene.now in (5.0, 2.0 + MOST_SECONDS):
            with pytest.raises(ApiUnavailableError, match=r"lists of Pod, .* are older than the job"):
                await freshness.ensure(KEY, scene.job)
            assert not scene.cache.trusts(scene.job)
        scene.now = 5.0 + MOST_SECONDS
        await freshness.ensure(KEY, scene.job)

    with_server(scene.server, scenario)
    assert asked[:2] == [f"Pod of {NAMESPACE}", f"Service of {NAMESPACE}"]
    assert len(asked) == 3 * 4
    assert scene.cache.trusts(scene.job)
    assert "taken as they are" in caplog.text


def test_two_minutes_of_old_lists_begin_anew_after_a_look_that_failed() -> None:
    scene = Scene(phase="Running")
    scene.server.refuse("GET", "sums", 500, times=1)

    async def list_again(kind: str, namespace: str) -> None:
        pass

    async def scenario(api: Api) -> None:
        freshness = scene.freshness(api, list_again)
        scene.server.version = 20
        for scene.now in (0.0, MOST_SECONDS - 1, MOST_SECONDS + 1):
            with pytest.raises(ApiUnavailableError):
                await freshness.ensure(KEY, scene.job)

    with_server(scene.server, scenario)
    assert not scene.cache.trusts(scene.job)


def test_jobs_side_by_side_share_a_list_though_it_is_old() -> None:
    scene = Scene(phase="Running")
    asked: list[str] = []

    async def list_again(kind: str, namespace: str) -> None:
        asked.append(kind)

    async def scenario(api: Api) -> None:
        freshness = scene.freshness(api, list_again)
        for scene.now in (0.0, 1.0, 2.0):
            with pytest.raises(ApiUnavailableError):
                await freshness.ensure(KEY, scene.job)

    with_server(scene.server, scenario)
    assert asked.count("Pod") == 2


def test_a_job_that_changed_after_its_neighbour_was_met_gets_lists_of_its_own_at_once() -> None:
    scene = Scene(phase="Running")
    other = Key(NAMESPACE, "others")

    async def scenario(api: Api) -> None:
        freshness = scene.freshness(api)
        await freshness.ensure(KEY, scene.job)
        changed = scene.server.put(
            "dartesjobs", job(name=other.name, uid="b", status={"phase": "Running"}), PREFIX
        )
        await freshness.ensure(other, changed)
        assert scene.cache.trusts(changed)

    with_server(scene.server, scenario)
    assert scene.requests.count("pods") == 2


def test_a_pod_that_a_second_operator_has_counted_is_gone_for_this_one_too() -> None:
    scene = Scene(phase="Running")
    scene.knows(50, pod("counted", 50))
    scene.cache.trust(scene.job)
    counted = {"phase": "Running", "failures": {"counted": ["counted"]}}
    scene.job = scene.server.put("dartesjobs", job(status=counted), PREFIX)
    scene.cache.put(scene.job)
    assert not scene.cache.trusts(scene.job)
    scene.ensures()
    found = scene.cache.observe(KEY)
    assert found is not None
    assert (found[1].pods, found[1].departed) == ((), ())
    assert scene.cache.trusts(scene.job)


def test_what_a_neighbours_list_lacks_is_gone_for_a_job_that_is_still_to_be_looked_at() -> None:
    scene = Scene(phase="Running")
    neighbour = Key(NAMESPACE, "others")

    async def scenario(api: Api) -> None:
        freshness = scene.freshness(api)
        await freshness.ensure(KEY, scene.job)
        scene.cache.put(pod("counted", scene.server.version + 1))
        running = {"phase": "Running"}
        other = scene.server.put("dartesjobs", job(name=neighbour.name, uid="b", status=running), PREFIX)
        scene.job = scene.server.put("dartesjobs", job(status={"phase": "Restarting"}), PREFIX)
        scene.cache.put(scene.job)
        scene.server.version += 10
        await freshness.ensure(neighbour, other)
        await freshness.ensure(KEY, scene.job)

    with_server(scene.server, scenario)
    found = scene.cache.observe(KEY)
    assert found is not None
    assert (found[1].pods, found[1].departed) == ((), ())
    assert scene.cache.trusts(scene.job)


def test_what_a_watch_has_told_while_the_job_was_read_is_looked_at_again() -> None:
    scene = Scene(phase="Running")
    scene.knows(scene.server.version)
    scene.server.version += 5
    newer = job(version=scene.server.version, status={"phase": "Restarting"})
    scene.cache.put(newer)
    scene.ensures()
    assert not scene.cache.trusts(scene.job)
    scene.server.put("dartesjobs", newer, PREFIX)
    scene.ensures()
    assert scene.requests == ["sums", "sums", "pods", "services", "configmaps", "persistentvolumeclaims"]
    assert scene.cache.trusts(scene.job)


@pytest.mark.parametrize("successor", [True, False])
def test_a_job_that_is_gone_is_planned_for_no_more(successor: bool) -> None:
    scene = Scene(phase="Running")
    scene.server.objects.clear()
    if successor:
        scene.server.put("dartesjobs", job(uid="a-successor"), PREFIX)
    with pytest.raises(StaleJobError):
        scene.ensures()
    found = scene.cache.observe(KEY)
    assert (found is not None) is successor
    assert found is None or found[0]["metadata"]["uid"] == "a-successor"
    assert not scene.cache.trusts(scene.job)
