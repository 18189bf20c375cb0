"""Whether what is known of a job's objects is as new as the status that somebody else has written.

An old list lacks pods that are there, and has pods that are gone and counted. An API server gives none to who
asks as the operator does; a cache in between may. And another operator may be at work: one of before that has
not ended yet, or whose node was cut off. So the first thing that is done for a job that has a status, and
again whenever somebody else has written it, is to read the job, past every list, and to list again what is
older than it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from dartes_operator.api import Api, ApiUnavailableError
from dartes_operator.cache import Cache
from dartes_operator.kinds import JOB, WATCHED, Key, metadata, version_of
from dartes_operator.plan.types import Manifest
from dartes_operator.status_writer import StaleJobError

log = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
# Resource versions are one sequence where all kinds are in one store, as they nearly always are.
MOST_SECONDS = 120.0


class Freshness:
    """Makes the cache trust in jobs; `list_again` lists a kind into it, for a namespace."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        list_again: Callable[[str, str], Awaitable[object]],
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._cache = cache
        self._list_again = list_again
        self._clock = clock
        self._began: dict[str, float] = {}
        self._in_vain: dict[tuple[str, str], float] = {}
        self._lock = asyncio.Lock()

    async def ensure(self, key: Key, job: Manifest) -> None:
        """Trust in a job once what is watched of it was listed when it was as it is now, or later.

        StaleJobError where it is another one by now, ApiUnavailableError as long as the lists stay old. After
        two minutes of nothing but old lists they are taken as they are.
        """
        began = self._began.pop(metadata(job)["uid"], None)
        live = await self._api.get(JOB, key.namespace, key.name)
        uid = metadata(job)["uid"]
        if live is None or metadata(live)["uid"] != uid:
            self._cache.remove(job)
        if live is not None:
            self._cache.put(live)
        if live is None or metadata(live)["uid"] != uid:
            raise StaleJobError(f"{key.name} is not the job that it was")
        self._cache.distrust(live)
        # A job without a status has no objects yet that somebody could miss.
        old = await self._list_what_is_older(key, live) if live.get("status") else []
        if old:
            since = self._clock() if began is None else began
            words = f"lists of {', '.join(old)} are older than the job"
            if self._clock() - since < MOST_SECONDS:
                self._began[uid] = since
                raise ApiUnavailableError(f"{words}; nothing is done until they are not", RETRY_SECONDS)
            log.warning("%s after %.0f s, and are taken as they are", words, MOST_SECONDS)
        self._cache.trust(job)

    async def _list_what_is_older(self, key: Key, job: Manifest) -> list[str]:
        version = version_of(job)
        if version is None:
            return []
        kinds = [kind for kind in WATCHED if kind != JOB]
        # Many jobs are looked at side by side, and one new list serves all of a namespace, also if it is old.
        async with self._lock:
            for kind in kinds:
                place = (kind, key.namespace)
                in_vain = self._in_vain.get(place)
                lately = in_vain is not None and self._clock() - in_vain < RETRY_SECONDS
                if self._cache.listed(*place) < version and not lately:
                    await self._list_again(*place)
                    if self._cache.listed(*place) < version:
                        self._in_vain[place] = self._clock()
        return [kind for kind in kinds if self._cache.listed(kind, key.namespace) < version]
