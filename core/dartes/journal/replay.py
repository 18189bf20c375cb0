"""Rebuild weights from a base model (or a snapshot) and a journal.

`master += sum of terms` per element and iteration, so any piece of any tensor can be rebuilt on its own:
exporting never holds a model. The arithmetic is the noise kernel's; this module only feeds it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

import dartes
from dartes.checkpoint import (
    Checkpoint,
    Piece,
    Snapshot,
    WeightDigest,
    for_each_piece,
    pieces,
    sum_parts,
    weight_digest,
    write_checkpoint,
)
from dartes.ids import Iteration
from dartes.journal.errors import JournalError
from dartes.journal.file import Journal
from dartes.journal.records import JournalHeader, JournalRow
from dartes.noise import NOISE_VERSION, ServedDtype, tensor_id


class WeightSource(Protocol):
    """Where float32 weights can be read from: a checkpoint or a snapshot."""

    def read_f32(self, name: str, start: int, count: int) -> NDArray[np.float32]:
        """Elements `start` to `start + count` of a tensor's flat order, as a new array."""


@dataclass(frozen=True)
class Exported:
    """What an export wrote: iterations applied, the journal's row hash there, the float32 weight digest."""

    output: Path
    iteration: Iteration
    row_hash: bytes
    digest: WeightDigest


def shapes_of(checkpoint: Checkpoint) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of every trained tensor, sorted by name: the journal's tensor table."""
    return [(info.name, info.shape) for info in checkpoint.trainable]


def require_base(header: JournalHeader, checkpoint: Checkpoint) -> None:
    """Raise JournalError, naming the difference, unless the journal's rows apply to this model."""
    if header.noise_version != NOISE_VERSION:
        raise JournalError(
            f"journal: noise version {header.noise_version}, this version of dartes has {NOISE_VERSION}; "
            "use the version that wrote it"
        )
    here, there = dict(shapes_of(checkpoint)), dict(header.tensors)
    if here != there:
        name = next(n for n in sorted(here.keys() | there.keys()) if here.get(n) != there.get(n))
        raise JournalError(
            f"{checkpoint.folder}: tensor {name!r} has shape {here.get(name)}, in the journal "
            f"{there.get(name)}: another base model"
        )
    if header.base_digest != checkpoint.base_digest():
        raise JournalError(
            f"{checkpoint.folder}: digest {checkpoint.base_digest()[:16]}..., the journal was made from "
            f"{header.base_digest[:16]}...: another base model; use the one that the run started from"
        )


def replay_onto(
    tensors: Mapping[str, NDArray[np.float32]], rows: Sequence[JournalRow], *, threads: int = 1
) -> None:
    """Apply rows, in order, to flat float32 arrays in place: one pass over the memory for all of them."""
    from dartes.noise.kernel import apply_updates

    updates = [row.update() for row in rows]

    def work(piece: Piece) -> None:
        values = tensors[piece.name][piece.start : piece.start + piece.count]
        apply_updates(values, tensor_id(piece.name), piece.start, updates)

    if updates:
        for_each_piece(work, pieces((name, tensors[name].size) for name in sorted(tensors)), threads)


class ReplayReader:
    """Hands out pieces of the weights after given rows, and gathers their digest on the way."""

    def __init__(self, source: WeightSource, rows: Sequence[JournalRow]) -> None:
        self._source = source
        self._updates = [row.update() for row in rows]
        self._parts: dict[Piece, int] = {}

    def read_f32(self, name: str, start: int, count: int) -> NDArray[np.float32]:
        """Elements `start` to `start + count` of a tensor after all rows; callable from several threads."""
        from dartes.noise.kernel import apply_updates, digest_fp32

        values = self._source.read_f32(name, start, count)
        if self._updates:
            apply_updates(values, tensor_id(name), start, self._updates)
        # A piece that is read twice (an embedding, again for its tied head) counts once.
        self._parts[Piece(name, start, count)] = digest_fp32(values, tensor_id(name), start)
        return values

    def digest(self, shapes: Sequence[tuple[str, tuple[int, ...]]]) -> WeightDigest:
        """Digest of what was read; meaningful once every element has been, in the same pieces each time."""
        return weight_digest(shapes, sum_parts(shapes, self._parts))


