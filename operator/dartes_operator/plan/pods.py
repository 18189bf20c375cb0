"""Reads pods as the API server gives them. It says what is so, and judges nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dartes_operator.plan.times import parse_time
from dartes_operator.plan.types import Manifest
from dartes_operator.resources.identity import (
    AUTHORITY_ANNOTATION,
    ROLE_LABEL,
    TEMPLATE_HASH_ANNOTATION,
    WORKER_INDEX_LABEL,
    Role,
)

MARK_LENGTH = 13
ENDED_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Pod:
    """One pod of the job."""

    manifest: Manifest
    role: Role
    name: str
    uid: str
    index: int
    phase: str
    deletion_time: datetime | None
    created: datetime | None
    authority: str | None
    template_hash: str | None
    container: Mapping[str, Any]
    departed: bool = False

    @property
    def mark(self) -> str:
        """The beginning of its uid: enough to tell the pods of one job apart, and short enough for status."""
        return self.uid[:MARK_LENGTH]

    @property
    def status(self) -> Mapping[str, Any]:
        """The pod's own status."""
        found: Mapping[str, Any] = self.manifest.get("status") or {}
        return found

    @property
    def terminating(self) -> bool:
        """Somebody has asked for its deletion, or it is gone already."""
        return self.deletion_time is not None or self.departed

    @property
    def terminated(self) -> Mapping[str, Any] | None:
        """How its container ended, where it has."""
        state = self.container.get("state") or {}
        found: Mapping[str, Any] | None = state.get("terminated")
        return found

    @property
    def waiting(self) -> Mapping[str, Any]:
        """Why its container waits, empty where it doesn't."""
        state = self.container.get("state") or {}
        found: Mapping[str, Any] = state.get("waiting") or {}
        return found

    @property
    def ended(self) -> bool:
        """Its container has run for the last time."""
        return self.phase in ENDED_PHASES or self.terminated is not None

    @property
    def alive(self) -> bool:
        """It holds resources of a node, or will: it hasn't ended as a whole."""
        return self.phase not in ENDED_PHASES

    @property
    def live(self) -> bool:
        """It works or will work: neither ended nor leaving."""
        return not self.ended and not self.terminating

    @property
    def ready(self) -> bool:
        """It says that it is ready, and isn't leaving."""
        return self.live and self.condition("Ready").get("status") == "True"

    @property
    def gated(self) -> bool:
        """A queue holds it back."""
        return bool((self.manifest.get("spec") or {}).get("schedulingGates"))

    @property
    def scheduled(self) -> bool:
        """It has a node."""
        return bool((self.manifest.get("spec") or {}).get("nodeName"))

    def condition(self, kind: str) -> Mapping[str, Any]:
        """The pod's condition of a type, empty where there is none."""
        for entry in self.status.get("conditions") or ():
            if entry.get("type") == kind:
                found: Mapping[str, Any] = entry
                return found
        return {}


def read_pod(manifest: Manifest, *, departed: bool = False) -> Pod | None:
    """Read one pod, or what was last seen of one that is gone; None where its role is none of ours."""
    meta = manifest["metadata"]
    labels = meta.get("labels") or {}
    annotations = meta.get("annotations") or {}
    if labels.get(ROLE_LABEL) not in set(Role):
        return None
    role = Role(labels[ROLE_LABEL])
    index = labels.get(WORKER_INDEX_LABEL, "")
    status = manifest.get("status") or {}
    containers = [entry for entry in status.get("containerStatuses") or () if entry.get("name") == role.value]
    return Pod(
        manifest=manifest,
        role=role,
        name=meta["name"],
        uid=meta["uid"],
        index=int(index) if index.isdigit() else -1,
        phase=status.get("phase", "Pending"),
        deletion_time=parse_time(meta.get("deletionTimestamp")),
        created=parse_time(meta.get("creationTimestamp")),
        authority=annotations.get(AUTHORITY_ANNOTATION),
        template_hash=annotations.get(TEMPLATE_HASH_ANNOTATION),
        container=containers[0] if containers else {},
        departed=departed,
    )


def read_pods(manifests: Sequence[Manifest], *, departed: bool = False) -> tuple[Pod, ...]:
    """Read all pods of the job, by index and then by name."""
    found = [pod for manifest in manifests if (pod := read_pod(manifest, departed=departed)) is not None]
    return tuple(sorted(found, key=lambda pod: (pod.role.value, pod.index, pod.name)))
