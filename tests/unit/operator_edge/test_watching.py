"""Watch events, listings and kopf's settings: what is taken in, what wakes a job, what is never written."""

import asyncio
import itertools

import kopf
import pytest

from dartes_operator import listing
from dartes_operator.api import PAGE, Api, ApiRefusalError
from dartes_operator.ballast import without_ballast
from dartes_operator.cache import Cache
from dartes_operator.handlers import Patience, kopf_settings, registry, take_in
from dartes_operator.kinds import JOB, WATCHED, Key
from dartes_operator.listing import Listings, WatchEndedError, WatchSilentError
from dartes_operator.plan.types import Manifest
from dartes_operator.queue import WorkQueue

from .kit import NAMESPACE, FakeServer, job, owned, with_server

KEY = Key(NAMESPACE, "sums")
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Watcher:
    """A cache, a queue and the listings beside them, before any API server."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.queue = WorkQueue(lambda: 0.0, lambda: 0.0)
        self.now = 0.0

    def listings(self, api: Api | None = None) -> Listings:
        assert api is None or isinstance(api, Api)
        return Listings(api, self.cache, (NAMESPACE,), self.queue.add, lambda: self.now)  # type: ignore[arg-type]

    def take(self, kind: str, event_type: str | None, manifest: Manifest) -> Key | None:
        """Take in an event; the job that it woke."""
        take_in(kind, event_type, manifest, self.cache, self.listings(), self.queue)
        key = self.queue.pop()
        if key is not None:
            self.queue.done(key)
            self.queue.forget(key)
        return key


def test_news_wake_the_job_and_repetitions_do_not() -> None:
    watcher = Watcher()
    pod = owned("Pod", "sums-worker-0", uid="u", resourceVersion="5")
    assert watcher.take("Pod", None, pod) == KEY
    assert watcher.take("Pod", "MODIFIED", pod) is None
    assert watcher.take("Pod", "DELETED", pod) == KEY
    assert watcher.take("Pod", "DELETED", pod) is None


def test_a_job_wakes_itself_and_an_object_without_a_job_wakes_nobody() -> None:
    watcher = Watcher()
    assert watcher.take("DartESJob", "ADDED", job()) == KEY
    stranger = {"metadata": {"name": "x", "namespace": NAMESPACE, "uid": "x", "resourceVersion": "1"}}
    assert watcher.take("Service", "ADDED", stranger) is None


def test_only_the_operators_own_objects_are_watched() -> None:
    settings = kopf_settings()
    selectors = dict(settings.watching.label_selectors.items())
    assert len(selectors) == len(WATCHED) - 1
    assert set(selectors.values()) == {"app.kubernetes.io/managed-by=dartes-operator"}
    assert settings.scanning.disabled
    assert settings.peering.standalone
    assert not settings.posting.enabled


def test_no_handler_makes_kopf_write_to_an_object() -> None:
    watcher = Watcher()

    async def login(**_: object) -> None:
        return None

    handlers = registry(login, watcher.cache, watcher.listings(), watcher.queue)
    assert isinstance(handlers, kopf.OperatorRegistry)
    assert len(handlers._watching.get_all_handlers()) == len(WATCHED)
    for writing in (handlers._changing, handlers._spawning, handlers._webhooks):
        assert not writing.get_all_handlers()


def test_kopf_lists_page_by_page_and_copies_no_object_to_compare_it() -> None:
    settings = kopf_settings()
    assert settings.watching.chunk_size == PAGE
    body = kopf.Body(owned("Pod", "sums-worker-0"))
    storage, progress = settings.persistence.diffbase_storage, settings.persistence.progress_storage
    patch = kopf.Patch()
    found = storage.build(body=body, extra_fields=None)
    assert (storage.fetch(body=body), progress.clear(essence=found)) == (None, {})
    storage.store(body=body, patch=patch, essence=found)
    progress.touch(body=body, patch=patch, value="now")
    assert not patch


def test_a_listing_holds_no_more_of_an_object_than_is_kept() -> None:
    server = FakeServer()
    pod = owned("Pod", "sums-worker-0")
    pod["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    server.put("pods", {**pod, "spec": {"nodeName": "node1", "containers": []}})
    found: list[Manifest] = []

    async def scenario(api: Api) -> None:
        found.extend((await api.list_all("Pod", NAMESPACE, "", without_ballast)).items)

    with_server(server, scenario)
    assert found[0]["spec"] == {"nodeName": "node1"}
    assert "managedFields" not in found[0]["metadata"]


def test_a_watch_outlasts_any_outage() -> None:
    delays = list(itertools.islice(Patience(), 1000))
    assert max(delays) <= 10
    assert list(itertools.islice(Patience(), 3)) == delays[:3]


def test_nothing_is_synced_before_every_kind_is_listed(caplog: pytest.LogCaptureFixture) -> None:
    watcher, server = Watcher(), FakeServer()
    server.put("dartesjobs", job(), "/apis/dartes.dev/v1alpha1")
    server.refuse("GET", "persistentvolumeclaims", 503, times=1)
    seen: list[bool] = []

    async def scenario(api: Api) -> None:
        filling = asyncio.create_task(watcher.listings(api).fill())
        while sum("claims" in call.path for call in server.calls) < 1:
            await asyncio.sleep(0)
        seen.append(watcher.cache.synced)
        await filling

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "FIRST_RETRY_SECONDS", 0.0)
        with_server(server, scenario)
    assert seen == [False]
    assert watcher.cache.synced
    assert watcher.cache.observe(KEY) is not None
    assert "nothing is done until it works: PersistentVolumeClaim: " in caplog.text


def test_a_namespace_that_is_gone_keeps_no_other_from_being_looked_after(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It takes the operator's Role along, so what is said of it is that the right is missing."""
    watcher, server = Watcher(), FakeServer()
    server.put("dartesjobs", job(), "/apis/dartes.dev/v1alpha1")
    server.put("pods", owned("Pod", "sums-worker-0"))
    words = 'cannot list resource "dartesjobs" in API group "dartes.dev" in the namespace "gone"'
    server.refuse("GET", "/namespaces/gone/", 403, words, times=2 + listing.MORE_TRIES)

    async def scenario(api: Api) -> None:
        listings = Listings(api, watcher.cache, ("gone", NAMESPACE), watcher.queue.add, lambda: watcher.now)
        await listings.fill()
        await listings.compare(JOB)
        assert [call.path for call in server.calls if "/gone/" in call.path and "pods" in call.path] == []
        assert watcher.cache.left_out == {"gone"}
        while (key := watcher.queue.pop()) is not None:
            watcher.queue.done(key)
        back = job(uid="back")
        server.put(
            "dartesjobs",
            {**back, "metadata": {**back["metadata"], "namespace": "gone"}},
            "/apis/dartes.dev/v1alpha1",
        )
        with pytest.raises(WatchEndedError, match="namespace gone can be listed again"):
            await listings.compare(JOB)
        assert watcher.queue.pop() is None, "not all of its objects are known"
        assert watcher.cache.left_out == {"gone"}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "FIRST_RETRY_SECONDS", 0.0)
        with_server(server, scenario)
    assert watcher.cache.synced
    assert watcher.cache.get("Pod", NAMESPACE, "sums-worker-0") is not None
    assert [record.message for record in caplog.records if words in record.message] == [
        f"namespace gone is left out until its jobs can be listed: {words}"
    ], "said once"


