"""The latest known state of every watched object, fed by watches, listings and the operator's own writes.

Knows which of two states of an object is the newer; decides nothing about jobs. Of a pod it keeps only what
is read again, since there may be thousands.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dartes_operator.ballast import without_ballast
from dartes_operator.kinds import (
    JOB,
    JOB_UID_LABEL,
    WATCHED,
    Key,
    claim_name,
    goes_before,
    key_of,
    labels,
    metadata,
    version_of,
)
from dartes_operator.plan.pods import ENDED_PHASES
from dartes_operator.plan.types import Manifest, Observed, Progress

_REMEMBERED_DEAD = 10_000

Name = tuple[str, str, str]  # kind, namespace, name


@dataclass(frozen=True)
class Changes:
    """The jobs of which a listing showed newer objects, and those whose objects it lacked."""

    newer: frozenset[Key]
    gone: frozenset[Key]


class Cache:
    """Objects by kind, namespace and name; `synced` once the first listing of every kind is in.

    `left_out` are namespaces of which only a part may be known: nothing is to be decided on it.
    """

    def __init__(self) -> None:
        self.synced = False
        self.left_out: frozenset[str | None] = frozenset()
        self._objects: dict[Name, Manifest] = {}
        self._jobs: dict[Key, Manifest] = {}
        self._owned: defaultdict[str, set[Name]] = defaultdict(set)  # by job uid
        self._dead: OrderedDict[str, None] = OrderedDict()
        self._progress: dict[Key, tuple[str, Progress]] = {}
        self._listed: dict[tuple[str, str | None], int] = {}  # kind, namespace or all
        self._trusted: set[str] = set()  # uids of jobs
        self._doubted: set[str] = set()  # uids of jobs whose status somebody else has written
        self._departed: defaultdict[str, dict[str, Manifest]] = defaultdict(dict)  # by job uid, then by uid

    def put(self, manifest: Manifest) -> bool:
        """Take in a state of an object; False where what is known is as new, or the object is gone."""
        # A listing that is newer lacked what is not known, so a watch tells of what has gone since.
        return self._take(manifest, self.listed(*_name(manifest)[:2]) if _is_listed(manifest) else 0)

    def _take(self, manifest: Manifest, floor: int) -> bool:
        """Take in a state of an object, but not of one that is unknown and no newer than `floor`."""
        name = _name(manifest)
        uid = metadata(manifest).get("uid")
        if uid in self._dead:
            return False
        known = self._objects.get(name)
        new = version_of(manifest)
        is_known = known is not None and metadata(known).get("uid") == uid
        if not is_known and new is not None and new <= floor:
            return False
        if known is not None:
            old = version_of(known)
            if new is not None and old is not None and new <= old:
                return False
            self._owned[_owner(known)].discard(name)
            if metadata(known).get("uid") != uid:
                self._note_gone(known, known)
            elif name[0] == JOB and _status(known) != _status(manifest):
                self._doubted.add(metadata(known)["uid"])
        kept = without_ballast(manifest)
        self._objects[name] = kept
        self._owned[_owner(kept)].add(name)
        if name[0] == JOB:
            self._jobs[Key(*name[1:])] = kept
        return True

    def put_written(self, job: Manifest) -> None:
        """Take in a job whose status this operator has written; a watch may have told of it already."""
        self.put(job)
        meta = metadata(job)
        known = self._jobs.get(Key(meta["namespace"], meta["name"]))
        if known is not None and _status(known) == _status(job):
            self._doubted.discard(meta["uid"])

    def remove(self, manifest: Manifest) -> bool:
        """Forget an object that is gone; a successor of its name stays.

        A pod is kept aside until `forget_departed`, since how it ended may be known to nobody yet: as this
        manifest tells it, or as it was known where it had ended before anybody asked for its deletion.
        """
        name = _name(manifest)
        uid = metadata(manifest).get("uid")
        if uid:
            self._dead[uid] = None
            while len(self._dead) > _REMEMBERED_DEAD:
                self._dead.popitem(last=False)
        known = self._objects.get(name)
        if known is None or metadata(known).get("uid") != uid:
            return False
        self._drop(name)
        self._note_gone(known, manifest)
        return True

    def trusts(self, job: Manifest) -> bool:
        """Whether what is known of a job's objects may be acted on; `Freshness` says when.

        Not after somebody else has written its status, who may have seen more of them.
        """
        uid = metadata(job)["uid"]
        return uid in self._trusted and uid not in self._doubted

    def trust(self, job: Manifest) -> None:
        """Note that what is known of a job's objects may be acted on; nothing where the job is gone."""
        meta = metadata(job)
        known = self._jobs.get(Key(meta["namespace"], meta["name"]))
        if known is not None and metadata(known)["uid"] == meta["uid"]:
            self._trusted.add(meta["uid"])

    def distrust(self, job: Manifest) -> None:
        """Note that what is known of a job's objects may be old, until they are as new as this job.

        Its pods that are gone may have been counted by who wrote the status, and their marks taken off again.
        """
        meta = metadata(job)
        self._trusted.discard(meta["uid"])
        self._departed.pop(meta["uid"], None)
        known = self._jobs.get(Key(meta["namespace"], meta["name"]))
        if known is None or (version_of(known) or 0) <= (version_of(job) or 0):
            self._doubted.discard(meta["uid"])

    def listed(self, kind: str, namespace: str) -> int:
        """The version of the last listing of a kind that speaks of a namespace; 0 where there was none."""
        return max(self._listed.get((kind, scope), 0) for scope in (namespace, None))

    def forget_departed(self, job: Manifest, uids: Iterable[str]) -> None:
        """These pods of a job, which are gone, are accounted for, or don't matter."""
        kept = self._departed.get(metadata(job)["uid"], {})
        for uid in uids:
            kept.pop(uid, None)
        if not kept:
            self._departed.pop(metadata(job)["uid"], None)

    def replace(
        self, kind: str, namespace: str | None, manifests: tuple[Manifest, ...], version: str
    ) -> Changes:
        """Take in a whole listing (of one namespace, or of all): the jobs whose objects it changed.

        What the listing lacks is gone, unless it is newer than the listing.
        """
        limit = int(version) if version.isdigit() else None
        last = self._listed.get((kind, namespace), 0)
        floor = last if limit is not None and limit < last else 0
        newer = {key_of(manifest) for manifest in manifests if self._take(manifest, floor)}
        gone: set[Key | None] = set()
        listed = {_name(manifest) for manifest in manifests}
        for name in [n for n in self._objects if n[0] == kind and namespace in (None, n[1])]:
            known = self._objects[name]
            age = version_of(known)
            if name in listed or (limit is not None and age is not None and age > limit):
                continue
            self.remove(known)
            gone.add(key_of(known))
        # Not the newest: versions go back where the API server's store is restored.
        self._listed[kind, namespace] = limit or 0
        return Changes(_known(newer), _known(gone))

    def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """The object of that name, whoever owns it."""
        return self._objects.get((kind, namespace, name))

    def jobs(self) -> Iterator[tuple[Key, Manifest]]:
        """All jobs."""
        yield from list(self._jobs.items())

    def pods(self, job: Manifest) -> Iterator[Manifest]:
        """The pods of a job, by name."""
        return self._of(job, "Pod")

    def observe(self, key: Key) -> tuple[Manifest, Observed] | None:
        """A job and all that is known of it; None where there is no such job."""
        job = self._jobs.get(key)
        if job is None:
            return None
        claim = claim_name(job)
        return job, Observed(
            pods=tuple(self._of(job, "Pod")),
            departed=tuple(self._departed.get(metadata(job)["uid"], {}).values()),
            config_maps=tuple(self._of(job, "ConfigMap")),
            service=self.get("Service", key.namespace, f"{key.name}-coordinator"),
            claim=self.get("PersistentVolumeClaim", key.namespace, claim),
            claim_users=tuple(
                other.name
                for other, manifest in self.jobs()
                if other.namespace == key.namespace
                and claim_name(manifest) == claim
                and goes_before(manifest, job)
            ),
            progress=self.progress(key, job),
        )

    def progress(self, key: Key, job: Manifest) -> Progress | None:
        """The last answer of the job's coordinator; of this job, not of a predecessor of its name."""
        uid, progress = self._progress.get(key, ("", None))
        return progress if uid == metadata(job)["uid"] else None

    def put_progress(self, key: Key, job_uid: str, progress: Progress | None) -> None:
        """Take in an answer of the coordinator, or that there is none any more."""
        if progress is None:
            self._progress.pop(key, None)
        else:
            self._progress[key] = (job_uid, progress)

    def count_phases(self) -> Mapping[str, int]:
        """Number of jobs by phase."""
        counts: defaultdict[str, int] = defaultdict(int)
        for _, job in self.jobs():
            counts[_status(job).get("phase") or "Pending"] += 1
        return counts

    def _of(self, job: Manifest, kind: str) -> Iterator[Manifest]:
        namespace = metadata(job)["namespace"]
        for name in sorted(self._owned.get(metadata(job)["uid"], ())):
            if name[0] == kind and name[1] == namespace:
                yield self._objects[name]

    def _note_gone(self, known: Manifest, last: Manifest) -> None:
        """A job takes its departed pods along; a pod is kept where its job is there.

        Of a job that is not trusted yet it may have been counted long ago.
        """
        uid, owner = metadata(known).get("uid", ""), _owner(known)
        if known["kind"] == JOB:
            self.distrust(known)
        if owner not in self._trusted:
            return
        key = key_of(known)
        job = None if key is None or known["kind"] != "Pod" else self._jobs.get(key)
        if job is not None and metadata(job)["uid"] == owner:
            self._departed[owner][uid] = known if _ended_by_itself(known) else without_ballast(last)

    def _drop(self, name: Name) -> None:
        owner = _owner(self._objects.pop(name))
        if name[0] == JOB:
            del self._jobs[Key(*name[1:])]
        self._owned[owner].discard(name)
        if not self._owned[owner]:
            del self._owned[owner]


def _is_listed(manifest: Manifest) -> bool:
    """Whether listings, which select by a label, would show it."""
    selector = WATCHED.get(manifest["kind"])
    name, _, value = (selector or "").partition("=")
    return selector is not None and (not name or labels(manifest).get(name) == value)


def _ended_by_itself(pod: Manifest) -> bool:
    return _status(pod).get("phase") in ENDED_PHASES and "deletionTimestamp" not in metadata(pod)


def _status(manifest: Manifest) -> Mapping[str, Any]:
    return manifest.get("status") or {}


def _known(keys: set[Key | None]) -> frozenset[Key]:
    return frozenset(key for key in keys if key is not None)


def _name(manifest: Manifest) -> Name:
    meta = metadata(manifest)
    return manifest["kind"], meta["namespace"], meta["name"]


def _owner(manifest: Manifest) -> str:
    return labels(manifest).get(JOB_UID_LABEL, "")
