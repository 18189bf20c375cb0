"""Refuses what a job may not ask of its pods, in `podTemplate` and in the fields beside it.

A template goes through the operator's rights, so what the namespace's own rules would refuse a user must be
refused here, and so must everything that is dartes' own. It names each offending path and changes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dartes.spec.roles import PodPlacement
from dartes_operator.resources.guard_secrets import environment_secrets
from dartes_operator.resources.guard_security import (
    annotation_security,
    call_problems,
    container_security,
    pod_security,
    restart_rule_problems,
)
from dartes_operator.resources.guard_volumes import mount_problems, volume_problems
from dartes_operator.resources.identity import QUEUE_LABEL, Role
from dartes_operator.resources.ports import GRPC_PORT, HTTP_PORT

_OUR_PREFIXES: Final = ("dartes.dev/", "app.kubernetes.io/")
_FIXED_POD: Final = {
    "restartPolicy": "the operator itself starts pods again",
    "terminationGracePeriodSeconds": "use spec.workers.scaleDown.drainSeconds",
    "activeDeadlineSeconds": "use spec.activeDeadlineSeconds",
    "nodeName": "it would go round the scheduler; use nodeSelector or affinity",
    "ephemeralContainers": "they are for debugging a pod that runs",
}
_FIXED_CONTAINER: Final = {
    "command": "dartes sets it",
    "args": "dartes sets the command whole",
    "image": "use the field image beside podTemplate",
    "imagePullPolicy": "the operator's configuration sets it",
    "livenessProbe": "dartes sets it",
    "readinessProbe": "dartes sets it",
    "startupProbe": "dartes sets it",
    "restartPolicy": "the operator itself starts pods again",
    "restartPolicyRules": "the operator itself starts pods again",
    "terminationMessagePath": "the operator reads it",
    "terminationMessagePolicy": "the operator reads it",
}
_MAPS: Final = ("metadata", "spec")


@dataclass(frozen=True)
class Ours:
    """What the rendered pod has already, by name."""

    role: Role
    env: frozenset[str]
    volumes: frozenset[str]
    paths: tuple[str, ...]


def ours_of(pod: Mapping[str, Any], given: PodPlacement, role: Role) -> Ours:
    """What is dartes' own in a rendered pod: all of it but what the user's fields put there."""
    container = pod["spec"]["containers"][0]
    # The pod was rendered with the user's entries last; what stands before them is ours.
    env = container["env"][: len(container["env"]) - len(given.env)]
    mounts = container["volumeMounts"][: len(container["volumeMounts"]) - len(given.volume_mounts)]
    volumes = pod["spec"]["volumes"][: len(pod["spec"]["volumes"]) - len(given.volumes)]
    return Ours(
        role=role,
        env=frozenset(entry["name"] for entry in env),
        volumes=frozenset(volume["name"] for volume in volumes),
        paths=tuple(mount["mountPath"] for mount in mounts),
    )


def problems(given: PodPlacement, ours: Ours, path: str) -> tuple[str, ...]:
    """Everything refused, each as `path: why`; `path` is where the role's fields are (spec.workers)."""
    return tuple(_problems(given, ours, path))


def _problems(given: PodPlacement, ours: Ours, path: str) -> Iterator[str]:
    yield from _meta_problems(given.labels, f"{path}.labels")
    yield from _meta_problems(given.annotations, f"{path}.annotations")
    yield from _env_problems(list(given.env), ours, f"{path}.env")
    yield from environment_secrets(list(given.env), list(given.env_from), path)
    yield from volume_problems(list(given.volumes), ours.volumes, f"{path}.volumes")
    yield from mount_problems(list(given.volume_mounts), ours.volumes, ours.paths, f"{path}.volumeMounts")
    if given.pod_template:
        yield from _template_problems(given.pod_template, given, ours, f"{path}.podTemplate")


