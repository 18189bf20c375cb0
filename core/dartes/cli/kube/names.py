"""The names that a job's objects carry in a cluster, as far as a person's machine has to know them."""

from typing import Final

RESOURCE: Final = "dartesjobs.dartes.dev"
API_VERSION: Final = "dartes.dev/v1alpha1"
KIND: Final = "DartESJob"

JOB_NAME: Final = "dartes.dev/job-name"
ROLE: Final = "dartes.dev/role"
WORKER_INDEX: Final = "dartes.dev/worker-index"
COMPONENT: Final = "app.kubernetes.io/component"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
RECONCILE: Final = "dartes.dev/reconcile"

COORDINATOR: Final = "coordinator"
WORKER: Final = "worker"
EXPORT: Final = "export"
READER: Final = "reader"
"""Short-lived pods of `kubectl dartes export`; the operator doesn't know them."""

PLUGIN: Final = "kubectl-dartes"

RUN_DIR: Final = "/var/lib/dartes/run"
VOLUME_MOUNT: Final = "/var/lib/dartes"
JOB_FILE: Final = "/etc/dartes/run/job.yaml"


def of_job(name: str, role: str | None = None) -> str:
    """The label selector of a job's objects, or of its pods of one role."""
    selector = f"{JOB_NAME}={name}"
    return selector if role is None else f"{selector},{ROLE}={role}"
