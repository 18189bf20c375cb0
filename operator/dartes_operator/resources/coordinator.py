"""The coordinator's pod: the run's state on its volume, no GPU, no token."""

from typing import Any, Final

from dartes.spec.job import JobSpec
from dartes_operator.resources.claim import claim_name
from dartes_operator.resources.claims import claim_mounts
from dartes_operator.resources.identity import JobIdentity, Role
from dartes_operator.resources.pod import (
    JOB_FILE,
    RUN_DIR,
    STATE_PATH,
    TLS_PATH,
    Mount,
    PodDefaults,
    PodParts,
    empty_dir,
    env,
    http_get,
    pod,
    run_mount,
    tls_mount,
)
from dartes_operator.resources.ports import GRPC_PORT, HTTP_PORT
from dartes_operator.resources.sources import (
    data_credentials,
    dataset_sources,
    storage_env_from,
    token_env,
)

GRACE_SECONDS: Final = 25

# It waits for reports most of the time, so a quarter of a core is a fair share of a node, and the interpreter
# with the problems of a usual data set takes well under half a GiB. No limits: a full batch of reports may
# need more for a moment, and slowing it down slows every worker.
REQUESTS: Final = {"cpu": "250m", "memory": "512Mi"}

# Opening the volume and loading the problems (perhaps from the hub) come before the main loop lives.
_STARTUP: Final = {"periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 900}
_READINESS: Final = {"periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 3}
_LIVENESS: Final = {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6}


def coordinator_pod(job: JobIdentity, spec: JobSpec, image: str, defaults: PodDefaults) -> dict[str, Any]:
    """The template of the coordinator's pod."""
    parts = PodParts(
        role=Role.COORDINATOR,
        image=image,
        command=(
            *("python", "-m", "dartes_coordinator"),
            *("--run-dir", RUN_DIR),
            *("--job", JOB_FILE),
            *("--listen", f"0.0.0.0:{GRPC_PORT}"),
            *("--tls", TLS_PATH),
            *("--http", f"0.0.0.0:{HTTP_PORT}"),
            *_rewind(job, spec),
        ),
        grace_seconds=GRACE_SECONDS,
        mounts=(
            run_mount(),
            tls_mount(job, Role.COORDINATOR),
            Mount(
                "checkpoint",
                STATE_PATH,
                {"persistentVolumeClaim": {"claimName": claim_name(job, spec.checkpoint)}},
            ),
            empty_dir("tmp", "/tmp"),
            *claim_mounts(dataset_sources(spec)),
        ),
        requests=REQUESTS,
        env=(env("HOME", "/tmp"), env("HF_HOME", "/tmp/hub"), *token_env(data_credentials(spec))),
        env_from=storage_env_from(spec),
        ports={"grpc": GRPC_PORT, "http": HTTP_PORT},
        probes={
            "startupProbe": http_get("/healthz", **_STARTUP),
            "readinessProbe": http_get("/readyz", **_READINESS),
            "livenessProbe": http_get("/healthz", **_LIVENESS),
        },
        # Moving it costs every worker a pause, so no autoscaler does it to save a node.
        annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        priority_class_name=spec.priority_class_name,
    )
    return pod(job, parts, spec.coordinator, defaults)


def _rewind(job: JobIdentity, spec: JobSpec) -> tuple[str, ...]:
    """Once for each job, however often its coordinator starts: the request is named by the job's uid."""
    resume = spec.checkpoint.resume_from
    if resume is None or resume.iteration is None:
        return ()
    return ("--rewind-to", str(resume.iteration), "--rewind-key", job.uid)