def test_a_namespace_that_comes_back_before_the_first_listing_is_done_is_listed_whole() -> None:
    watcher, server = Watcher(), FakeServer()
    for plural, prefix, manifest in (
        ("dartesjobs", "/apis/dartes.dev/v1alpha1", job()),
        ("pods", "/api/v1", owned("Pod", "sums-worker-0")),
    ):
        server.put(plural, manifest, prefix)
    server.refuse(
        "GET", f"/namespaces/{NAMESPACE}/dartesjobs", 404, "not found", times=1 + listing.MORE_TRIES
    )
    server.refuse("GET", "/namespaces/other/services", 503, times=1)

    async def scenario(api: Api) -> None:
        changed = watcher.queue.add
        await Listings(api, watcher.cache, (NAMESPACE, "other"), changed, lambda: watcher.now).fill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "FIRST_RETRY_SECONDS", 0.0)
        with_server(server, scenario)
    assert watcher.cache.left_out == frozenset()
    assert watcher.cache.get("Pod", NAMESPACE, "sums-worker-0") is not None


def test_a_server_that_does_not_know_a_role_yet_is_asked_again_and_no_namespace_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watcher, server = Watcher(), FakeServer()
    server.put("dartesjobs", job(), "/apis/dartes.dev/v1alpha1")
    words = 'dartesjobs is forbidden: RBAC: role "dartes" not found'
    server.refuse("GET", "/namespaces/team/dartesjobs", 403, words, times=listing.MORE_TRIES)

    async def scenario(api: Api) -> None:
        namespaces = (NAMESPACE, "other")
        await Listings(api, watcher.cache, namespaces, watcher.queue.add, lambda: watcher.now).fill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "FIRST_RETRY_SECONDS", 0.0)
        with_server(server, scenario)
    assert watcher.cache.observe(KEY) is not None
    assert watcher.cache.left_out == frozenset()
    assert "left out" not in caplog.text


def test_one_round_of_listings_is_patient_once_and_not_for_each_namespace() -> None:
    watcher, server = Watcher(), FakeServer()
    for namespace in ("gone", "away"):
        server.refuse("GET", f"/namespaces/{namespace}/", 403, "no such right")

    async def scenario(api: Api) -> None:
        namespaces = ("gone", "away", NAMESPACE)
        await Listings(api, watcher.cache, namespaces, watcher.queue.add, lambda: watcher.now).fill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "FIRST_RETRY_SECONDS", 0.0)
        with_server(server, scenario)
    assert watcher.cache.left_out == {"gone", "away"}
    refused = [call for call in server.calls if "/gone/" in call.path or "/away/" in call.path]
    assert len(refused) == 2 + listing.MORE_TRIES


