"""The replica of the weights that lies in vLLM's processes, driven from the worker's loop.

Each operation is one call to all ranks; what they return is added up. Knows versions, digests and the
journal; no vLLM beyond the call.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dartes.checkpoint import (
    Checkpoint,
    SnapshotError,
    WeightDigest,
    read_snapshot,
    weight_digest,
    write_snapshot_with,
)
from dartes.ids import Iteration
from dartes.journal import JournalError, JournalRow, chain, shapes_of
from dartes_worker.master import Version
from dartes_worker.weights.shard import Parts, totals


class CallAll(Protocol):
    """Calls a method of every rank's extension; returns what each returned, rank 0 first."""

    def __call__(self, method: str, *arguments: object) -> list[Any]:
        """Raises what the engine raises; TransientError where a process is gone."""


class VllmReplica:
    """See `dartes_worker.weights.replica.Replica`.

    `require_idle` raises where sequences run; `caches_stale` drops what the engine had computed.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        call: CallAll,
        require_idle: Callable[[], None],
        caches_stale: Callable[[], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._shapes = shapes_of(checkpoint)
        self._call = call
        self._require_idle = require_idle
        self._caches_stale = caches_stale
        self._version: Version | None = None

    @property
    def version(self) -> Version | None:
        """Which weights these are."""
        return self._version

    def load_base(self, header_hash: bytes) -> None:
        """Read the base model, every rank its part."""
        self._call("dartes_load", str(self._checkpoint.folder), None)
        self._version = Version(Iteration(0), header_hash)

    def load_snapshot(self, path: Path) -> Version:
        """Read a snapshot; what was read is verified, not the file."""
        snapshot = read_snapshot(path, verify=False)
        if dict(snapshot.shapes()) != dict(self._shapes):
            raise SnapshotError(
                f"{path}: its tensors aren't those of {self._checkpoint.folder}: of another model"
            )
        self._version = None  # what is there now is overwritten
        self._call("dartes_load", str(self._checkpoint.folder), str(path))
        snapshot.require(self.digest())
        self._version = Version(snapshot.iteration, snapshot.row_hash)
        return self._version

    def discard(self) -> None:
        """Free the master weights."""
        self._version = None
        self._call("dartes_discard")

    def apply(self, rows: Sequence[JournalRow]) -> None:
        """Apply committed iterations, all ranks at once."""
        at = self._version
        assert at is not None, "weights are loaded before they are used"
        for expected, row in enumerate(rows, start=at.iteration):
            if row.iteration != expected:
                raise JournalError(f"iteration {row.iteration} can't be applied to weights at {expected}")
        hashes = chain(at.row_hash, rows)
        if hashes:
            self._call("dartes_update", [row.update() for row in rows])
            self._version = Version(Iteration(at.iteration + len(hashes)), hashes[-1])

    def write(self, seed: int, sigma: float) -> None:
        """Serve a member; prefix and KV caches are of other weights from now on."""
        self._require_idle()
        self._call("dartes_write", seed, sigma)
        self._caches_stale()

    def digest(self) -> WeightDigest:
        """Digest of the master."""
        return self._sum(self._call("dartes_digest"))

    def served_digests(self) -> tuple[WeightDigest, WeightDigest]:
        """What the ranks' tensors must hold, and what they hold."""
        found = self._call("dartes_served_digests")
        if not all(one.copies_agree for one in found):
            raise RuntimeError(
                "a rank serves other weights than it holds, in tensors that several ranks share"
            )
        return self._sum([one.rounded for one in found]), self._sum([one.served for one in found])

    def write_snapshot(self, path: Path) -> WeightDigest:
        """Write the master; every rank writes its own elements into the one file."""
        at = self._version
        assert at is not None, "weights are loaded before they are used"
        digest = self.digest()

        def write(partial: Path, offsets: Mapping[str, int]) -> None:
            self._call("dartes_write_snapshot", str(partial), dict(offsets))

        write_snapshot_with(path, at.iteration, at.row_hash, self._shapes, digest, write)
        return digest

    def _sum(self, parts: Sequence[Parts]) -> WeightDigest:
        return weight_digest(self._shapes, totals(parts, [name for name, _ in self._shapes]))
