"""Listings: the first fills the cache before anything is decided, later ones find what a watch has missed.

A watch that is interrupted for long starts over with a listing, and tells nothing of objects that went
meanwhile; and a watch can fall silent. So the cache is compared with full listings now and then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping

from dartes.errors import DartesError
from dartes_operator.api import Api, ApiRefusalError, ApiUnavailableError, Listing
from dartes_operator.ballast import without_ballast
from dartes_operator.cache import Cache, Changes
from dartes_operator.kinds import JOB, WATCHED, Key

log = logging.getLogger(__name__)

PERIOD_SECONDS = 300.0
FIRST_RETRY_SECONDS = 2.0
# So often a namespace is asked for again before it is left out; in one round of listings, not for each.
MORE_TRIES = 3
# A watch that starts over lists first; what went before that is found by a listing soon after.
SETTLE_SECONDS = 10.0
# How long a watch may lag behind a listing before it counts as silent.
LAG_SECONDS = 60.0


class WatchEndedError(DartesError):
    """Watching has ended, by an answer that it does not go on from: only starting over helps."""


class WatchSilentError(WatchEndedError):
    """A listing showed changes that the watch did not tell of."""


class Listings:
    """Lists every watched kind, at start and then every five minutes."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        namespaces: tuple[str, ...],
        changed: Callable[[Key], None],
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._cache = cache
        self._namespaces: tuple[str | None, ...] = namespaces or (None,)
        self._changed = changed
        self._clock = clock
        self._told = dict.fromkeys(WATCHED, clock())
        self._listed = dict(self._told)
        self._started_over = asyncio.Event()
        self.last_attempt = clock()

    def told(self, kind: str) -> None:
        """Note that the watch of a kind has delivered something."""
        self._told[kind] = self._clock()

    def started_over(self) -> None:
        """Note that a watch has begun with a listing, and so may have missed that something went."""
        self._started_over.set()

    def ages(self) -> Mapping[str, float]:
        """Seconds since each kind was last heard of, by watch or listing."""
        now = self._clock()
        return {kind: now - max(told, self._listed[kind]) for kind, told in self._told.items()}

    async def fill(self) -> None:
        """List until every kind is in the cache, then call it synced; says what is refused."""
        while True:
            self.last_attempt = self._clock()
            try:
                for kind in WATCHED:
                    await self.list(kind)
            except (ApiRefusalError, ApiUnavailableError) as error:
                # In the words of the server alone a definition that is gone is "404 page not found".
                log.error("listing fails, nothing is done until it works: %s: %s", kind, error)
                await asyncio.sleep(FIRST_RETRY_SECONDS)
                continue
            self._cache.synced = True
            return

    async def compare_forever(self) -> None:
        """Compare the cache with a listing every five minutes, and soon after a watch has started over.

        WatchSilentError where a watch is dead.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_SECONDS):
                    await self._started_over.wait()
                    await asyncio.sleep(SETTLE_SECONDS)
            self._started_over.clear()
            self.last_attempt = self._clock()
            for kind in WATCHED:
                try:
                    await self.compare(kind)
                except (ApiRefusalError, ApiUnavailableError) as error:
                    log.warning("listing of %s fails, tried again in %.0f s: %s", kind, PERIOD_SECONDS, error)

    async def compare(self, kind: str) -> None:
        """Compare one kind; WatchSilentError where its watch stays silent about what changed."""
        told = self._told[kind]
        # Of what is gone a healthy watch may not have told, where it has started over meanwhile.
        missed = (await self.list(kind)).newer
        if not missed:
            return
        # It may just be on its way.
        await asyncio.sleep(LAG_SECONDS)
        if self._told[kind] == told:
            raise WatchSilentError(
                f"the watch of {kind} has told nothing for {self._clock() - told:.0f} s, but a listing shows "
                f"changes of {', '.join('/'.join(key) for key in sorted(missed)[:5])}"
            )

    async def list(self, kind: str, namespace: str | None = None) -> Changes:
        """Take in a listing of one kind, of all namespaces or what speaks of one; says what it changed."""
        only = set(self._namespaces) if namespace is None else {namespace, None}
        newer: set[Key] = set()
        gone: set[Key] = set()
        patience = iter([FIRST_RETRY_SECONDS] * MORE_TRIES)
        for scope in self._namespaces:
            if scope not in only or (kind != JOB and scope in self._cache.left_out):
                continue
            listing = await self._listing_of(kind, scope, patience)
            if listing is None:
                continue
            if kind == JOB and scope in self._cache.left_out:
                self._take_back(scope)
            changes = self._cache.replace(kind, scope, listing.items, listing.version)
            newer |= changes.newer
            gone |= changes.gone
        self._listed[kind] = self._clock()
        for key in newer | gone:
            self._changed(key)
        return Changes(frozenset(newer), frozenset(gone))

    async def _listing_of(
        self, kind: str, namespace: str | None, patience: Iterator[float]
    ) -> Listing | None:
        """The objects of a kind in a namespace; None where it is left out, since its jobs can't be listed.

        An API server that has just started refuses for a moment what a role allows that it has not read yet,
        so it is asked again as long as there is patience. Of a namespace that is left out nothing else is
        listed either, and its jobs are left alone: only a part of them may be known.
        """
        while True:
            try:
                return await self._api.list_all(kind, namespace, WATCHED[kind], without_ballast)
            except ApiRefusalError as refusal:
                if kind != JOB or not self._can_do_without(namespace, refusal):
                    raise
                if namespace in self._cache.left_out:
                    return None
                pause = next(patience, None)
                if pause is None:
                    log.error("namespace %s is left out until its jobs can be listed: %s", namespace, refusal)
                    self._cache.left_out |= {namespace}
                    return None
            await asyncio.sleep(pause)

    def _can_do_without(self, namespace: str | None, refusal: ApiRefusalError) -> bool:
        """Whether there are other namespaces to look after, and this one is gone or the rights on it are.

        Any other refusal passes by itself.
        """
        return refusal.code in (403, 404) and not self._cache.left_out | {namespace} >= set(self._namespaces)

    def _take_back(self, namespace: str | None) -> None:
        """Look after a namespace again whose jobs can be listed; at work, by starting over.

        The first listing goes on with all of its objects before anything is decided; later nobody knows what
        its watches have missed.
        """
        if self._cache.synced:
            raise WatchEndedError(f"namespace {namespace} can be listed again")
        self._cache.left_out -= {namespace}
