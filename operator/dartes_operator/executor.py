"""Carries out the actions of a plan, in their order, pods several at a time; tells what was refused and why.

Decides only what an answer means. A refusal of anything but a pod ends the making of further objects in this
pass, since pods must not start on another's volume or without their certificates; deletions go on. Likewise
a refusal of the coordinator ends the making of workers, which would take up the room that it needs.
"""

import asyncio
import hashlib
import itertools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dartes_operator.api import Api, ApiRefusalError, ApiUnavailableError
from dartes_operator.cache import Cache
from dartes_operator.certificates import ForeignSecretError, issue_certificates
from dartes_operator.kinds import AUTHORITY, JOB_UID_LABEL, WATCHED, Key, is_ours, labels, metadata
from dartes_operator.plan.types import (
    Action,
    Apply,
    Create,
    Delete,
    IssueCertificates,
    Kind,
    Manifest,
    Patch,
    Refused,
    Trouble,
)
from dartes_operator.refusals import name_is_taken, namespace_is_going, tells_nothing, trouble_of
from dartes_operator.resources.identity import ROLE_LABEL, Role

log = logging.getLogger(__name__)

PODS_AT_ONCE = 16
# An applied object that is not watched is applied again after this time, lest someone has removed it.
APPLY_AGAIN_SECONDS = 600.0
_REHEARSED = (Role.COORDINATOR, Role.WORKER)
_STOPS_A_BATCH = (Trouble.QUOTA_EXCEEDED, Trouble.INVALID, Trouble.FORBIDDEN, Trouble.WEBHOOK_AWAY)


class NamespaceGoingError(Exception):
    """The job's namespace is being deleted: nothing can be made in it, and nothing needs to be."""


@dataclass(frozen=True)
class Outcome:
    """What came of the actions: those that were tried, and of these the refused ones.

    Where a role's pods were not made because of another pod, its first stands for them in both.
    """

    tried: tuple[Action, ...]
    refused: tuple[Refused, ...]


