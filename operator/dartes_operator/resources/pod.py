"""The parts that all training pods share: security, files, environment, placement, probes.

What a role runs and mounts is said by its own builder. A template has no name, no index, no hash and no mark
of an authority; `instance` puts them in when a pod is made from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dartes.spec.roles import PodPlacement
from dartes_operator.resources.identity import (
    AUTHORITY_ANNOTATION,
    ROLE_LABEL,
    RUN_ID_LABEL,
    TEMPLATE_HASH_ANNOTATION,
    WORKER_INDEX_LABEL,
    JobIdentity,
    Role,
)
from dartes_operator.resources.ports import HTTP_PORT

USER: Final = 65532
RUN_PATH: Final = "/etc/dartes/run"
TLS_PATH: Final = "/etc/dartes/tls"
JOB_FILE: Final = f"{RUN_PATH}/job.yaml"
STATE_PATH: Final = "/var/lib/dartes"
RUN_DIR: Final = f"{STATE_PATH}/run"
RUN_VOLUME: Final = "run"

# Long enough for a node that restarts its kubelet, short enough that a lost one is soon replaced.
AWAY_SECONDS: Final = 30
_AWAY_KEYS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True)
class Mount:
    """A volume and where it appears in the role's container."""

    name: str
    path: str
    source: Mapping[str, Any]
    read_only: bool = False
    sub_path: str = ""


@dataclass(frozen=True)
class PodParts:
    """What a role's builder says about its pod."""

    role: Role
    image: str
    command: tuple[str, ...]
    grace_seconds: int
    mounts: tuple[Mount, ...]
    requests: Mapping[str, str]
    env: tuple[Mapping[str, Any], ...] = ()
    env_from: tuple[Mapping[str, Any], ...] = ()
    ports: Mapping[str, int] = field(default_factory=dict)
    probes: Mapping[str, Any] = field(default_factory=dict)
    extended: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    threads: int = 1
    priority_class_name: str | None = None
    runtime_class_name: str | None = None


@dataclass(frozen=True)
class PodDefaults:
    """What the operator's configuration gives every pod."""

    pull_policy: str
    pull_secrets: tuple[str, ...]
    tolerations: tuple[Mapping[str, Any], ...]
    node_selector: Mapping[str, str]


def pod(job: JobIdentity, parts: PodParts, given: PodPlacement, defaults: PodDefaults) -> dict[str, Any]:
    """The pod of a role without the user's `podTemplate`; no name yet."""
    meta = job.metadata("", parts.role.value)
    del meta["name"]
    meta["labels"] = {
        **given.labels,
        **meta["labels"],
        ROLE_LABEL: parts.role.value,
        RUN_ID_LABEL: job.run_id,
        **parts.labels,
    }
    annotations = {**parts.annotations, **given.annotations}
    if annotations:
        meta["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": _spec(job, parts, given, defaults)}


def _spec(job: JobIdentity, parts: PodParts, given: PodPlacement, defaults: PodDefaults) -> dict[str, Any]:
    pull_secrets: list[dict[str, Any]] = [{"name": name} for name in defaults.pull_secrets]
    pull_secrets += [dict(entry) for entry in given.image_pull_secrets]
    optional: dict[str, Any] = {
        "nodeSelector": {**defaults.node_selector, **given.node_selector},
        "affinity": dict(given.affinity),
        "topologySpreadConstraints": [dict(entry) for entry in given.topology_spread_constraints],
        "schedulerName": given.scheduler_name,
        "serviceAccountName": given.service_account_name,
        "imagePullSecrets": pull_secrets,
        "priorityClassName": parts.priority_class_name,
        "runtimeClassName": parts.runtime_class_name,
    }
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": parts.grace_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            # Not at every start: a volume may hold many files.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": _tolerations((*given.tolerations, *defaults.tolerations, *parts.tolerations)),
        **{key: value for key, value in optional.items() if value},
        "containers": [_container(job, parts, given, defaults.pull_policy)],
        "volumes": [
            *({"name": mount.name, **mount.source} for mount in parts.mounts),
            *(dict(volume) for volume in given.volumes),
        ],
    }


def _container(job: JobIdentity, parts: PodParts, given: PodPlacement, pull_policy: str) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": parts.role.value,
        "image": parts.image,
        "imagePullPolicy": pull_policy,
        "command": list(parts.command),
        "env": [*_environment(job, parts.threads), *parts.env, *(dict(entry) for entry in given.env)],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": _resources(parts, given),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *(_volume_mount(mount) for mount in parts.mounts),
            *(dict(mount) for mount in given.volume_mounts),
        ],
        **parts.probes,
    }
    env_from = [*(dict(entry) for entry in parts.env_from), *(dict(entry) for entry in given.env_from)]
    if env_from:
        container["envFrom"] = env_from
    if parts.ports:
        container["ports"] = [
            {"name": name, "containerPort": port, "protocol": "TCP"} for name, port in parts.ports.items()
        ]
    return container


