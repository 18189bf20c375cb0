"""Writes what has changed of a job's status, and nothing where nothing has.

Every write names the uid and the resource version that it was planned on: a stale plan is refused by the API
server, so it can neither bring back an old state nor reach a successor of the same name.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dartes.errors import DartesError
from dartes_operator.api import Api, ApiRefusalError
from dartes_operator.cache import Cache
from dartes_operator.kinds import JOB, Key, metadata
from dartes_operator.metrics import Metrics
from dartes_operator.plan.types import Manifest

log = logging.getLogger(__name__)

MAX_BYTES = 16 * 1024
# The plan writes progress alone every ten seconds at most, by its own clock of whole seconds; this is for the
# case that it errs.
PROGRESS_SECONDS = 9.0
_TRIMMED_MESSAGE = 512
_PROGRESS_ONLY = {"progress", "checkpoint"}
# Pods come and go one at a time, hundreds of them at the start of a large job.
COUNTS_SECONDS = 10.0
_COUNTS = {"replicas", "ready", "caughtUp", "pending", "draining"}
# It repeats what the scheduler or the kubelet says of one of the pods that wait, each time another one.
_SPEAKS_OF_A_POD = "WorkersReady"
# It came after the first release, and the definition may be somebody else's to bring up to date.
_MAY_BE_PRUNED = "policyHash"


class StaleJobError(DartesError):
    """The job has changed since the plan was made: plan again."""


class StatusWriter:
    """Writes status with merge patches on the `/status` subresource."""

    def __init__(self, api: Api, cache: Cache, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._api = api
        self._cache = cache
        self._metrics = metrics
        self._clock = clock
        self._written: dict[Key, tuple[str, float]] = {}
        self._counted: dict[Key, tuple[str, float]] = {}
        self._held_back: dict[Key, float] = {}
        self._pruned: dict[Key, tuple[str, str]] = {}
        self._told_of_pruning = False

    async def write(self, job: Manifest, status: Manifest) -> Manifest:
        """Bring the job's status to `status`; returns the job as it is then.

        Where nothing but numbers of pods, or the words on one that waits, has changed since others were
        written less than ten seconds ago, nothing is written, and `held_back` tells when to come again.

        StaleJobError where the job was changed or replaced meanwhile; its present state is in the cache then.
        """
        old = job.get("status") or {}
        patch = difference(old, within_bounds(status))
        meta = metadata(job)
        now = self._clock()
        key = Key(meta["namespace"], meta["name"])
        self._held_back.pop(key, None)
        uid, last = self._written.get(key, ("", 0.0))
        progress_only = set(patch) <= _PROGRESS_ONLY
        if not patch or (progress_only and uid == meta["uid"] and now - last < PROGRESS_SECONDS):
            return job
        of_pods = _is_of_pods_only(patch, old)
        if of_pods and self._is_too_soon(key, meta["uid"], now):
            return job
        body = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}, "status": patch}
        try:
            written = await self._api.merge(JOB, meta["namespace"], meta["name"], body, "status")
        except ApiRefusalError as refusal:
            if refusal.code not in (404, 409):
                raise
            await self._look_again(job)
            raise StaleJobError(refusal.message) from refusal
        if progress_only:
            self._written[key] = (meta["uid"], now)
        if of_pods or "workers" in patch:
            self._counted[key] = (meta["uid"], now)
        self._cache.put_written(written)
        self._note_pruning(key, written, patch)
        more = _disruptions(written.get("status") or {}) - _disruptions(old)
        if more > 0:
            self._metrics.disruptions.inc(more)
        return self.completed(written)

    def completed(self, job: Manifest) -> Manifest:
        """The job with a field in its status that the API server drops, as it was written last."""
        meta = metadata(job)
        uid, value = self._pruned.get(Key(meta["namespace"], meta["name"]), ("", ""))
        status = job.get("status") or {}
        if uid != meta["uid"] or _MAY_BE_PRUNED in status:
            return job
        return {**job, "status": {**status, _MAY_BE_PRUNED: value}}

    def _note_pruning(self, key: Key, written: Manifest, patch: Mapping[str, Any]) -> None:
        """Remember a field that the definition lacks: asked for in each pass, it would be written in each."""
        value = patch.get(_MAY_BE_PRUNED)
        if value is None:
            return
        if _MAY_BE_PRUNED in (written.get("status") or {}):
            self._pruned.pop(key, None)
            return
        self._pruned[key] = (metadata(written)["uid"], value)
        if not self._told_of_pruning:
            self._told_of_pruning = True
            log.warning("the definition of DartESJob is too old for this operator: no %s", _MAY_BE_PRUNED)

    def held_back(self, key: Key) -> float | None:
        """Seconds until what the last write held back may be written; None where it held nothing back."""
        return self._held_back.get(key)

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        for known in (self._written, self._counted, self._pruned):
            known.pop(key, None)
        self._held_back.pop(key, None)

    def _is_too_soon(self, key: Key, uid: str, now: float) -> bool:
        of, last = self._counted.get(key, ("", 0.0))
        left = last + COUNTS_SECONDS - now
        if of != uid or left <= 0:
            return False
        self._held_back[key] = left
        return True

    async def _look_again(self, job: Manifest) -> None:
        meta = metadata(job)
        found = await self._api.get(JOB, meta["namespace"], meta["name"])
        if found is None or metadata(found)["uid"] != meta["uid"]:
            self._cache.remove(job)
        if found is not None:
            self._cache.put(found)


def _is_of_pods_only(patch: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether it brings numbers of pods, or other words on a pod that waits, and besides only progress."""
    parts = set(patch) - _PROGRESS_ONLY
    if "conditions" in parts:
        if _without_words(patch["conditions"]) != _without_words(old.get("conditions") or ()):
            return False
        # The message of the whole status repeats a condition's.
        parts -= {"conditions", "message"}
    elif "workers" not in parts:
        return False
    workers = patch.get("workers") or {}
    return parts <= {"workers"} and isinstance(workers, Mapping) and set(workers) <= _COUNTS