def test_a_listing_that_expires_between_its_pages_leaves_no_namespace_out() -> None:
    watcher, server = Watcher(), FakeServer()
    server.refuse("GET", "/namespaces/other/dartesjobs", 410, "the continue token has expired")

    async def scenario(api: Api) -> None:
        watcher.cache.synced = True
        listings = Listings(api, watcher.cache, (NAMESPACE, "other"), watcher.queue.add, lambda: watcher.now)
        with pytest.raises(ApiRefusalError, match="expired"):
            await listings.compare(JOB)

    with_server(server, scenario)
    assert watcher.cache.left_out == frozenset()


@pytest.mark.parametrize("refused", ["/namespaces/team/dartesjobs", "/namespaces/team/pods"])
def test_nothing_is_done_where_a_namespace_can_be_listed_in_part_or_none_at_all(refused: str) -> None:
    watcher, server = Watcher(), FakeServer()
    server.refuse("GET", refused, 403, "no such right")
    seen: list[bool] = []

    async def scenario(api: Api) -> None:
        filling = asyncio.create_task(watcher.listings(api).fill())
        while len([call for call in server.calls if refused in call.path]) < 2:
            await asyncio.sleep(0)
        seen.append(watcher.cache.synced)
        filling.cancel()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "FIRST_RETRY_SECONDS", 0.0)
        with_server(server, scenario)
    assert seen == [False]


def test_objects_from_a_listing_know_their_kind() -> None:
    watcher, server = Watcher(), FakeServer()
    pod = owned("Pod", "sums-worker-0")
    del pod["kind"]
    server.put("pods", pod)
    with_server(server, lambda api: watcher.listings(api).fill())
    assert watcher.cache.get("Pod", NAMESPACE, "sums-worker-0") is not None


@pytest.mark.parametrize("told", [True, False])
def test_a_watch_that_misses_what_a_listing_shows_ends_the_process(told: bool) -> None:
    watcher, server = Watcher(), FakeServer()

    async def scenario(api: Api) -> None:
        listings = watcher.listings(api)
        await listings.fill()
        server.put("pods", owned("Pod", "sums-worker-0"))
        watcher.now = 400.0
        comparing = asyncio.create_task(listings.compare("Pod"))
        while watcher.queue.pop() is None:
            await asyncio.sleep(0)
        if told:
            listings.told("Pod")
        await comparing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "LAG_SECONDS", 0.01)
        if told:
            with_server(server, scenario)
        else:
            with pytest.raises(WatchSilentError, match=r"watch of Pod .* team/sums"):
                with_server(server, scenario)


def test_a_listing_wakes_the_job_whose_pod_went_unseen() -> None:
    watcher, server = Watcher(), FakeServer()
    server.put("pods", owned("Pod", "sums-worker-0"))

    async def scenario(api: Api) -> None:
        listings = watcher.listings(api)
        await listings.fill()
        watcher.queue.pop()
        watcher.queue.done(KEY)
        watcher.queue.forget(KEY)
        del server.objects[f"{PODS}/sums-worker-0"]
        server.version += 1
        comparing = asyncio.create_task(listings.compare("Pod"))
        while (key := watcher.queue.pop()) is None:
            await asyncio.sleep(0)
        assert key == KEY
        comparing.cancel()

    with_server(server, scenario)
    assert watcher.cache.get("Pod", NAMESPACE, "sums-worker-0") is None


@pytest.mark.parametrize("what", ["started over", "five minutes"])
def test_a_listing_is_made_soon_after_a_watch_has_started_over(what: str) -> None:
    watcher, server = Watcher(), FakeServer()

    async def scenario(api: Api) -> None:
        listings = watcher.listings(api)
        if what == "started over":
            pod = owned("Pod", "sums-worker-0", resourceVersion="1")
            take_in("Pod", None, pod, watcher.cache, listings, watcher.queue)
        comparing = asyncio.create_task(listings.compare_forever())
        while len(server.calls) < len(WATCHED):
            await asyncio.sleep(0)
        comparing.cancel()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "SETTLE_SECONDS", 0.0)
        patch.setattr(listing, "PERIOD_SECONDS", 3600.0 if what == "started over" else 0.0)
        with_server(server, scenario)
    assert watcher.cache.get("Pod", NAMESPACE, "sums-worker-0") is None


def test_the_age_of_a_watch_counts_from_the_last_word_of_it() -> None:
    watcher = Watcher()
    listings = watcher.listings()
    watcher.now = 30.0
    listings.told("Pod")
    watcher.now = 50.0
    assert listings.ages()["Pod"] == 20.0
    assert listings.ages()["Service"] == 50.0
