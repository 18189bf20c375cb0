"""A worker's replica of the trained weights, wherever they lie: what the loop of a worker asks of it.

An engine that runs in this process has its master weights here (`LocalReplica`); one whose weights lie in
processes of its own holds the replica itself. Knows versions and digests, not leases.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from dartes.checkpoint import Checkpoint, WeightDigest
from dartes.journal import JournalRow
from dartes.noise import ServedDtype
from dartes_worker.engines.base import Engine
from dartes_worker.master import MasterWeights, Version


class Replica(Protocol):
    """Master weights at a version, and the engine's tensors that members are written to."""

    @property
    def version(self) -> Version | None:
        """Which weights these are; None while there are none."""

    def load_base(self, header_hash: bytes) -> None:
        """Read the base model, at iteration 0 of the journal whose header has `header_hash`."""

    def load_snapshot(self, path: Path) -> Version:
        """Read a snapshot, verified; SnapshotError where it is damaged or of another model."""

    def discard(self) -> None:
        """Free the master weights, so that two of them never exist at once."""

    def apply(self, rows: Sequence[JournalRow]) -> None:
        """Apply committed iterations, the next one first; JournalError where one isn't."""

    def write(self, seed: int, sigma: float) -> None:
        """Have the engine serve a member, or with sigma 0 the parent, and drop what it had computed."""

    def digest(self) -> WeightDigest:
        """Digest of the float32 master."""

    def served_digests(self) -> tuple[WeightDigest, WeightDigest]:
        """Digest that the engine's tensors must have after the parent was written, and the one they have."""

    def write_snapshot(self, path: Path) -> WeightDigest:
        """Write the master with its version; OSError where that fails, with nothing left behind."""


@runtime_checkable
class HoldsReplica(Protocol):
    """An engine whose weights lie in its own processes."""

    def open_replica(self) -> Replica:
        """Return the replica; it has no weights yet."""


def replica_of(engine: Engine, checkpoint: Checkpoint, served: ServedDtype, threads: int) -> Replica:
    """The replica that goes with an engine."""
    if isinstance(engine, HoldsReplica):
        return engine.open_replica()
    return LocalReplica(engine, checkpoint, served, threads)


class LocalReplica:
    """Master weights in this process, for an engine that shows its memory as segments."""

    def __init__(self, engine: Engine, checkpoint: Checkpoint, served: ServedDtype, threads: int) -> None:
        self._engine = engine
        self._segments = engine.segments()
        self._checkpoint = checkpoint
        self._served = served
        self._threads = threads
        self._master: MasterWeights | None = None

    @property
    def version(self) -> Version | None:
        """Which weights these are."""
        return None if self._master is None else self._master.version

    def load_base(self, header_hash: bytes) -> None:
        """Read the base model."""
        self._master = MasterWeights.load(self._checkpoint, self._served, header_hash, threads=self._threads)

    def load_snapshot(self, path: Path) -> Version:
        """Read a snapshot."""
        self._master = MasterWeights.load_snapshot(
            path, self._checkpoint, self._served, threads=self._threads
        )
        return self._master.version

    def discard(self) -> None:
        """Free the master weights."""
        self._master = None

    def apply(self, rows: Sequence[JournalRow]) -> None:
        """Apply committed iterations."""
        self._weights.apply(rows)

    def write(self, seed: int, sigma: float) -> None:
        """Write a member into the engine's memory."""
        self._weights.write(self._segments, seed, sigma)
        self._engine.weights_changed()

    def digest(self) -> WeightDigest:
        """Digest of the master."""
        return self._weights.digest()

    def served_digests(self) -> tuple[WeightDigest, WeightDigest]:
        """What the engine's memory must hold, and what it holds."""
        return self._weights.served_digest_expected(), self._weights.served_digest_of(self._segments)

    def write_snapshot(self, path: Path) -> WeightDigest:
        """Write the master."""
        return self._weights.write_snapshot(path)

    @property
    def _weights(self) -> MasterWeights:
        assert self._master is not None, "weights are loaded before they are used"
        return self._master
