"""`spec.checkpoint`: where a run keeps its state, what it keeps, and where it starts from."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from dartes.spec.base import (
    Integer,
    Mutability,
    Quantity,
    Refusal,
    SecretName,
    SpecModel,
    about,
    exactly_one,
)
from dartes.spec.source import SourceText


class AccessMode(StrEnum):
    """Who may mount a new volume."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"
    READ_WRITE_MANY = "ReadWriteMany"


class RetentionPolicy(StrEnum):
    """What becomes of the volume when the job is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class VolumeSpec(SpecModel):
    """An existing claim, or the size and class of one to be made (1Gi if nothing is said)."""

    claim_name: Annotated[SecretName | None, about("An existing claim to use.")] = None
    size: Annotated[Quantity | None, about("Size of the claim to make; 1Gi if neither is set.")] = None
    storage_class_name: Annotated[
        SecretName | None, about("Storage class of the claim to make; the cluster's default if not set.")
    ] = None
    access_mode: Annotated[
        AccessMode | None, about("Access mode of the claim to make; ReadWriteOnce if not set.")
    ] = None

    def rules(self) -> Iterator[Refusal]:
        if self.claim_name is None:
            return
        for name, words in (
            ("size", "size"),
            ("storage_class_name", "storageClassName"),
            ("access_mode", "accessMode"),
        ):
            if getattr(self, name) is not None:
                yield Refusal(
                    name, f"{words} is for a claim to be made, and claimName names one: remove either of them"
                )


class ResumeSource(SpecModel):
    """Another run whose state this one starts from."""

    job_name: Annotated[SecretName | None, about("Job of the same namespace whose state to start from.")] = (
        None
    )
    claim_name: Annotated[SecretName | None, about("Claim that holds the state to start from.")] = None
    iteration: Annotated[
        Integer | None,
        about(
            "How many iterations of that run to keep: when this job first starts it goes back to the state "
            "after so many, and sets aside on the volume what came later. The last one if not set. A job "
            "that is deleted and made again from the same file is another one and goes back again, also one "
            "that had finished: GitOps makes it again after ttlSecondsAfterFinished.",
            ge=0,
            le=1_000_000,
        ),
    ] = None

    def rules(self) -> Iterator[Refusal]:
        yield from exactly_one(self, "job_name", "claim_name", advice="it says whose state to start from")


class SnapshotSpec(SpecModel):
    """Snapshots of the master weights, which shorten the catching up of a new worker."""

    every_iterations: Annotated[
        Integer, about("Write one after every so many iterations.", ge=1, le=1_000_000)
    ]
    destination: Annotated[
        SourceText | None,
        about(
            "Where they are kept; if not set, in the run's folder on one machine, and in a cluster in each "
            "worker's own scratch space."
        ),
    ] = None


class CheckpointSpec(SpecModel):
    """The state of a run on disk."""

    volume: Annotated[VolumeSpec, about("The volume that holds the run's state.", Mutability.FIXED)] = (
        VolumeSpec()
    )
    keep: Annotated[
        Integer,
        about(
            "Backups of the store and snapshots of the weights that are kept.",
            Mutability.ANY_TIME,
            ge=1,
            le=100,
        ),
    ] = 3
    retention_policy: Annotated[
        RetentionPolicy,
        about("Whether the volume outlives the job: Retain or Delete.", Mutability.ANY_TIME),
    ] = RetentionPolicy.RETAIN
    resume_from: Annotated[
        ResumeSource | None, about("Start from the state of another run.", Mutability.FIXED)
    ] = None
    weights: Annotated[
        SnapshotSpec | None,
        about("Snapshots of the weights, written by a worker; none if not set.", Mutability.SUSPENDED),
    ] = None
