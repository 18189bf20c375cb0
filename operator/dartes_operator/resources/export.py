"""The one-shot pod that writes the trained model out: the worker's image, no GPU, the state read-only.

It is furnished as a worker (it loads the same model) and placed as the coordinator (it needs the same
volume).
"""

from collections.abc import Mapping
from typing import Any, Final

from dartes.spec.export import ExportSpec
from dartes.spec.job import JobSpec
from dartes.spec.roles import WorkersSpec
from dartes.spec.source import Scheme, parse_source
from dartes_operator.resources.cache import cache_env, cache_mounts
from dartes_operator.resources.claim import claim_name
from dartes_operator.resources.claims import claim_mounts
from dartes_operator.resources.identity import JobIdentity, Role
from dartes_operator.resources.pod import (
    JOB_FILE,
    RUN_DIR,
    STATE_PATH,
    Mount,
    PodDefaults,
    PodParts,
    empty_dir,
    pod,
    run_mount,
    secret_env,
)
from dartes_operator.resources.sources import credentials, token_env

GRACE_SECONDS: Final = 30

# The base model and its trained copy pass through memory; a big one needs more, which `workers.resources` of
# memory says for workers and this pod alike.
REQUESTS: Final = {"cpu": "250m", "memory": "1Gi"}


def export_pod(
    job: JobIdentity, spec: JobSpec, export: ExportSpec, image: str, defaults: PodDefaults
) -> dict[str, Any]:
    """The template of the export pod."""
    destination = export.destination if _is_claim(export) else None
    parts = PodParts(
        role=Role.EXPORT,
        image=image,
        command=(
            *("python", "-m", "dartes_worker.export"),
            *("--run-dir", RUN_DIR),
            *("--job", JOB_FILE),
            *("--destination", export.destination),
            *("--iteration", str(export.iteration)),
        ),
        grace_seconds=GRACE_SECONDS,
        mounts=(
            run_mount(),
            Mount(
                "checkpoint",
                STATE_PATH,
                {"persistentVolumeClaim": {"claimName": claim_name(job, spec.checkpoint)}},
                read_only=True,
            ),
            empty_dir("tmp", "/tmp"),
            *cache_mounts(spec.model.cache, defaults.pull_policy),
            *claim_mounts((spec.model.source,), writable=destination),
        ),
        requests=REQUESTS,
        env=_own_env(spec, export),
        env_from=() if export.secret_ref is None else ({"secretRef": {"name": export.secret_ref.name}},),
        threads=spec.workers.threads,
        priority_class_name=spec.priority_class_name,
    )
    return pod(job, parts, export_placement(spec, export), defaults)


def export_placement(spec: JobSpec, export: ExportSpec) -> WorkersSpec:
    """What the export pod takes of the user's fields: the workers' furniture where the coordinator is."""
    workers, coordinator = spec.workers, spec.coordinator
    own = {entry["name"] for entry in _own_env(spec, export)}
    return workers.model_copy(
        update={
            "node_selector": coordinator.node_selector,
            "tolerations": coordinator.tolerations,
            "affinity": coordinator.affinity,
            "topology_spread_constraints": (),
            "scheduler_name": coordinator.scheduler_name,
            "service_account_name": workers.service_account_name or coordinator.service_account_name,
            "resources": _without(workers.resources, workers.gpu_resource_name),
            # A worker may have a token of its own where the export has the destination's.
            "env": tuple(entry for entry in workers.env if entry.get("name") not in own),
            "pod_template": {},
        }
    )


def _own_env(spec: JobSpec, export: ExportSpec) -> tuple[Mapping[str, Any], ...]:
    return (*cache_env(), *_token(spec, export))


def _is_claim(export: ExportSpec) -> bool:
    return parse_source(export.destination).scheme is Scheme.PVC


def _token(spec: JobSpec, export: ExportSpec) -> tuple[Mapping[str, Any], ...]:
    """One token serves both directions: to write to the hub it must be the destination's."""
    if export.secret_ref is not None and parse_source(export.destination).scheme is Scheme.HUB:
        return (secret_env("HF_TOKEN", export.secret_ref.name, "token"),)
    return token_env(credentials(spec))


def _without(resources: Any, name: str) -> Any:
    return resources.model_copy(
        update={
            "requests": {key: value for key, value in resources.requests.items() if key != name},
            "limits": {key: value for key, value in resources.limits.items() if key != name},
        }
    )
