"""The run ConfigMap: what pins a run, rendered once and read back for every pod of that run.

It holds the job file that the pods read, their templates and their images. It is immutable and its name
ends in a hash of what it holds, so that two renderings never share a name.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dartes.spec.dump import dump_job
from dartes.spec.export import ExportSpec
from dartes.spec.job import DartESJob, JobSpec
from dartes.spec.roles import EngineKind, PodPlacement
from dartes_operator.resources.coordinator import coordinator_pod
from dartes_operator.resources.export import export_placement, export_pod
from dartes_operator.resources.guard import ours_of, problems
from dartes_operator.resources.guard_secrets import export_secrets, source_secrets
from dartes_operator.resources.identity import RUN_COMPONENT, JobIdentity, Role
from dartes_operator.resources.merge import merge_under
from dartes_operator.resources.pod import PodDefaults
from dartes_operator.resources.sources import credential_conflicts
from dartes_operator.resources.worker import worker_pod

JOB_KEY: Final = "job.yaml"
PODS_KEY: Final = "pods.json"
IMAGES_KEY: Final = "images.json"
# Enough that nobody finds other data of the same hash: the hash is all that tells a run's ConfigMap apart.
HASH_DIGITS: Final = 32


@dataclass(frozen=True)
class Images:
    """The operator's own images, used where a job names none."""

    coordinator: str
    worker: str
    vllm: str


@dataclass(frozen=True)
class Run:
    """A pinned run: its hash and its three documents."""

    template_hash: str
    job_text: str
    pods: Mapping[str, Any]
    images: Mapping[str, str]

    def template(self, role: Role) -> Mapping[str, Any]:
        """The template of a role's pods."""
        template: Mapping[str, Any] = self.pods[role.value]
        return template


class PodTemplateError(ValueError):
    """What a job asks of its pods is refused; `problems` names each path."""

    def __init__(self, found: tuple[str, ...]) -> None:
        super().__init__("; ".join(found))
        self.problems = found


def render(
    identity: JobIdentity, job: DartESJob, images: Images, defaults: PodDefaults
) -> tuple[Run, dict[str, Any]]:
    """Render a run and its ConfigMap.

    Raises
    ------
    PodTemplateError
        The guard refuses something in the job's pod fields or templates.
    """
    spec = job.spec
    used = images_of(spec, images)
    coordinator = coordinator_pod(identity, spec, used["coordinator"], defaults)
    worker = worker_pod(identity, spec, used["worker"], defaults)
    found = [
        *_checked(coordinator, spec.coordinator, Role.COORDINATOR, "spec.coordinator"),
        *_checked(worker, spec.workers, Role.WORKER, "spec.workers"),
        *source_secrets(spec),
        *credential_conflicts(spec),
    ]
    export = None
    if spec.export is not None:
        export = export_pod(identity, spec, spec.export, used["worker"], defaults)
        # Now and not after the training; but what the worker's check has named is named once.
        named = {_path(problem) for problem in found}
        found += [
            problem for problem in _checked_export(export, spec, spec.export) if _path(problem) not in named
        ]
    if found:
        raise PodTemplateError(tuple(found))
    pods = {
        "coordinator": merge_under(coordinator, spec.coordinator.pod_template),
        "worker": merge_under(worker, spec.workers.pod_template),
    }
    if export is not None:
        pods["export"] = export
    data = {JOB_KEY: dump_job(job), PODS_KEY: _json(pods), IMAGES_KEY: _json(used)}
    template_hash = hash_of(data)
    run = Run(template_hash, data[JOB_KEY], pods, used)
    return run, {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": identity.metadata(identity.run_config(template_hash), RUN_COMPONENT),
        "immutable": True,
        "data": data,
    }


def images_of(spec: JobSpec, images: Images) -> dict[str, str]:
    """The images that a job's pods use; the export pod uses the worker's."""
    worker = images.vllm if spec.workers.engine is EngineKind.VLLM else images.worker
    return {
        "coordinator": spec.coordinator.image or images.coordinator,
        "worker": spec.workers.image or worker,
    }


def read(config_map: Mapping[str, Any]) -> Run | None:
    """The run that a ConfigMap pins; None where it is not one that `render` made."""
    data = config_map.get("data") or {}
    if not {JOB_KEY, PODS_KEY, IMAGES_KEY} <= set(data):
        return None
    template_hash = hash_of(data)
    if not config_map["metadata"]["name"].endswith(f"-run-{template_hash}"):
        return None
    return Run(template_hash, data[JOB_KEY], json.loads(data[PODS_KEY]), json.loads(data[IMAGES_KEY]))


def export_template(
    run: Run, identity: JobIdentity, pinned: JobSpec, export: ExportSpec, defaults: PodDefaults
) -> Mapping[str, Any]:
    """The export pod's template: pinned, or, where `spec.export` changed since, another of the same run.

    Raises
    ------
    PodTemplateError
        The guard refuses what the changed `spec.export` asks for.
    """
    if pinned.export == export and Role.EXPORT.value in run.pods:
        return run.template(Role.EXPORT)
    template = export_pod(identity, pinned, export, run.images["worker"], defaults)
    found = _checked_export(template, pinned, export)
    if found:
        raise PodTemplateError(found)
    return template


def hash_of(data: Mapping[str, str]) -> str:
    """The first 32 hex digits of the SHA-256 of the data as canonical JSON."""
    return hashlib.sha256(_json(data).encode()).hexdigest()[:HASH_DIGITS]


def _checked(pod: Mapping[str, Any], given: PodPlacement, role: Role, path: str) -> tuple[str, ...]:
    return problems(given, ours_of(pod, given, role), path)


def _checked_export(pod: Mapping[str, Any], spec: JobSpec, export: ExportSpec) -> tuple[str, ...]:
    placement = export_placement(spec, export)
    ours = ours_of(pod, placement, Role.EXPORT)
    # Its environment is a part of the workers', which the worker's check has seen whole.
    found = problems(placement.model_copy(update={"env": ()}), ours, "spec.workers")
    return (
        *export_secrets(export),
        *(f"{problem} (the export pod takes this from spec.workers too)" for problem in found),
    )


def _path(problem: str) -> str:
    return problem.partition(": ")[0]


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
