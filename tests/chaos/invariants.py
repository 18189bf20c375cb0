"""What must hold of a job's history, its end and the objects around it; each function gives what is wrong.

Pure: values in, sentences out. What must hold of single pods and of the budgets is in `pods` and `budgets`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]

JOB_NAME, JOB_UID, ROLE = "dartes.dev/job-name", "dartes.dev/job-uid", "dartes.dev/role"
ORPHAN_SECONDS = 90.0
"""So long an object may outlive its job: the garbage collector and the pods' grace need time."""

EXPECTED_KINDS = {
    "Service": 1,
    "Secret": 3,
    "ConfigMap": 1,
    "NetworkPolicy": 2,
    "PersistentVolumeClaim": 1,
}
"""What a running job has of each kind, besides its pods."""


@dataclass(frozen=True)
class Truth:
    """What an undisturbed run of a job comes out as."""

    rows: Sequence[str]
    journal_hash: str
    weight_digest: str


def wrong_history(name: str, rows: Sequence[str], truth: Truth, known: int) -> list[str]:
    """Each committed row must be the undisturbed run's, and no more than `known` rows may be lost."""
    found = list(rows)
    if found != list(truth.rows[: len(found)]):
        place = next(
            (i for i, (a, b) in enumerate(zip(found, truth.rows, strict=False)) if a != b), len(truth.rows)
        )
        return [f"{name}: row {place} of {len(found)} is not that of an undisturbed run"]
    if len(found) < known:
        return [f"{name}: {known} iterations were committed, and {len(found)} are left"]
    return []


def wrong_end(name: str, status: Mapping[str, Any], truth: Truth) -> list[str]:
    """A complete job must have all iterations, the journal and the weights of an undisturbed run."""
    checkpoint = status.get("checkpoint") or {}
    wanted = {
        "lastIteration": len(truth.rows),
        "journalHash": truth.journal_hash,
        "digest": truth.weight_digest,
    }
    wrong = {
        key: (checkpoint.get(key), value) for key, value in wanted.items() if checkpoint.get(key) != value
    }
    found = [
        f"{name}: {key} is {got!r} at the end, and {value!r} undisturbed"
        for key, (got, value) in wrong.items()
    ]
    if status.get("phase") != "Succeeded":
        found.append(f"{name}: the phase of a complete job is {status.get('phase')!r}")
    return found


def wrong_inventory(job: Object, objects: Iterable[Object], workers: int) -> list[str]:
    """A job at rest has exactly its objects, each owned by it, and each pod that it wants once."""
    meta = job["metadata"]
    own = [each for each in objects if (each["metadata"].get("labels") or {}).get(JOB_UID) == meta["uid"]]
    kinds = Counter(str(each["kind"]) for each in own)
    name = f"{meta['namespace']}/{meta['name']}"
    found = [
        f"{name}: {kinds[kind]} objects of kind {kind}, not {count}: {_names(own, kind)}"
        for kind, count in EXPECTED_KINDS.items()
        if kinds[kind] != count
    ]
    for each in own:
        owners = [
            ref["uid"] for ref in each["metadata"].get("ownerReferences") or () if ref.get("controller")
        ]
        if owners != [meta["uid"]]:
            found.append(f"{name}: {each['kind']} {each['metadata']['name']} is not owned by the job")
    pods = [each for each in own if each["kind"] == "Pod"]
    for role, count in (("coordinator", 1), ("worker", workers)):
        live = [pod for pod in pods if pod["metadata"]["labels"].get(ROLE) == role and is_live(pod)]
        kept = [
            pod
            for pod in pods
            if pod["metadata"]["labels"].get(ROLE) == role
            and not is_live(pod)
            and not pod["metadata"].get("deletionTimestamp")
        ]
        if len(live) != count:
            found.append(f"{name}: {len(live)} {role} pods live, not {count}: {_pod_names(live)}")
        if len(kept) > 1:
            found.append(
                f"{name}: {len(kept)} ended {role} pods are kept, not one at most: {_pod_names(kept)}"
            )
    return found


def wrong_operator(pods: Iterable[Object], kills: Mapping[str, int]) -> list[str]:
    """The operator may end only as often as it was killed: a fault outside must not bring it down."""
    found = []
    for pod in pods:
        meta = pod["metadata"]
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            restarts = int(container.get("restartCount", 0))
            if restarts > kills.get(meta["uid"], 0):
                last = (container.get("lastState") or {}).get("terminated") or {}
                found.append(
                    f"the operator ended by itself ({meta['name']}, restart {restarts}): "
                    f"exit code {last.get('exitCode')}, {last.get('reason')}"
                )
    return found


def orphans(
    objects: Iterable[Object], jobs: Collection[str], since: Mapping[str, float], now: float
) -> tuple[list[str], dict[str, float]]:
    """Objects of jobs that are gone, once they have had their time; and since when each was seen as one."""
    seen: dict[str, float] = {}
    found = []
    for each in objects:
        meta = each["metadata"]
        job = (meta.get("labels") or {}).get(JOB_UID)
        if job is None or job in jobs:
            continue
        seen[meta["uid"]] = since.get(meta["uid"], now)
        age = now - seen[meta["uid"]]
        if age > ORPHAN_SECONDS:
            found.append(
                f"orphan: {each['kind']} {meta['namespace']}/{meta['name']} is there {age:.0f} s "
                "after its job"
            )
    return found, seen


def is_live(pod: Object) -> bool:
    """Whether a pod has neither ended nor been told to go."""
    status = pod.get("status") or {}
    ended = any("terminated" in c["state"] for c in status.get("containerStatuses") or ())
    return (
        not pod["metadata"].get("deletionTimestamp")
        and status.get("phase") not in ("Succeeded", "Failed")
        and not ended
    )


def is_ready(pod: Object) -> bool:
    """Whether a pod that lives says that it is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return is_live(pod) and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _names(objects: Iterable[Object], kind: str) -> str:
    return (
        ", ".join(sorted(str(each["metadata"]["name"]) for each in objects if each["kind"] == kind)) or "none"
    )


def _pod_names(pods: Iterable[Object]) -> str:
    return ", ".join(sorted(str(pod["metadata"]["name"]) for pod in pods)) or "none"
