"""Events on jobs, for `kubectl describe`: written after the status, counted where they repeat.

Nothing depends on them: one that can't be written is logged and forgotten.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Any

from dartes_operator.api import Api, ApiRefusalError, ApiUnavailableError
from dartes_operator.kinds import GROUP, JOB, VERSION, metadata
from dartes_operator.plan.types import Event, Manifest
from dartes_operator.refusals import name_is_taken

log = logging.getLogger(__name__)

COMPONENT = "dartes-operator"
MAX_MESSAGE = 1024  # what the API server allows
# A repetition within this time is counted, and written when it has passed.
QUIET_SECONDS = 60.0
_REMEMBERED = 4096


class EventWriter:
    """Writes events; one object per job, reason and message, however often it happens."""

    def __init__(
        self, api: Api, pod_name: str, clock: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        self._api = api
        self._pod_name = pod_name
        self._clock = clock
        self._now = now
        self._seen: OrderedDict[str, tuple[int, float]] = OrderedDict()  # name -> times, last written

    async def write(self, job: Manifest, event: Event) -> None:
        """Write one event; a failure is logged and changes nothing."""
        manifest = self._manifest(job, event)
        name = manifest["metadata"]["name"]
        times, written = self._seen.get(name, (0, 0.0))
        quiet = times > 0 and self._clock() - written < QUIET_SECONDS
        self._remember(name, times + 1, written if quiet else self._clock())
        log.log(
            logging.WARNING if event.type == "Warning" else logging.INFO,
            "%s: %s",
            event.reason,
            event.message,
        )
        if quiet:
            return
        try:
            if times == 0:
                try:
                    await self._api.create(manifest)
                    return
                except ApiRefusalError as refusal:
                    if not name_is_taken(refusal):
                        raise
            patch = {"count": max(2, times + 1), "lastTimestamp": manifest["lastTimestamp"]}
            await self._api.merge("Event", manifest["metadata"]["namespace"], name, patch)
        except (ApiRefusalError, ApiUnavailableError) as error:
            log.warning("event %s is not written: %s", event.reason, error)

    def _remember(self, name: str, times: int, written: float) -> None:
        self._seen[name] = (times, written)
        self._seen.move_to_end(name)
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def _manifest(self, job: Manifest, event: Event) -> dict[str, Any]:
        meta = metadata(job)
        identity = "\0".join((meta["uid"], event.type, event.reason, event.message))
        time = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta['name']}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
                "namespace": meta["namespace"],
            },
            "involvedObject": {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": JOB,
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:MAX_MESSAGE],
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._pod_name,
        }
