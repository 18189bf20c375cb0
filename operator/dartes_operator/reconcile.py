"""The loop for one job: observe, plan, write what must be written first, act, conclude, write, tell.

Decides nothing itself: what to do is the plan's, what an answer means is the executor's. Each pass starts
from what the cache knows of the API server, so that a pass may be repeated, or cut off, at any point.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from dartes_operator.api import Api, ApiRefusalError, ApiUnavailableError
from dartes_operator.cache import Cache
from dartes_operator.certificates import read_certificates
from dartes_operator.events import EventWriter
from dartes_operator.executor import Executor, NamespaceGoingError
from dartes_operator.kinds import JOB, Key, claim_name, is_finished, is_object_name, metadata
from dartes_operator.logs import speak_of
from dartes_operator.metrics import Metrics
from dartes_operator.plan.conclude import conclude
from dartes_operator.plan.plan import plan
from dartes_operator.plan.types import (
    Defaults,
    Event,
    Kind,
    Manifest,
    Observed,
    Plan,
    ReadCertificates,
    Trouble,
)
from dartes_operator.queue import AWAY_CAP_SECONDS, WorkQueue
from dartes_operator.refusals import trouble_of
from dartes_operator.status_writer import StaleJobError, StatusWriter

log = logging.getLogger(__name__)

# Makes sure that what is known of a job is as new as the job, before anything is done for it.
Ensure = Callable[[Key, Manifest], Awaitable[None]]
Planner = Callable[[Manifest, Observed, datetime, Defaults], Plan]

# Every job is looked at this often even if nothing tells of a change.
RESYNC_SECONDS = 300.0
# A claim that is not labelled is not watched: what has become of it is asked this often at most.
CLAIM_SECONDS = 30.0


class Reconciler:
    """Passes over jobs; each hand of the queue calls `work_forever`."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        queue: WorkQueue,
        executor: Executor,
        statuses: StatusWriter,
        events: EventWriter,
        metrics: Metrics,
        defaults: Defaults,
        now: Callable[[], datetime],
        chance: Callable[[], float],
        ensure: Ensure,
        planner: Planner = plan,
    ) -> None:
        self._api = api
        self._cache = cache
        self._queue = queue
        self._executor = executor
        self._statuses = statuses
        self._events = events
        self._metrics = metrics
        self._defaults = defaults
        self._now = now
        self._chance = chance
        self._ensure = ensure
        self._planner = planner
        self._claims_asked: dict[Key, tuple[str, Manifest | None, datetime]] = {}

    async def work_forever(self) -> None:
        """Take keys from the queue and pass over their jobs, one at a time."""
        while True:
            await self.work_once()

    async def work_once(self) -> None:
        """Wait for the next key and pass over its job."""
        key = await self._queue.get()
        try:
            await self._pass(key)
        finally:
            self._queue.done(key)

    async def _pass(self, key: Key) -> None:
        started = time.monotonic()
        result = "success"
        made = self._executor.made[key]
        with speak_of(key):
            try:
                wait, urgent = await self.reconcile(key)
            except StaleJobError as error:
                result = "stale"
                # Soon the first time; a storm of conflicts must not become one of requests.
                delay = self._queue.retry(key, urgent=True)
                log.debug("planned on an old state, planned again in %.1f s: %s", delay, error)
            except NamespaceGoingError as error:
                result = "namespace-going"
                log.info("nothing more is made: %s", error)
            except ApiUnavailableError as error:
                result = "unavailable"
                # A busy server just names a second: what does not get further waits longer each time.
                cap = max(AWAY_CAP_SECONDS, 1.5 * error.retry_after)
                further = self._executor.made[key] > made
                delay = self._queue.retry(key, error.retry_after, at_most=cap, got_further=further)
                log.warning("tried again in %.1f s: %s", delay, error)
            except ApiRefusalError as refusal:
                result = "refused"
                delay = self._queue.retry(key)
                log.error("the API server refuses, tried again in %.1f s: %s", delay, refusal)
                await self._tell_of_missing_right(key, refusal)
            except Exception:
                # The outermost loop: one job's bug must not stop the others.
                result = "bug"
                delay = self._queue.retry(key)
                log.exception("a bug; tried again in %.1f s", delay)
            else:
                self._queue.succeeded(key)
                if wait is not None:
                    self._queue.add(key, wait, urgent=urgent)
        self._metrics.reconciles.labels(result=result).inc()
        self._metrics.reconcile_seconds.observe(time.monotonic() - started)

    async def reconcile(self, key: Key) -> tuple[float | None, bool]:
        """One pass: seconds until the next (None where there is no such job), and whether it is urgent."""
        found = self._cache.observe(key)
        if found is None:
            self._queue.forget(key)
            self._statuses.forget(key)
            self._executor.forget(key)
            self._claims_asked.pop(key, None)
            return None, False
        if key.namespace in self._cache.left_out:
            return None, False
        if not self._cache.trusts(found[0]) and not is_finished(found[0]):
            await self._ensure(key, found[0])
            found = self._cache.observe(key)
            if found is None or not self._cache.trusts(found[0]):
                raise StaleJobError(f"{key.name} has changed while it was looked at")
        job, observed = found
        job = self._statuses.completed(job)
        observed = await self._with_claim(key, job, observed)
        made = self._planner(job, observed, self._now(), self._defaults)
        if any(isinstance(action, ReadCertificates) for action in made.actions):
            tls = await read_certificates(self._api, key, metadata(job)["uid"])
            made = self._planner(job, replace(observed, tls=tls), self._now(), self._defaults)
        self._cache.forget_departed(job, made.settled)
        return await self._carry_out(key, job, made)

    async def _carry_out(self, key: Key, job: Manifest, made: Plan) -> tuple[float | None, bool]:
        uid = metadata(job)["uid"]
        if made.status_first:
            job = await self._statuses.write(job, made.status)
            self._cache.forget_departed(job, made.counted)
        outcome = await self._executor.execute(key, uid, made.actions)
        concluded = conclude(replace(made, actions=outcome.tried), outcome.refused)
        job = await self._statuses.write(job, concluded.status)
        for event in concluded.events:
            await self._events.write(job, event)
        if concluded.delete_job:
            await self._api.delete(JOB, key.namespace, key.name, uid)
            log.info("the job is deleted, its time to live has passed")
        resync = RESYNC_SECONDS * (0.75 + 0.5 * self._chance())
        held_back = self._statuses.held_back(key)
        if held_back is not None:
            resync = min(resync, held_back)
        if concluded.requeue_after is None:
            return resync, False
        return min(concluded.requeue_after, resync), concluded.requeue_after == 0

    async def _tell_of_missing_right(self, key: Key, refusal: ApiRefusalError) -> None:
        """Say it on the job: what was refused may be the very status that would have said it."""
        found = self._cache.observe(key)
        if found is not None and trouble_of(refusal) is Trouble.FORBIDDEN:
            message = f"the operator has not the rights ({refusal.message})"
            await self._events.write(found[0], Event("Warning", Trouble.FORBIDDEN, message))

    async def _with_claim(self, key: Key, job: Manifest, observed: Observed) -> Observed:
        """Fill in a claim of the user's own, which no watch tells of.

        It is kept apart from the cache, which takes what it holds to be watched.
        """
        name = claim_name(job)
        # The spec has not been looked at yet: what can't be a name is for the plan to refuse.
        if observed.claim is not None or not _names_a_claim(job) or not is_object_name(name):
            return observed
        now = self._now()
        asked, claim, when = self._claims_asked.get(key, ("", None, now))
        if asked != name or (now - when).total_seconds() >= CLAIM_SECONDS:
            claim = await self._api.get(Kind.CLAIM, key.namespace, name)
            self._claims_asked[key] = (name, claim, now)
        return replace(observed, claim=claim)


def _names_a_claim(job: Manifest) -> bool:
    checkpoint: Mapping[str, Any] = (job.get("spec") or {}).get("checkpoint") or {}
    return bool((checkpoint.get("volume") or {}).get("claimName") or checkpoint.get("resumeFrom"))
