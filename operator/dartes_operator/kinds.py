"""The kinds of object that the operator touches: their API paths, and what their metadata tells.

Pure: manifests in, names and paths out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dartes_operator.plan.types import Manifest

JOB = "DartESJob"
GROUP = "dartes.dev"
VERSION = "v1alpha1"
MANAGED_BY = "app.kubernetes.io/managed-by=dartes-operator"
JOB_NAME_LABEL = "dartes.dev/job-name"
JOB_UID_LABEL = "dartes.dev/job-uid"
AUTHORITY = "dartes.dev/authority"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class Key(NamedTuple):
    """Namespace and name of a job."""

    namespace: str
    name: str


@dataclass(frozen=True)
class Resource:
    """Where the API server keeps a kind."""

    api_version: str
    plural: str

    @property
    def prefix(self) -> str:
        """`/api/v1` or `/apis/group/version`."""
        return f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"


RESOURCES: Mapping[str, Resource] = {
    JOB: Resource(f"{GROUP}/{VERSION}", "dartesjobs"),
    "Pod": Resource("v1", "pods"),
    "Service": Resource("v1", "services"),
    "ConfigMap": Resource("v1", "configmaps"),
    "Secret": Resource("v1", "secrets"),
    "PersistentVolumeClaim": Resource("v1", "persistentvolumeclaims"),
    "NetworkPolicy": Resource("networking.k8s.io/v1", "networkpolicies"),
    "PodDisruptionBudget": Resource("policy/v1", "poddisruptionbudgets"),
    "Event": Resource("v1", "events"),
}

# What is watched, with the label selector that keeps other people's objects out of the stream.
WATCHED: Mapping[str, str] = {
    JOB: "",
    "Pod": MANAGED_BY,
    "Service": MANAGED_BY,
    "ConfigMap": MANAGED_BY,
    "PersistentVolumeClaim": MANAGED_BY,
}


def path(kind: str, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
    """The API path of a collection (no name), an object or its subresource.

    Raises ValueError for a namespace or name that no object can have, since it might lead elsewhere.
    """
    for what, given in (("namespace", namespace), ("name", name)):
        if given is not None and not is_object_name(given):
            raise ValueError(
                f"{kind}: the {what} {given!r} is not one of an object; allowed are lower-case letters, "
                "digits, '-' and '.', at the ends letters and digits"
            )
    resource = RESOURCES[kind]
    parts = [resource.prefix]
    if namespace is not None:
        parts += ["namespaces", namespace]
    parts.append(resource.plural)
    if name is not None:
        parts.append(name)
    if subresource is not None:
        parts.append(subresource)
    return "/".join(parts)


def is_object_name(text: str) -> bool:
    """Whether an object can have this name (DNS-1123 subdomain); no other may stand in a path."""
    return len(text) <= 253 and _NAME.fullmatch(text) is not None


def metadata(manifest: Manifest) -> Mapping[str, Any]:
    """The metadata, empty where there is none."""
    found: Mapping[str, Any] = manifest.get("metadata") or {}
    return found


def labels(manifest: Manifest) -> Mapping[str, str]:
    """The labels, empty where there are none."""
    found: Mapping[str, str] = metadata(manifest).get("labels") or {}
    return found


def key_of(manifest: Manifest) -> Key | None:
    """The job that an object belongs to: itself, or the one its label names; None for a stranger."""
    meta = metadata(manifest)
    if manifest.get("kind") == JOB:
        return Key(meta["namespace"], meta["name"])
    owner = labels(manifest).get(JOB_NAME_LABEL)
    return Key(meta["namespace"], owner) if owner else None


def is_ours(manifest: Manifest, job_uid: str) -> bool:
    """Whether the job of this uid controls the object; a volume claim has only its label."""
    for owner in metadata(manifest).get("ownerReferences") or ():
        if owner.get("controller"):
            return bool(owner.get("uid") == job_uid)
    return manifest.get("kind") == "PersistentVolumeClaim" and labels(manifest).get(JOB_UID_LABEL) == job_uid


def claim_name(job: Manifest) -> str:
    """The volume claim that a job's state is on: named by its spec, or made under its own name."""
    checkpoint = (job.get("spec") or {}).get("checkpoint") or {}
    resume = checkpoint.get("resumeFrom") or {}
    named = (checkpoint.get("volume") or {}).get("claimName") or resume.get("claimName")
    name = resume.get("jobName") or metadata(job)["name"]
    return named or f"{name}-checkpoint"


def is_finished(job: Manifest) -> bool:
    """Whether a terminal condition stands."""
    return any(
        condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
        for condition in (job.get("status") or {}).get("conditions") or ()
    )


def goes_before(other: Manifest, job: Manifest) -> bool:
    """Whether another live job has the older right to a volume: it has started, else was created earlier."""
    if is_finished(other) or metadata(other).get("deletionTimestamp"):
        return False
    return _rank(other) < _rank(job)


def _rank(job: Manifest) -> tuple[bool, str, str]:
    started = bool((job.get("status") or {}).get("startTime"))
    return not started, str(metadata(job).get("creationTimestamp") or ""), metadata(job)["name"]


def version_of(manifest: Manifest) -> int | None:
    """The resource version as a number, which the API server declares to be ordered; None where it is not."""
    text = str(metadata(manifest).get("resourceVersion") or "")
    return int(text) if text.isdigit() else None
