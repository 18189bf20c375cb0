"""A worker's pod: an engine on GPUs or the CPU; whatever it holds can be rebuilt elsewhere."""

from typing import Any, Final

from dartes.spec.job import JobSpec
from dartes.spec.roles import EngineKind, WorkersSpec
from dartes_operator.resources.cache import cache_env, cache_mounts, vllm_env
from dartes_operator.resources.claims import claim_mounts, claim_of
from dartes_operator.resources.identity import QUEUE_LABEL, JobIdentity, Role
from dartes_operator.resources.pod import (
    JOB_FILE,
    STATE_PATH,
    TLS_PATH,
    Mount,
    PodDefaults,
    PodParts,
    empty_dir,
    http_get,
    pod,
    run_mount,
    tls_mount,
)
from dartes_operator.resources.ports import GRPC_PORT, HTTP_PORT
from dartes_operator.resources.sources import (
    credentials,
    dataset_sources,
    reward_model_sources,
    reward_mounts,
    storage_env_from,
    token_env,
)

SNAPSHOTS_PATH: Final = f"{STATE_PATH}/snapshots"

# Beyond its drain, a worker has this long to say goodbye.
GOODBYE_SECONDS: Final = 5

# A request, not a limit: enough that a node is not filled with workers that starve each other, small enough
# that a test cluster holds several. What a model needs, only the user knows: `workers.resources` says it.
REQUESTS: Final = {"cpu": "250m", "memory": "1Gi"}

_READINESS: Final = {"periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 3}


def grace_seconds(spec: JobSpec) -> int:
    """How long a worker's pod may take to leave, in seconds."""
    return spec.workers.scale_down.drain_seconds + GOODBYE_SECONDS


def worker_pod(job: JobIdentity, spec: JobSpec, image: str, defaults: PodDefaults) -> dict[str, Any]:
    """The template of a worker's pod."""
    workers = spec.workers
    gpus = workers.gpus_per_worker
    labels = {QUEUE_LABEL: spec.queue_name} if spec.queue_name is not None else {}
    parts = PodParts(
        role=Role.WORKER,
        image=image,
        command=(
            *("python", "-m", "dartes_worker"),
            *("--coordinator", f"{job.coordinator}.{job.namespace}.svc:{GRPC_PORT}"),
            *("--tls", TLS_PATH),
            *("--job", JOB_FILE),
            *("--snapshots", SNAPSHOTS_PATH),
            *("--name", "$(DARTES_POD)"),
            *("--http", f"0.0.0.0:{HTTP_PORT}"),
        ),
        grace_seconds=grace_seconds(spec),
        mounts=(
            run_mount(),
            tls_mount(job, Role.WORKER),
            _snapshots(spec),
            empty_dir("tmp", "/tmp"),
            *cache_mounts(spec.model.cache, defaults.pull_policy),
            *_shared_memory(workers),
            *claim_mounts((spec.model.source, *dataset_sources(spec), *reward_model_sources(spec))),
            *reward_mounts(spec),
        ),
        requests=REQUESTS,
        env=(
            *cache_env(),
            *(vllm_env() if workers.engine is EngineKind.VLLM else ()),
            *token_env(credentials(spec)),
        ),
        env_from=storage_env_from(spec),
        ports={"http": HTTP_PORT},
        probes={"readinessProbe": http_get("/readyz", **_READINESS)},
        extended={workers.gpu_resource_name: gpus} if gpus else {},
        labels=labels,
        # Otherwise a pod with an emptyDir and a controller that it doesn't know pins its node.
        annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
        tolerations=({"key": workers.gpu_resource_name, "operator": "Exists"},) if gpus else (),
        threads=workers.threads,
        priority_class_name=spec.priority_class_name,
        runtime_class_name=workers.runtime_class_name,
    )
    return pod(job, parts, workers, defaults)


def _shared_memory(workers: WorkersSpec) -> tuple[Mount, ...]:
    """Room for the processes that share one model: they talk through it, and a container gets 64 MiB."""
    if workers.tensor_parallel > 1:
        return (empty_dir("shm", "/dev/shm", medium="Memory"),)
    return ()


def _snapshots(spec: JobSpec) -> Mount:
    weights = spec.checkpoint.weights
    found = claim_of(weights.destination) if weights is not None else None
    if found is None:
        return empty_dir("snapshots", SNAPSHOTS_PATH)
    claim, path = found
    return Mount("snapshots", SNAPSHOTS_PATH, {"persistentVolumeClaim": {"claimName": claim}}, sub_path=path)
