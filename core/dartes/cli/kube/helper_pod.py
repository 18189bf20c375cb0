"""The manifests of the short-lived pods of `kubectl dartes export`, made from those of the job's own pods.

Pure. They pass PodSecurity `restricted` as the job's pods do, end by themselves, and do nothing until asked.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any, Final

from dartes.cli.kube.names import (
    API_VERSION,
    JOB_NAME,
    KIND,
    MANAGED_BY,
    PLUGIN,
    READER,
    ROLE,
    VOLUME_MOUNT,
)
from dartes.cli.kube.objects import Manifest, at
from dartes.errors import ConfigurationError

READER_SECONDS: Final = 600
BUILDER_SECONDS: Final = 4 * 3600
"""How long they may live at most, whatever becomes of the command that made them."""

WORK_MOUNT: Final = "/var/lib/dartes-export"

_KEPT: Final = (
    "securityContext",
    "imagePullSecrets",
    "nodeSelector",
    "tolerations",
    "affinity",
    "schedulerName",
    "runtimeClassName",
    "serviceAccountName",
)
_READER_RESOURCES: Final = {
    "requests": {"cpu": "100m", "memory": "256Mi"},
    "limits": {"cpu": "1", "memory": "512Mi"},
}
_BUILDER_RESOURCES: Final = {
    "requests": {"cpu": "500m", "memory": "1Gi"},
    "limits": {"cpu": "4", "memory": "4Gi"},
}


def reader_pod(job: Manifest, template: Manifest, name: str, claim: str) -> dict[str, Any]:
    """A pod that can read the job's volume; `template` is the coordinator's pod or its pinned manifest."""
    pod = _pod(job, template, name, READER_SECONDS, _READER_RESOURCES)
    pod["spec"]["volumes"] = [
        {"name": "checkpoint", "persistentVolumeClaim": {"claimName": claim}},
        {"name": "tmp", "emptyDir": {}},
    ]
    pod["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "checkpoint", "mountPath": VOLUME_MOUNT, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    return pod


def builder_pod(job: Manifest, template: Manifest, name: str) -> dict[str, Any]:
    """A pod that can rebuild the model; `template` is the pinned manifest of the export pod or of a worker.

    It has the worker's caches, claims and hub token, but no GPU, no certificates and not the job's volume.
    """
    pod = _pod(job, template, name, BUILDER_SECONDS, _BUILDER_RESOURCES)
    container = at(template, "spec", "containers", 0) or {}
    volumes = {v["name"]: v for v in at(template, "spec", "volumes") or [] if _wanted(v)}
    mounts = [
        mount
        for mount in container.get("volumeMounts") or []
        if mount.get("name") in volumes and mount.get("mountPath") != VOLUME_MOUNT
    ]
    used = {mount["name"] for mount in mounts}
    pod["spec"]["volumes"] = [copy.deepcopy(v) for key, v in volumes.items() if key in used]
    pod["spec"]["volumes"].append({"name": "dartes-export-work", "emptyDir": {}})
    made = pod["spec"]["containers"][0]
    made["volumeMounts"] = copy.deepcopy(mounts)
    made["volumeMounts"].append({"name": "dartes-export-work", "mountPath": WORK_MOUNT})
    made["env"] = [entry for entry in made["env"] if entry.get("name") != "DARTES_LOG_FORMAT"]
    return pod


def pinned(run: Manifest | None, *roles: str) -> Manifest | None:
    """The pinned pod manifest of the first of these roles in a run ConfigMap; None where there is none."""
    try:
        manifests = json.loads(str(at(run, "data", "pods.json")))
    except ValueError:
        return None
    for role in roles:
        found = at(manifests, role)
        if isinstance(found, Mapping):
            return found
    return None


def claim_of(job: Manifest) -> str:
    """The claim that holds a job's state."""
    named = at(job, "status", "checkpoint", "claimName") or at(
        job, "spec", "checkpoint", "volume", "claimName"
    )
    return str(named or default_claim(str(at(job, "metadata", "name"))))


def default_claim(name: str) -> str:
    """The claim that is made for a job that names none."""
    return f"{name}-checkpoint"


def _pod(job: Manifest, template: Manifest, name: str, seconds: int, resources: Manifest) -> dict[str, Any]:
    container = at(template, "spec", "containers", 0)
    if not isinstance(container, Mapping) or not container.get("image"):
        raise ConfigurationError("the pinned pod of this job has no image; is it a job of this version?")
    made: dict[str, Any] = {
        "name": READER,
        "image": container["image"],
        "command": ["python", "-c", f"import time; time.sleep({seconds})"],
        "resources": copy.deepcopy(dict(resources)),
        "securityContext": copy.deepcopy(container.get("securityContext") or _RESTRICTED),
        "env": _environment(container),
    }
    if container.get("imagePullPolicy"):
        made["imagePullPolicy"] = container["imagePullPolicy"]
    spec: dict[str, Any] = {
        key: copy.deepcopy(at(template, "spec", key)) for key in _KEPT if at(template, "spec", key)
    }
    spec |= {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": seconds,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [made],
    }
    spec.setdefault("securityContext", _RESTRICTED_POD)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/name": "dartes",
                "app.kubernetes.io/instance": at(job, "metadata", "name"),
                "app.kubernetes.io/component": READER,
                MANAGED_BY: PLUGIN,
                JOB_NAME: at(job, "metadata", "name"),
                ROLE: READER,
            },
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": KIND,
                    "name": at(job, "metadata", "name"),
                    "uid": at(job, "metadata", "uid"),
                }
            ],
        },
        "spec": spec,
    }


def _environment(container: Manifest) -> list[dict[str, Any]]:
    """What the programs need to know of caches and tokens; nothing that refers to a part of the other pod."""
    kept = []
    for entry in container.get("env") or []:
        if entry.get("name") == "DARTES_TERMINATION_LOG" or at(entry, "valueFrom", "resourceFieldRef"):
            continue
        kept.append(copy.deepcopy(dict(entry)))
    return kept


def _wanted(volume: Manifest) -> bool:
    """Caches, model and scratch volumes; not certificates, the run's ConfigMap or the job's own volume."""
    kinds = ("emptyDir", "persistentVolumeClaim", "image", "csi", "ephemeral")
    return isinstance(volume, Mapping) and bool(volume.get("name")) and any(kind in volume for kind in kinds)


_RESTRICTED: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_RESTRICTED_POD: Final = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "fsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