def _template_problems(
    template: Mapping[str, Any], given: PodPlacement, ours: Ours, path: str
) -> Iterator[str]:
    for key in template:
        if key not in _MAPS:
            yield f"{path}.{key}: not part of a pod template; allowed: metadata and spec"
    shapes = [f"{path}.{key}: not a map" for key in _MAPS if not _is_map(template.get(key))]
    yield from shapes
    if shapes:
        return
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    for key in meta:
        if key not in ("labels", "annotations"):
            yield f"{path}.metadata.{key}: dartes sets it; allowed: labels and annotations"
    for key in ("labels", "annotations"):
        yield from _meta_problems(meta.get(key), f"{path}.metadata.{key}")
    inner = f"{path}.spec"
    for key, why in _FIXED_POD.items():
        if key in spec:
            yield f"{inner}.{key}: not allowed; {why}"
    if spec.get("automountServiceAccountToken"):
        yield f"{inner}.automountServiceAccountToken: not allowed; no training pod holds an API token"
    yield from pod_security(spec, inner)
    named = ours.volumes | {str(volume.get("name")) for volume in given.volumes}
    yield from volume_problems(spec.get("volumes"), named, f"{inner}.volumes")
    yield from _containers(spec.get("containers"), ours, f"{inner}.containers", main=True)
    yield from _containers(spec.get("initContainers"), ours, f"{inner}.initContainers", main=False)


def _containers(value: Any, ours: Ours, path: str, *, main: bool) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Sequence) or isinstance(value, str):
        yield f"{path}: not a list"
        return
    seen: set[str] = set()
    for position, container in enumerate(value):
        where = f"{path}[{position}]"
        name = container.get("name") if isinstance(container, Mapping) else None
        if not isinstance(name, str) or not name:
            yield f"{where}: not a container with a name"
            continue
        if name in seen:
            yield f"{where}.name: {name!r} is given twice"
        seen.add(name)
        if name == ours.role.value and main:
            for key, why in _FIXED_CONTAINER.items():
                if key in container:
                    yield f"{where}.{key}: not allowed; {why}"
            yield from _env_problems(container.get("env"), ours, f"{where}.env")
        elif name in set(Role):
            yield f"{where}.name: {name!r} is a name of dartes' own; choose another"
        else:
            yield from restart_rule_problems(
                container.get("restartPolicyRules"), f"{where}.restartPolicyRules"
            )
        yield from environment_secrets(container.get("env"), container.get("envFrom"), where)
        yield from container_security(container, where)
        yield from call_problems(container, where)
        yield from _port_problems(container.get("ports"), f"{where}.ports")
        own = ours.volumes if name == ours.role.value else ours.volumes - {"cache", "tmp", "shm"}
        paths = ours.paths if name == ours.role.value else ()
        yield from mount_problems(container.get("volumeMounts"), own, paths, f"{where}.volumeMounts")


def _meta_problems(value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield f"{path}: not a map"
        return
    for key, text in value.items():
        if key.startswith(_OUR_PREFIXES):
            yield f"{path}[{key}]: not allowed; {' and '.join(_OUR_PREFIXES)} are dartes' own"
        elif key == QUEUE_LABEL:
            yield f"{path}[{key}]: not allowed; use spec.queueName"
        yield from annotation_security(key, f"{path}[{key}]")
        if not isinstance(text, str):
            yield f"{path}[{key}]: not a text; put it in quotes"


def _env_problems(value: Any, ours: Ours, path: str) -> Iterator[str]:
    entries, wrong = _named_entries(value, path)
    yield from wrong
    seen: set[str] = set()
    for where, entry in entries:
        name = entry["name"]
        if name in ours.env:
            yield f"{where}.name: {name!r} is set by dartes"
        if name in seen:
            yield f"{where}.name: {name!r} is given twice"
        seen.add(name)


def _port_problems(value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Sequence) or isinstance(value, str):
        yield f"{path}: not a list"
        return
    for position, port in enumerate(value):
        number = port.get("containerPort") if isinstance(port, Mapping) else None
        if not isinstance(number, int):
            yield f"{path}[{position}]: not a port with a containerPort"
            continue
        if number in (GRPC_PORT, HTTP_PORT):
            yield f"{path}[{position}].containerPort: {number} is dartes' own; choose another"
        if "hostPort" in port:
            yield f"{path}[{position}].hostPort: not allowed; it opens a port of the node"


def _named_entries(value: Any, path: str) -> tuple[list[tuple[str, Mapping[str, Any]]], list[str]]:
    if value is None:
        return [], []
    if not isinstance(value, Sequence) or isinstance(value, str):
        return [], [f"{path}: not a list"]
    entries, wrong = [], []
    for position, entry in enumerate(value):
        where = f"{path}[{position}]"
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            entries.append((where, entry))
        else:
            wrong.append(f"{where}: not an entry with a name")
    return entries, wrong


def _is_map(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)
