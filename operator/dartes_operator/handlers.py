"""What kopf does here: it logs in and watches; events go into the cache and, if they are news, the queue.

Only `on.event` handlers: others would write annotations and finalizers onto the objects.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import kopf

from dartes_operator.api import PAGE
from dartes_operator.cache import Cache
from dartes_operator.kinds import JOB, RESOURCES, WATCHED, Key, key_of, labels
from dartes_operator.listing import Listings
from dartes_operator.no_storage import NoDifferences, NoProgress
from dartes_operator.plan.types import Manifest
from dartes_operator.queue import WorkQueue

Login = Callable[..., Any]


class Patience:
    """Pauses between tries of a request of kopf's, without end: a watch must not die of a long outage."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.5, 1.0, 2.0, 4.0), itertools.repeat(8.0))


def kopf_settings() -> kopf.OperatorSettings:
    """kopf as a mere watcher: no peering, scanning, events or writes; label selectors on all but jobs."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.persistence.diffbase_storage = NoDifferences()
    settings.persistence.progress_storage = NoProgress()
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = Patience()
    # The server ends a watch after five minutes; bookmarks come every minute, so a stream without is dead.
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 5
    settings.watching.inactivity_timeout = 90
    settings.watching.reconnect_backoff = 0.5
    # By itself kopf lists everything at once, and keeps the last event of every object until it idles.
    settings.watching.chunk_size = PAGE
    settings.queueing.idle_timeout = 0.1
    # Handlers return at once, so nothing is left to wait for when the process is told to stop.
    settings.queueing.exit_timeout = 0.5
    settings.process.ultimate_exiting_timeout = 15
    for kind, selector in WATCHED.items():
        if selector:
            resource = RESOURCES[kind]
            settings.watching.label_selectors[resource.api_version, resource.plural] = selector
    return settings


def registry(login: Login, cache: Cache, listings: Listings, queue: WorkQueue) -> kopf.OperatorRegistry:
    """The handlers: one login, one per watched kind."""
    handlers = kopf.OperatorRegistry()
    kopf.on.login(registry=handlers)(login)

    def take(kind: str) -> Callable[..., Any]:
        async def on_event(event: Any, **_: Any) -> None:
            take_in(kind, event["type"], event["object"], cache, listings, queue)

        return on_event

    for kind in WATCHED:
        resource = RESOURCES[kind]
        group, _, version = resource.api_version.rpartition("/")
        kopf.on.event(group, version, resource.plural, id=f"watch-{kind}", registry=handlers)(take(kind))
    return handlers


def take_in(
    kind: str, event_type: str | None, raw: Manifest, cache: Cache, listings: Listings, queue: WorkQueue
) -> None:
    """Take in one watch event; asks for a pass where it is news."""
    manifest = {"kind": kind, **raw}
    listings.told(kind)
    if event_type is None:
        listings.started_over()
    news = cache.remove(manifest) if event_type == "DELETED" else cache.put(manifest)
    key: Key | None = key_of(manifest)
    if news and key is not None:
        queue.add(key, urgent=kind == JOB or labels(manifest).get("dartes.dev/role") == "coordinator")
