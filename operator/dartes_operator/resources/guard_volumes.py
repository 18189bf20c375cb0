"""The guard's part on volumes: kinds that reach the node or the API server, and what is ours."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final

from dartes_operator.resources.guard_secrets import secret_problems

# What PodSecurity `restricted` lets in, and images (which it lets in too).
_KINDS: Final = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
    *("persistentVolumeClaim", "projected", "secret"),
)
_PROJECTED_CREDENTIALS: Final = ("serviceAccountToken", "podCertificate")
# A user may have files below the pod's scratch folder; everything else of ours is taken whole.
_SHARED_PATHS: Final = ("/tmp",)


def volume_problems(value: Any, ours: Set[str], path: str) -> Iterator[str]:
    """Yield what is refused in a list of volumes; `ours` are names taken."""
    for where, volume in _entries(value, path):
        if volume is None:
            yield where
            continue
        name = volume.get("name")
        if not isinstance(name, str):
            yield f"{where}: a volume has no name"
            continue
        if name in ours:
            yield f"{where}.name: {name!r} is taken; choose another"
        for kind, source in volume.items():
            if kind == "name":
                continue
            if kind not in _KINDS:
                yield f"{where}.{kind}: not allowed; allowed: {', '.join(_KINDS)}"
            elif kind == "secret":
                yield from _named_secret(source, "secretName", f"{where}.secret")
            elif kind == "csi" and isinstance(source, Mapping):
                # The driver is given what is in it.
                given = source.get("nodePublishSecretRef")
                yield from _named_secret(given, "name", f"{where}.csi.nodePublishSecretRef")
            elif kind == "projected":
                yield from _projected_problems(source, f"{where}.projected.sources")


def mount_problems(value: Any, ours: Set[str], paths: Sequence[str], path: str) -> Iterator[str]:
    """Yield what is refused in a list of mounts; `ours` are our volumes, `paths` where ours are mounted."""
    for where, mount in _entries(value, path):
        if mount is None:
            yield where
            continue
        name, at = mount.get("name"), mount.get("mountPath")
        if not isinstance(name, str) or not isinstance(at, str):
            yield f"{where}: a mount needs name and mountPath"
            continue
        if name in ours:
            yield f"{where}.name: {name!r} is a volume of dartes' own; it can't be mounted elsewhere"
        if ".." in at.split("/"):
            yield f"{where}.mountPath: {at} is not allowed; write the path without '..'"
            continue
        taken = next((own for own in paths if _overlap(at, own)), None)
        if taken is not None:
            yield f"{where}.mountPath: {at} would cover or enter {taken}, which is dartes' own"


def _overlap(theirs: str, own: str) -> bool:
    # As the container sees it: from the root, without doubled slashes and single dots.
    theirs = posixpath.normpath("/" + theirs.strip("/"))
    if theirs == own or theirs == "/" or own.startswith(f"{theirs}/"):
        return True
    return own not in _SHARED_PATHS and theirs.startswith(f"{own}/")


def _projected_problems(source: Any, path: str) -> Iterator[str]:
    inner = source.get("sources") if isinstance(source, Mapping) else None
    for where, entry in _entries(inner, path):
        if entry is None:
            yield where
            continue
        for kind in _PROJECTED_CREDENTIALS:
            if kind in entry:
                yield f"{where}.{kind}: not allowed; no training pod holds a credential of the API server"
        if "secret" in entry:
            yield from _named_secret(entry["secret"], "name", f"{where}.secret")


def _named_secret(source: Any, key: str, path: str) -> Iterator[str]:
    if isinstance(source, Mapping):
        yield from secret_problems(source.get(key), f"{path}.{key}")


def _entries(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """Yield (path, entry); where something is no map, the message and None."""
    if value is None:
        return
    if not isinstance(value, Sequence) or isinstance(value, str):
        yield f"{path}: not a list", None
        return
    for position, entry in enumerate(value):
        where = f"{path}[{position}]"
        yield (where, entry) if isinstance(entry, Mapping) else (f"{where}: not a map", None)
