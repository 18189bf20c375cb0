"""Merges a user's pod template under a pod that dartes rendered: what dartes set wins, the rest is added.

It decides nothing about what may be asked for; that is the guard's, and it has been asked before.
"""

from collections.abc import Mapping, Sequence
from typing import Any

# Lists whose entries have a key, as the API server itself merges them.
_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
}
# What PodSecurity `restricted` asks of every container, also of those that a template adds.
_CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def merge_under(pod: Mapping[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    """The pod with what the template adds; every value that the pod has stays."""
    meta = template.get("metadata") or {}
    given = {
        "metadata": {key: meta[key] for key in ("labels", "annotations") if meta.get(key)},
        "spec": {key: _confined(key, value) for key, value in (template.get("spec") or {}).items()},
    }
    merged: dict[str, Any] = _merge(pod, given)
    return merged


def _confined(key: str, value: Any) -> Any:
    if key not in ("containers", "initContainers"):
        return value
    return [
        {**container, "securityContext": {**(container.get("securityContext") or {}), **_CONFINED}}
        for container in value
    ]


def _merge(ours: Any, theirs: Any, name: str = "") -> Any:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return {
            **{key: value for key, value in theirs.items() if key not in ours and value is not None},
            **{key: _merge(value, theirs.get(key), key) for key, value in ours.items()},
        }
    if isinstance(ours, list) and isinstance(theirs, Sequence) and not isinstance(theirs, str):
        return _merge_lists(ours, theirs, _KEYS.get(name))
    return ours


def _merge_lists(ours: Sequence[Any], theirs: Sequence[Any], key: str | None) -> list[Any]:
    if key is None:
        return [*ours, *(entry for entry in theirs if entry not in ours)]
    others = {entry[key]: entry for entry in theirs if isinstance(entry, Mapping) and key in entry}
    own = {entry[key] for entry in ours if key in entry}
    return [
        *(_merge(entry, others.get(entry.get(key))) for entry in ours),
        *(entry for entry in theirs if not isinstance(entry, Mapping) or entry.get(key) not in own),
    ]