def replay_digests(
    source: WeightSource,
    shapes: Sequence[tuple[str, tuple[int, ...]]],
    rows: Sequence[JournalRow],
    at: Collection[int],
    *,
    threads: int = 1,
) -> dict[int, WeightDigest]:
    """Digests of the weights after each number of rows in `at`, in one pass and a piece at a time.

    `rows` begin at the source's own iteration; `at` counts from there, 0 for the source itself.
    """
    from dartes.noise.kernel import apply_updates, digest_fp32

    stops = sorted({stop for stop in at if 0 <= stop <= len(rows)})
    updates = [row.update() for row in rows]
    parts: dict[int, dict[Piece, int]] = {stop: {} for stop in stops}

    def work(piece: Piece) -> None:
        values, key, done = source.read_f32(piece.name, piece.start, piece.count), tensor_id(piece.name), 0
        for stop in stops:
            if stop > done:
                apply_updates(values, key, piece.start, updates[done:stop])
                done = stop
            parts[stop][piece] = digest_fp32(values, key, piece.start)

    for_each_piece(work, pieces((name, prod(shape)) for name, shape in shapes), threads)
    return {stop: weight_digest(shapes, sum_parts(shapes, parts[stop])) for stop in stops}


def export(
    checkpoint: Checkpoint,
    journal: Journal,
    output: Path,
    dtype: ServedDtype,
    *,
    iteration: int | None = None,
    snapshot: Snapshot | None = None,
    threads: int = 1,
) -> Exported:
    """Write the model after `iteration` iterations (all, if None) as a folder that other tools load.

    Peak memory is a few pieces of 4 MiB per thread, whatever the model. With a verified `snapshot` of
    the same journal, only the rows after it are replayed.

    Raises
    ------
    JournalError
        The base model is another one, the iteration isn't in the journal, or the snapshot is of another
        journal or lies after the iteration.
    """
    require_base(journal.header, checkpoint)
    last = len(journal.rows) if iteration is None else iteration
    end_hash = journal.hash_at(last)
    source: WeightSource = checkpoint
    first = 0
    if snapshot is not None:
        require_snapshot(journal, snapshot)
        if snapshot.iteration > last:
            raise JournalError(f"{snapshot.path}: is of iteration {snapshot.iteration}, after {last}")
        source, first = snapshot, snapshot.iteration
    reader = ReplayReader(source, journal.rows[first:last])
    shapes = shapes_of(checkpoint)

    def provenance() -> Mapping[str, object]:
        return {
            "dartes_version": dartes.__version__,
            "iteration": last,
            "journal_hash": end_hash.hex(),
            "base_digest": journal.header.base_digest,
            "weight_digest": reader.digest(shapes).total,
            "dtype": dtype.value,
        }

    write_checkpoint(checkpoint, reader.read_f32, output, dtype, provenance=provenance, threads=threads)
    return Exported(output, Iteration(last), end_hash, reader.digest(shapes))


def require_snapshot(journal: Journal, snapshot: Snapshot) -> None:
    """Raise JournalError unless the snapshot is of this journal."""
    known = snapshot.iteration <= len(journal.rows)
    if not known or journal.hash_at(snapshot.iteration) != snapshot.row_hash:
        raise JournalError(
            f"{snapshot.path}: iteration {snapshot.iteration} with row hash "
            f"{snapshot.row_hash.hex()[:16]}... isn't in this journal: a snapshot of another run"
        )
    if dict(snapshot.shapes()) != dict(journal.header.tensors):
        raise JournalError(
            f"{snapshot.path}: its tensors aren't those of the journal: a snapshot of another model"
        )