def _volume_mount(mount: Mount) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": mount.name, "mountPath": mount.path}
    if mount.read_only:
        entry["readOnly"] = True
    if mount.sub_path:
        entry["subPath"] = mount.sub_path
    return entry


def _environment(job: JobIdentity, threads: int) -> list[dict[str, Any]]:
    return [
        env("DARTES_JOB", job.name),
        env("DARTES_NAMESPACE", job.namespace),
        {"name": "DARTES_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        env("DARTES_LOG_FORMAT", "json"),
        env("DARTES_TERMINATION_LOG", "/dev/termination-log"),
        env("OMP_NUM_THREADS", str(threads)),
        env("MKL_NUM_THREADS", str(threads)),
        env("NUMBA_NUM_THREADS", str(threads)),
        env("TOKENIZERS_PARALLELISM", "false"),
    ]


def env(name: str, value: str) -> dict[str, Any]:
    """One environment variable."""
    return {"name": name, "value": value}


def secret_env(name: str, secret: str, key: str) -> dict[str, Any]:
    """One environment variable from a key of a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _resources(parts: PodParts, given: PodPlacement) -> dict[str, Any]:
    """The user's resources; a default request only where the user says nothing of that resource at all.

    Where only a limit is given, Kubernetes takes it as the request; a default of ours could be above it.
    """
    limits: dict[str, Any] = {key: _quantity(value) for key, value in given.resources.limits.items()}
    requests: dict[str, Any] = {
        **{key: value for key, value in parts.requests.items() if key not in limits},
        **{key: _quantity(value) for key, value in given.resources.requests.items()},
    }
    for key, count in parts.extended.items():
        limits[key] = requests[key] = str(count)
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def _quantity(value: int | str) -> str:
    return str(value)


def _tolerations(wanted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is asked for, without doubles, and 30 s of an unreachable node unless something else is asked."""
    tolerations: list[dict[str, Any]] = []
    for entry in wanted:
        if dict(entry) not in tolerations:
            tolerations.append(dict(entry))
    for key in _AWAY_KEYS:
        if not any(entry.get("key") == key for entry in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": AWAY_SECONDS}
            )
    return tolerations


def run_mount() -> Mount:
    """The job file of the run; the ConfigMap's name is put in with the hash."""
    items = [{"key": "job.yaml", "path": "job.yaml"}]
    return Mount(RUN_VOLUME, RUN_PATH, {"configMap": {"name": "", "items": items}}, read_only=True)


def tls_mount(job: JobIdentity, role: Role) -> Mount:
    """The role's certificate, readable by the pod's group."""
    source = {"secret": {"secretName": job.tls_secret(role), "defaultMode": 0o440}}
    return Mount("tls", TLS_PATH, source, read_only=True)


def empty_dir(name: str, path: str, **settings: str) -> Mount:
    """A folder that lives and dies with the pod."""
    return Mount(name, path, {"emptyDir": dict(settings)})


def http_get(path: str, **settings: int) -> dict[str, Any]:
    """A probe of the pod's HTTP port."""
    return {"httpGet": {"path": path, "port": HTTP_PORT, "scheme": "HTTP"}, **settings}


def instance(
    template: Mapping[str, Any],
    *,
    name: str,
    config_map: str,
    template_hash: str,
    authority: str | None,
    worker_index: int | None = None,
) -> dict[str, Any]:
    """A pod made from a template: with its name, its run and, where known, the mark of its authority."""
    meta = dict(template["metadata"])
    meta["name"] = name
    labels = dict(meta["labels"])
    if worker_index is not None:
        labels[WORKER_INDEX_LABEL] = str(worker_index)
    annotations = {**meta.get("annotations", {}), TEMPLATE_HASH_ANNOTATION: template_hash}
    if authority is not None:
        annotations[AUTHORITY_ANNOTATION] = authority
    spec = dict(template["spec"])
    spec["volumes"] = [
        {**volume, "configMap": {**volume["configMap"], "name": config_map}}
        if volume["name"] == RUN_VOLUME
        else volume
        for volume in spec["volumes"]
    ]
    return {**template, "metadata": {**meta, "labels": labels, "annotations": annotations}, "spec": spec}
