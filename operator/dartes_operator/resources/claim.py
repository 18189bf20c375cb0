"""The checkpoint's volume claim, and which claim a job uses."""

from typing import Any

from dartes.spec.checkpoint import AccessMode, CheckpointSpec, RetentionPolicy
from dartes_operator.resources.identity import JobIdentity, Role

DEFAULT_SIZE = "1Gi"


def claim_name(job: JobIdentity, checkpoint: CheckpointSpec) -> str:
    """Name of the claim that a job's state is on: named by its spec, or made under its own name."""
    resume = checkpoint.resume_from
    if checkpoint.volume.claim_name:
        return checkpoint.volume.claim_name
    if resume is not None and resume.claim_name:
        return resume.claim_name
    return f"{(resume and resume.job_name) or job.name}-checkpoint"


def makes_claim(checkpoint: CheckpointSpec) -> bool:
    """Whether the job makes its own claim; another's, or one that the user made, must be there already."""
    return checkpoint.volume.claim_name is None and checkpoint.resume_from is None


def is_owned(checkpoint: CheckpointSpec) -> bool:
    """Whether the claim goes with the job."""
    return checkpoint.retention_policy is RetentionPolicy.DELETE


def claim(job: JobIdentity, checkpoint: CheckpointSpec) -> dict[str, Any]:
    """A claim for the job's own volume; without an owner where it outlives the job."""
    volume = checkpoint.volume
    spec: dict[str, Any] = {
        "accessModes": [(volume.access_mode or AccessMode.READ_WRITE_ONCE).value],
        "resources": {"requests": {"storage": str(volume.size or DEFAULT_SIZE)}},
    }
    if volume.storage_class_name is not None:
        spec["storageClassName"] = volume.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": job.metadata(
            claim_name(job, checkpoint), Role.COORDINATOR.value, owned=is_owned(checkpoint)
        ),
        "spec": spec,
    }
