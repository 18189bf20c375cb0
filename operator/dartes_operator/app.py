"""Puts the operator together and runs it until it is told to stop, or until one of its parts fails.

One process, one event loop: kopf watches, a few hands pass over jobs, one task polls coordinators, one lists.
"""

import asyncio
import logging
import random
import signal
import threading
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import kopf

from dartes_operator.api import Api, connection_info, load_access
from dartes_operator.cache import Cache
from dartes_operator.events import EventWriter
from dartes_operator.executor import Executor
from dartes_operator.freshness import Freshness
from dartes_operator.handlers import kopf_settings, registry
from dartes_operator.http import Pages
from dartes_operator.kinds import Key
from dartes_operator.listing import PERIOD_SECONDS, Listings, WatchEndedError
from dartes_operator.metrics import Metrics
from dartes_operator.progress import ProgressPoller
from dartes_operator.queue import WorkQueue
from dartes_operator.reconcile import Reconciler
from dartes_operator.settings import Settings
from dartes_operator.status_writer import StatusWriter

log = logging.getLogger(__name__)

HANDS = 8
# Listings come every five minutes; two missed ones and the process is not well.
OLD_LISTING_SECONDS = 2.5 * PERIOD_SECONDS
LONG_PASS_SECONDS = 300.0
# How long the parts may take to end.
END_SECONDS = 1.0


def utc_now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)


async def run(settings: Settings) -> None:
    """Run until SIGTERM; raises what ended a part that must not end, WatchEndedError for the watches.

    Some of kopf's tasks may still be there afterwards, and end with the process alone.
    """
    access = await load_access()
    metrics, cache = Metrics(), Cache()
    queue = WorkQueue(time.monotonic, random.random)
    api = Api(access, metrics)

    def changed(key: Key) -> None:
        queue.add(key)

    listings = Listings(api, cache, settings.namespaces, changed, time.monotonic)
    poller = ProgressPoller(api, cache, changed, time.monotonic, utc_now)
    reconciler = Reconciler(
        api,
        cache,
        queue,
        Executor(api, cache, time.monotonic),
        StatusWriter(api, cache, metrics, time.monotonic),
        EventWriter(api, settings.pod_name, time.monotonic, utc_now),
        metrics,
        settings.defaults,
        utc_now,
        random.random,
        Freshness(api, cache, listings.list, time.monotonic).ensure,
    )

    def trouble() -> str | None:
        age = time.monotonic() - listings.last_attempt
        if age > OLD_LISTING_SECONDS:
            return f"no listing was tried for {age:.0f} s"
        if queue.longest_pass() > LONG_PASS_SECONDS:
            return f"a pass over a job has run for {queue.longest_pass():.0f} s"
        return None

    metrics.observe_with(
        lambda: queue.depth, listings.ages, lambda: cache.count_phases() if cache.synced else None
    )
    pages = Pages(metrics, trouble, lambda: cache.synced)
    await pages.start(settings.http_host, settings.http_port)
    try:
        await listings.fill()
        for key, _ in cache.jobs():
            queue.add(key)
        log.info(
            "watching %s: %d jobs",
            ", ".join(settings.namespaces) or "all namespaces",
            sum(cache.count_phases().values()),
        )

        async def login(**_: Any) -> kopf.ConnectionInfo:
            return await connection_info(access)

        stopping, ended = asyncio.Event(), asyncio.Event()

        async def note_end(**_: Any) -> None:
            ended.set()

        handlers = registry(login, cache, listings, queue)
        kopf.on.cleanup(registry=handlers, id="note-end")(note_end)
        await _run_all(
            [
                listings.compare_forever(),
                poller.run(),
                *(reconciler.work_forever() for _ in range(HANDS)),
                _fail_with_kopf(ended, stopping),
            ],
            kopf.operator(
                registry=handlers,
                settings=kopf_settings(),
                standalone=True,
                clusterwide=not settings.namespaces,
                namespaces=settings.namespaces,
                stop_flag=stopping,
            ),
            stopping,
            queue,
        )
    finally:
        await pages.stop()
        await api.close()


async def _fail_with_kopf(ended: asyncio.Event, stopping: asyncio.Event) -> None:
    """Raise WatchEndedError where kopf stops without having been told to.

    It goes on from cut connections and most refusals, but gives up on a watch that is told of an error of the
    server, refused as gone or unauthorized, or cut off within a line. It then waits for watches that never
    end, and after a quarter of a minute kills the process.
    """
    await ended.wait()
    if not stopping.is_set():
        raise WatchEndedError("watching has ended; the lines before say why")
    # kopf stops in its own time.
    await asyncio.Event().wait()


async def _run_all(
    parts: list[Coroutine[Any, Any, None]],
    watcher: Coroutine[Any, Any, None],
    stopping: asyncio.Event,
    queue: WorkQueue,
) -> None:
    """Run the parts beside the watcher until one of them ends, or it is time to stop.

    No pass begins from then on: the watches end first, and a successor may be at work already.
    """
    tasks = [asyncio.create_task(part) for part in [*parts, _until(stopping)]]
    # Only now: when the watcher ends, it waits for all tasks that were started after it.
    await asyncio.sleep(0)
    watching = asyncio.create_task(watcher)
    await _take_signals(stopping, watching)
    tasks.append(watching)
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    if stopping.is_set():
        await queue.close(END_SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=END_SECONDS)
    if stopping.is_set():
        # Also where a part has failed meanwhile: nothing is to start over.
        return
    for task in done:
        if not task.cancelled():
            task.result()


async def _until(stopping: asyncio.Event) -> None:
    await stopping.wait()


async def _take_signals(stopping: asyncio.Event, watching: asyncio.Task[None]) -> None:
    """Take the signals from kopf, which does not tell whether it stops for one or for a failure.

    It may also end before it has asked for any.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGTERM)
    while signal.getsignal(signal.SIGTERM) is before and not watching.done():
        await asyncio.sleep(0)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
