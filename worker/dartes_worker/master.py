"""The float32 master weights of one worker: load, update, write members into the engine, attest.

Owns the only trained copy that this process has; nothing is ever subtracted from what an engine serves.
Knows seeds and coefficients, not why they are what they are; knows segments, not engines.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dartes.checkpoint import (
    Checkpoint,
    Piece,
    SnapshotError,
    WeightDigest,
    digest_arrays,
    for_each_piece,
    pieces,
    read_snapshot,
    sum_parts,
    weight_digest,
    write_snapshot,
)
from dartes.ids import Iteration
from dartes.journal import JournalError, JournalRow, chain, replay_onto, shapes_of
from dartes.noise import ServedDtype, tensor_id
from dartes_worker.engines.base import Segment, ServedValues

Shapes = Sequence[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Version:
    """Which weights these are: number of iterations applied, and the journal's row hash there (32 bytes)."""

    iteration: Iteration
    row_hash: bytes


class MasterWeights:
    """All trained tensors as flat float32 arrays, and the version that they are at.

    Memory is the arrays plus a few pieces of 4 MiB per thread. `threads` changes no bit.
    """

    def __init__(
        self,
        shapes: Shapes,
        tensors: Mapping[str, NDArray[np.float32]],
        served: ServedDtype,
        version: Version,
        threads: int = 1,
    ) -> None:
        self.shapes = tuple(shapes)
        self.tensors = dict(tensors)
        self.served = served
        self.version = version
        self.threads = threads

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, served: ServedDtype, header_hash: bytes, threads: int = 1
    ) -> "MasterWeights":
        """The base model's weights, at iteration 0 of the journal whose header has `header_hash`."""
        shapes = shapes_of(checkpoint)
        tensors = _read_all(_sizes(checkpoint), checkpoint.read_into, threads)
        return cls(shapes, tensors, served, Version(Iteration(0), header_hash), threads)

    @classmethod
    def load_snapshot(
        cls, path: Path, checkpoint: Checkpoint, served: ServedDtype, threads: int = 1
    ) -> "MasterWeights":
        """The weights of a snapshot, verified; SnapshotError if it is damaged or of another model."""
        snapshot = read_snapshot(path, verify=False)
        shapes = shapes_of(checkpoint)
        if dict(snapshot.shapes()) != dict(shapes):
            raise SnapshotError(f"{path}: its tensors aren't those of {checkpoint.folder}: of another model")
        tensors = _read_all(_sizes(checkpoint), snapshot.read_into, threads)
        version = Version(snapshot.iteration, snapshot.row_hash)
        master = cls(shapes, tensors, served, version, threads)
        snapshot.require(master.digest())
        return master

    def apply(self, rows: Sequence[JournalRow]) -> None:
        """Apply committed iterations, the next one first, in one pass over the memory.

        Raises JournalError, with nothing applied, if a row isn't the one that follows.
        """
        for expected, row in enumerate(rows, start=self.version.iteration):
            if row.iteration != expected:
                raise JournalError(f"iteration {row.iteration} can't be applied to weights at {expected}")
        hashes = chain(self.version.row_hash, rows)
        replay_onto(self.tensors, rows, threads=self.threads)
        if hashes:
            self.version = Version(Iteration(self.version.iteration + len(hashes)), hashes[-1])

    def write(self, segments: Sequence[Segment], seed: int, sigma: float) -> None:
        """Write a member, `round_served(master + sigma * noise(seed))`, into the engine's tensors in place.

        `sigma` is rounded to float32; 0 writes the parent. No sequence may be running meanwhile.
        """
        from dartes.noise.kernel import write_member

        def work(segment: Segment, at: int, count: int) -> None:
            first = segment.start + at
            values = self.tensors[segment.name][first : first + count]
            storage = segment.storage
            if isinstance(storage, np.ndarray):
                out = storage[at : at + count]
                write_member(values, out, self.served, seed, tensor_id(segment.name), first, sigma)
            else:
                staged: ServedValues = np.empty(count, dtype=self.served.storage)
                write_member(values, staged, self.served, seed, tensor_id(segment.name), first, sigma)
                storage.write(at, staged)

        self._for_each_segment(segments, work)

    def digest(self) -> WeightDigest:
        """Digest of the float32 master: what workers attest after an update."""
        return digest_arrays(self.shapes, self.tensors, self.threads)

    def served_digest_expected(self) -> WeightDigest:
        """Digest that the engine's tensors must have after `write` with sigma 0."""
        from dartes.noise.kernel import digest_rounded

        parts: dict[Piece, int] = {}

        def work(piece: Piece) -> None:
            values = self.tensors[piece.name][piece.start : piece.start + piece.count]
            parts[piece] = digest_rounded(values, self.served, tensor_id(piece.name), piece.start)

        for_each_piece(work, self._pieces(), self.threads)
        return weight_digest(self.shapes, sum_parts(self.shapes, parts))

    def served_digest_of(self, segments: Sequence[Segment]) -> WeightDigest:
        """Digest of what the engine's tensors hold now; a tensor that no segment covers has D = 0."""
        from dartes.noise.kernel import digest_served

        parts: dict[Piece, int] = {}

        def work(segment: Segment, at: int, count: int) -> None:
            storage = segment.storage
            values = storage[at : at + count] if isinstance(storage, np.ndarray) else storage.read(at, count)
            first = segment.start + at
            parts[Piece(segment.name, first, count)] = digest_served(values, tensor_id(segment.name), first)

        self._for_each_segment(segments, work)
        return weight_digest(self.shapes, sum_parts(self.shapes, parts))

    def squared_distance(self, checkpoint: Checkpoint) -> float:
        """`||theta - theta_0||^2` from the base model, summed in float64, a piece at a time."""
        total = 0.0
        for piece in pieces(_sizes(checkpoint)):
            now = self.tensors[piece.name][piece.start : piece.start + piece.count]
            change = now.astype(np.float64)
            change -= checkpoint.read_f32(piece.name, piece.start, piece.count)
            total += float(np.dot(change, change))
        return total

    def write_snapshot(self, path: Path) -> WeightDigest:
        """Write the master with its version; see `dartes.checkpoint.write_snapshot`."""
        at = self.version
        return write_snapshot(
            path, at.iteration, at.row_hash, self.shapes, self.tensors, threads=self.threads
        )

    def _pieces(self) -> list[Piece]:
        return list(pieces((name, self.tensors[name].size) for name, _ in self.shapes))

    def _for_each_segment(
        self, segments: Sequence[Segment], work: Callable[[Segment, int, int], None]
    ) -> None:
        """Call `work(segment, offset within it, count)` for bounded pieces of all segments."""
        by_key = {str(position): segment for position, segment in enumerate(segments)}
        for segment in segments:
            if segment.start < 0 or segment.start + segment.count > self.tensors[segment.name].size:
                raise ValueError(
                    f"segment {segment.name!r}: elements {segment.start}..{segment.start + segment.count} of "
                    f"{self.tensors[segment.name].size}"
                )
        for_each_piece(
            lambda piece: work(by_key[piece.name], piece.start, piece.count),
            pieces((key, segment.count) for key, segment in by_key.items()),
            self.threads,
        )


def _sizes(checkpoint: Checkpoint) -> list[tuple[str, int]]:
    return [(info.name, info.count) for info in checkpoint.trainable]


def _read_all(
    sizes: Sequence[tuple[str, int]],
    read_into: Callable[[str, int, NDArray[np.float32]], None],
    threads: int,
) -> dict[str, NDArray[np.float32]]:
    """Allocate every tensor once and fill it in place."""
    tensors = {name: np.empty(size, dtype=np.float32) for name, size in sizes}

    def work(piece: Piece) -> None:
        read_into(piece.name, piece.start, tensors[piece.name][piece.start : piece.start + piece.count])

    for_each_piece(work, pieces(sizes), threads)
    return tensors
