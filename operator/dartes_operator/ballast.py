"""What is kept of an object: what is read again. There may be thousands of pods."""

import sys
from collections.abc import Mapping
from typing import Any

from dartes_operator.plan.types import Manifest

# The containers of a pod's spec above all are most of it.
_KEPT_OF_POD_SPEC = ("nodeName", "schedulingGates", "volumes")
_KEPT_OF_POD_STATUS = ("phase", "reason", "message", "podIP", "startTime", "conditions", "containerStatuses")
_KEPT_OF_CONTAINER = ("name", "state")


def without_ballast(manifest: Manifest) -> Manifest:
    """A manifest without what nobody reads again: who set which field, and most of a pod."""
    kept = dict(manifest)
    meta = kept.get("metadata") or {}
    if "managedFields" in meta:
        kept["metadata"] = {name: value for name, value in meta.items() if name != "managedFields"}
    if kept.get("kind") != "Pod":
        return kept
    status = _some(kept.get("status") or {}, _KEPT_OF_POD_STATUS)
    if "containerStatuses" in status:
        status["containerStatuses"] = [
            _some(entry, _KEPT_OF_CONTAINER) for entry in status["containerStatuses"]
        ]
    kept |= {"spec": _some(kept.get("spec") or {}, _KEPT_OF_POD_SPEC), "status": status}
    shared: Manifest = _shared(kept)
    return shared


def _some(part: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: part[name] for name in names if name in part}


def _shared(value: Any) -> Any:
    """The same, with strings of which there is one for all pods; each pod is read with strings of its own."""
    if isinstance(value, dict):
        return {sys.intern(name): _shared(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_shared(part) for part in value]
    return sys.intern(value) if type(value) is str else value