class Executor:
    """Turns actions into requests and keeps the cache up to date with the answers."""

    def __init__(self, api: Api, cache: Cache, clock: Callable[[], float]) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._applied: dict[Key, dict[tuple[str, str], tuple[str, float]]] = {}
        self._pods = asyncio.Semaphore(PODS_AT_ONCE)
        self._full: set[Key] = set()
        self.made: Counter[Key] = Counter()
        """Objects made so far for each job, Secrets not counted: they are written again from the first."""

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self._applied.pop(key, None)
        self._full.discard(key)
        self.made.pop(key, None)

    async def execute(self, key: Key, job_uid: str, actions: Sequence[Action]) -> Outcome:
        """Carry out the actions.

        Raises ApiUnavailableError where another try may help (the pass is to be repeated: every action is
        idempotent), NamespaceGoingError where none will.
        """
        refused = await self._rehearse(actions)
        tried = [entry.action for entry in refused]
        making = not refused
        barred: Refused | None = None
        mark: str | None = None
        for batch in _batches(actions):
            first = batch[0]
            if not making and not isinstance(first, Delete):
                continue
            if barred is not None and _role(first) is Role.WORKER:
                tried.append(first)
                refused = _with_waiting(refused, barred, first)
                continue
            tried += batch
            try:
                if _is_pod(first):
                    troubles = await self._create_pods(key, job_uid, batch, mark)
                elif isinstance(first, IssueCertificates):
                    mark = await issue_certificates(self._api, first, job_uid)
                    troubles = []
                else:
                    trouble = await self._one(key, job_uid, first)
                    troubles = [trouble] if trouble else []
            except ForeignSecretError as error:
                troubles = [_conflict(first, str(error))]
            except ApiRefusalError as refusal:
                troubles = [_refused(first, refusal)]
            refused += troubles
            making = making and (not troubles or _is_pod(first))
            if _role(first) is Role.COORDINATOR:
                barred = next((entry for entry in troubles if entry.trouble in _STOPS_A_BATCH), None)
        return Outcome(tuple(tried), tuple(refused))

    async def _rehearse(self, actions: Sequence[Action]) -> list[Refused]:
        """Have the first pods of a new run judged before anything is made for them: what was refused.

        A run is new where its templates are being pinned. Only a mistake in a pod counts here; what may pass
        until the pod's turn comes, such as a full quota, is told then.
        """
        if not any(isinstance(a, Create) and a.manifest["kind"] == Kind.CONFIG_MAP for a in actions):
            return []
        refused: list[Refused] = []
        passed: list[Action] = []
        for role in _REHEARSED:
            action = next((a for a in actions if _role(a) is role), None)
            if not isinstance(action, Create):
                continue
            try:
                await self._api.create(action.manifest, dry_run=True)
            except ApiRefusalError as refusal:
                mistaken = trouble_of(refusal, action.manifest) is Trouble.INVALID
                if mistaken and not tells_nothing(refusal):
                    refused.append(_refused(action, refusal))
                    continue
            passed.append(action)
        for action in passed if refused else ():
            refused = _with_waiting(refused, refused[0], action)
        return refused

    async def _one(self, key: Key, job_uid: str, action: Action) -> Refused | None:
        if isinstance(action, Create):
            return await self._create(key, job_uid, action.manifest, action)
        if isinstance(action, Apply):
            return await self._apply(key, job_uid, action)
        if isinstance(action, Patch):
            await self._patch(key, action)
        elif isinstance(action, Delete):
            await self._delete(key, job_uid, action)
        else:
            raise TypeError(f"{type(action).__name__} is not the executor's: the loop reads and plans again")
        return None

    async def _create_pods(
        self, key: Key, job_uid: str, batch: Sequence[Action], mark: str | None
    ) -> list[Refused]:
        refused: list[Refused] = []
        full = False

        async def one(action: Action) -> None:
            nonlocal full
            assert isinstance(action, Create)
            manifest = _stamped(action.manifest, mark) if action.stamp_authority else action.manifest
            async with self._pods:
                # What a quota refuses to one it refuses to all: a thousand workers ask sixteen times.
                if full:
                    return
                try:
                    trouble = await self._create(key, job_uid, manifest, action)
                except ApiRefusalError as refusal:
                    trouble = _refused(action, refusal)
                if trouble is not None:
                    refused.append(trouble)
                    full = full or trouble.trouble in _STOPS_A_BATCH

        if key in self._full:
            # Whether there is room by now is asked for one: any pod of a large job that moves asks again.
            await one(batch[0])
            batch = batch[1:]
        outcomes = await asyncio.gather(*(one(action) for action in batch), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        (self._full.add if full else self._full.discard)(key)
        return refused

    async def _create(self, key: Key, job_uid: str, manifest: Manifest, action: Action) -> Refused | None:
        """POST; a name that is taken is well where ours holds it and is not going."""
        if await self._post(key, manifest):
            return None
        kind, meta = manifest["kind"], manifest["metadata"]
        existing = await self._api.get(kind, meta["namespace"], meta["name"])
        if existing is None:
            raise ApiUnavailableError(f"{kind} {meta['name']} was there and is gone: looked at again")
        self._take_in(existing)
        if metadata(existing).get("deletionTimestamp"):
            # A predecessor of the same name counts, too: its objects go with it.
            return Refused(action, Trouble.TERMINATING, f"{kind} {meta['name']} is still being deleted")
        if not is_ours(existing, job_uid):
            return _conflict(action, meta["name"], kind)
        return None

    async def _post(self, key: Key, manifest: Manifest) -> bool:
        try:
            self._take_in(await self._api.create(manifest))
        except ApiRefusalError as refusal:
            if name_is_taken(refusal):
                return False
            raise
        self.made[key] += 1
        self._note(key, manifest)
        return True

    async def _apply(self, key: Key, job_uid: str, action: Apply) -> Refused | None:
        """Make the object, or set its fields where it is ours; never take it from another owner."""
        manifest = action.manifest
        kind, namespace, name = (
            manifest["kind"],
            manifest["metadata"]["namespace"],
            manifest["metadata"]["name"],
        )
        known = self._cache.get(kind, namespace, name)
        if self._is_as_written(key, manifest):
            return None
        if known is not None or not await self._post(key, manifest):
            known = known or await self._api.get(kind, namespace, name)
            if known is None:
                raise ApiUnavailableError(f"{kind} {name} was there and is gone: looked at again")
            if metadata(known).get("deletionTimestamp"):
                return Refused(action, Trouble.TERMINATING, f"{kind} {name} is still being deleted")
            if not is_ours(known, job_uid):
                return _conflict(action, name, kind)
            self._take_in(await self._api.apply(manifest))
            self._note(key, manifest)
        return None

    def _is_as_written(self, key: Key, manifest: Manifest) -> bool:
        """Whether an object was written like this a while ago; never of what a watch shows to be gone."""
        kind, meta = manifest["kind"], manifest["metadata"]
        if kind in WATCHED and self._cache.get(kind, meta["namespace"], meta["name"]) is None:
            return False
        digest, when = self._applied.get(key, {}).get((kind, meta["name"]), ("", 0.0))
        return digest == _digest(manifest) and self._clock() - when < APPLY_AGAIN_SECONDS

    def _note(self, key: Key, manifest: Manifest) -> None:
        """Remember what was written, but for pods."""
        if manifest["kind"] == Kind.POD:
            return
        name = (manifest["kind"], manifest["metadata"]["name"])
        self._applied.setdefault(key, {})[name] = (_digest(manifest), self._clock())

    async def _patch(self, key: Key, action: Patch) -> None:
        try:
            self._take_in(await self._api.merge(action.kind, key.namespace, action.name, action.patch))
        except ApiRefusalError as refusal:
            if refusal.code not in (404, 409):
                raise
            raise ApiUnavailableError(
                f"{action.kind} {action.name} is another one now: looked at again"
            ) from refusal

    async def _delete(self, key: Key, job_uid: str, action: Delete) -> None:
        # First of all: what is found to be gone is to be made again, too.
        self._applied.get(key, {}).pop((action.kind, action.name), None)
        uid = action.uid
        if uid is None:
            existing = await self._api.get(action.kind, key.namespace, action.name)
            if existing is None or labels(existing).get(JOB_UID_LABEL) != job_uid:
                return
            uid = metadata(existing)["uid"]
        left = await self._api.delete(action.kind, key.namespace, action.name, uid, action.grace_seconds)
        if left is not None and left.get("kind") == action.kind and "uid" in metadata(left):
            self._take_in(left)

    def _take_in(self, manifest: Manifest) -> None:
        if manifest.get("kind") in WATCHED:
            self._cache.put(manifest)


def _digest(manifest: Manifest) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _is_pod(action: Action) -> bool:
    return isinstance(action, Create) and action.manifest["kind"] == Kind.POD


def _role(action: Action) -> Role | None:
    """The role of the pod that an action makes; None for all else."""
    if not isinstance(action, Create) or action.manifest["kind"] != Kind.POD:
        return None
    return Role(labels(action.manifest)[ROLE_LABEL])


def _batches(actions: Sequence[Action]) -> Iterator[list[Action]]:
    """The actions in their order: workers that follow one another together, all else one by one."""
    for role, group in itertools.groupby(actions, _role):
        if role is Role.WORKER:
            yield list(group)
        else:
            yield from ([action] for action in group)


def _with_waiting(refused: Sequence[Refused], cause: Refused, waiting: Action) -> list[Refused]:
    """The refusals, with a pod that was not asked for because of one of them.

    It comes first, since of several words on the same condition the last one stands.
    """
    message = f"not made, since {_name(cause.action)} was refused: {cause.message}"
    return [replace(cause, action=waiting, message=message), *refused]


def _name(action: Action) -> str:
    return str(action.manifest["metadata"]["name"]) if isinstance(action, Create) else ""


def _stamped(manifest: Manifest, mark: str | None) -> Manifest:
    if mark is None:
        raise TypeError("a pod is to carry a new authority's mark, but no certificates were issued before it")
    meta = manifest["metadata"]
    annotations = {**(meta.get("annotations") or {}), AUTHORITY: mark}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def _refused(action: Action, refusal: ApiRefusalError) -> Refused:
    if namespace_is_going(refusal):
        raise NamespaceGoingError(refusal.message) from refusal
    asked = action.manifest if isinstance(action, Create) else None
    trouble = trouble_of(refusal, asked)
    if trouble is None:
        raise ApiUnavailableError(refusal.message) from refusal
    return Refused(action, trouble, refusal.message)


def _conflict(action: Action, name: str, kind: str = Kind.SECRET) -> Refused:
    message = f"{kind} {name} exists and belongs to something else: delete it, or name the job otherwise"
    return Refused(action, Trouble.NAME_CONFLICT, message)