def _without_words(conditions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{**entry, "message": ""} if entry["type"] == _SPEAKS_OF_A_POD else entry for entry in conditions]


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that turns `old` into `new`; lists are replaced whole, empty if equal."""
    return _difference(old, _plain(new))


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if value == before:
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            patch[name] = _difference(before, value)
        else:
            patch[name] = value
    return patch


def within_bounds(status: Manifest) -> Manifest:
    """The status, with shorter messages where it would pass 16 KiB; ValueError if that is not enough."""
    size = _size(status)
    if size <= MAX_BYTES:
        return status
    conditions = [
        {**condition, "message": str(condition.get("message", ""))[:_TRIMMED_MESSAGE]}
        for condition in status.get("conditions") or ()
    ]
    failure = status.get("lastFailure")
    shorter: dict[str, Any] = {**status, "conditions": conditions}
    if failure:
        shorter["lastFailure"] = {**failure, "message": str(failure.get("message", ""))[:_TRIMMED_MESSAGE]}
    log.warning("the status has %d bytes, more than %d: its messages are cut", size, MAX_BYTES)
    if _size(shorter) > MAX_BYTES:
        raise ValueError(
            f"the status has {_size(shorter)} bytes with its messages cut; {MAX_BYTES} are allowed"
        )
    return shorter


def _plain(value: Any) -> Any:
    """As the API server will store it: nulls mean deletion in a merge patch, and tuples are lists."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items() if part is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


def _size(status: Manifest) -> int:
    return len(json.dumps(status, separators=(",", ":")))


def _disruptions(status: Mapping[str, Any]) -> int:
    return int((status.get("failures") or {}).get("disruptions") or 0)
