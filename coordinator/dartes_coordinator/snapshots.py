"""Which weights are to be written as a snapshot, who is at it, and which finished ones are believed. Pure."""

from dataclasses import dataclass
from pathlib import PurePath

from dartes.state import StoredSnapshot
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.errors import ReportError
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.progress import Progress
from dartes_coordinator.replicas import Replicas


@dataclass
class SnapshotDuty:
    """The snapshot of the present weights, if one is due."""

    holder: str | None = None

    def is_open(self, plan: RunPlan, progress: Progress) -> bool:
        """Whether the present weights still have to be written."""
        return plan.snapshot_due(progress.iteration) and progress.iteration not in progress.snapshots

    def take(self, worker: str, plan: RunPlan, progress: Progress) -> bool:
        """Whether `worker` shall write the snapshot now; it is one worker's work at a time."""
        self.release(worker)  # asking again, it has given up what it was at
        if self.holder is not None or not self.is_open(plan, progress):
            return False
        self.holder = worker
        return True

    def release(self, worker: str) -> None:
        """A worker is gone, or at something else."""
        if self.holder == worker:
            self.holder = None


def believed(made: wire.SnapshotResult, progress: Progress, replicas: Replicas) -> StoredSnapshot | None:
    """A reported snapshot as it is to be recorded; None where it is of no use.

    Raises
    ------
    ReportError
        Its weights are not those that the workers agree on, or its name is no file name.
    """
    if made.iteration in progress.snapshots or not progress.on_chain(made.iteration, made.row_hash):
        return None
    agreed = replicas.agreed_at(made.iteration)
    if agreed is None:
        return None
    if made.digest != agreed:
        raise ReportError(
            f"snapshot of iteration {made.iteration}: digest {made.digest[:16]}, the workers agree "
            f"on {agreed[:16]}"
        )
    if not made.file or PurePath(made.file).name != made.file:
        raise ReportError(f"snapshot of iteration {made.iteration}: {made.file!r} is no file name")
    return StoredSnapshot(made.iteration, made.row_hash, made.digest, made.file)
