"""Snapshots of the float32 master weights: one file, all of it or nothing, verified when it is read.

The file is in safetensors layout, so that other tools can look inside; its metadata holds the number of
applied iterations, the journal's row hash there, and the weight digest. Knows no engine and no journal.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dartes.checkpoint.digest import WeightDigest, weight_digest
from dartes.checkpoint.errors import CheckpointError, SnapshotError
from dartes.checkpoint.pieces import Piece, for_each_piece, pieces
from dartes.checkpoint.safetensors_file import StoredDtype, TensorInfo, read_bytes, read_header
from dartes.checkpoint.safetensors_layout import PlannedTensor, plan_layout, write_at
from dartes.durable import sync_folder
from dartes.ids import Iteration
from dartes.noise import tensor_id

SNAPSHOT_FORMAT: Final = "dartes-snapshot-1"
ROW_HASH_BYTES: Final = 32


@dataclass(frozen=True)
class Snapshot:
    """A snapshot on disk.

    Attributes
    ----------
    iteration
        Number of iterations applied; the next row to apply has this number.
    row_hash
        32 bytes: hash of the last applied row, or of the journal's header before the first.
    digest
        Total of the weight digest, hex.
    """

    path: Path
    iteration: Iteration
    row_hash: bytes
    digest: str
    tensors: Mapping[str, TensorInfo]

    def read_f32(self, name: str, start: int, count: int) -> NDArray[np.float32]:
        """Return elements `start` to `start + count` of a tensor's flat order as float32[count]."""
        out = np.empty(count, dtype=np.float32)
        self.read_into(name, start, out)
        return out

    def read_into(self, name: str, start: int, out: NDArray[np.float32]) -> None:
        """Fill the contiguous float32 `out` from element `start` of a tensor on; no copy is made."""
        info = self.tensors[name]
        if start < 0 or start + len(out) > info.count:
            raise ValueError(f"{name}: elements {start}..{start + len(out)} of {info.count}")
        read_bytes(info, 4 * start, out.view(np.uint8))

    def shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Name and shape of every tensor."""
        return [(info.name, info.shape) for info in self.tensors.values()]

    def require(self, digest: WeightDigest) -> None:
        """Raise SnapshotError unless `digest`, taken of the values that were read, is the recorded one."""
        if digest.total != self.digest:
            raise SnapshotError(
                f"{self.path}: damaged: the weights' digest is {digest.total[:16]}..., recorded is "
                f"{self.digest[:16]}...; delete it, an older snapshot or the base model will be used"
            )


def digest_arrays(
    shapes: Sequence[tuple[str, tuple[int, ...]]],
    tensors: Mapping[str, NDArray[np.float32]],
    threads: int = 1,
) -> WeightDigest:
    """Digest of flat float32 arrays, one per name in `shapes`; reads only, no tensor-sized temporary."""
    from dartes.noise.kernel import digest_fp32

    parts: dict[Piece, int] = {}

    def work(piece: Piece) -> None:
        values = tensors[piece.name][piece.start : piece.start + piece.count]
        parts[piece] = digest_fp32(values, tensor_id(piece.name), piece.start)

    for_each_piece(work, pieces((name, tensors[name].size) for name, _ in shapes), threads)
    return weight_digest(shapes, sum_parts(shapes, parts))


def sum_parts(shapes: Sequence[tuple[str, tuple[int, ...]]], parts: Mapping[Piece, int]) -> dict[str, int]:
    """Add the D of pieces up to the D of tensors (modulo 2**64); a tensor without elements has D = 0."""
    totals = dict.fromkeys((name for name, _ in shapes), 0)
    for piece, value in parts.items():
        totals[piece.name] = (totals[piece.name] + value) % 2**64
    return totals


def write_snapshot(
    path: Path,
    iteration: Iteration,
    row_hash: bytes,
    shapes: Sequence[tuple[str, tuple[int, ...]]],
    tensors: Mapping[str, NDArray[np.float32]],
    *,
    threads: int = 1,
) -> WeightDigest:
    """Write flat float32 arrays as a snapshot (temporary file, synced, renamed) and return their digest.

    Replaces a file of that name. Raises OSError, for instance on a full disk; nothing is left behind then.
    """
    digest = digest_arrays(shapes, tensors, threads)

    def write(partial: Path, offsets: Mapping[str, int]) -> None:
        with partial.open("r+b", buffering=0) as file:
            for piece in pieces((name, tensors[name].size) for name, _ in shapes):
                values = tensors[piece.name][piece.start : piece.start + piece.count]
                write_at(file.fileno(), offsets[piece.name] + 4 * piece.start, values)

    write_snapshot_with(path, iteration, row_hash, shapes, digest, write)
    return digest


def write_snapshot_with(
    path: Path,
    iteration: Iteration,
    row_hash: bytes,
    shapes: Sequence[tuple[str, tuple[int, ...]]],
    digest: WeightDigest,
    write: Callable[[Path, Mapping[str, int]], None],
) -> None:
    """Write a snapshot whose values others put into the file: several processes that hold a part each.

    `write(partial, offsets)` returns when every element is in the file `partial`: element i of a tensor,
    float32 little endian, at byte `offsets[name] + 4 * i`. `digest` is that of these values.
    """
    metadata = {
        "format": SNAPSHOT_FORMAT,
        "iteration": str(iteration),
        "row_hash": row_hash.hex(),
        "digest": digest.total,
    }
    # The metadata are what a reader acts on before it has read a weight, so they get a check of their own.
    metadata["check"] = _metadata_check(metadata)
    layout = plan_layout((PlannedTensor(name, StoredDtype.F32, shape) for name, shape in shapes), metadata)
    partial = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    try:
        with partial.open("xb", buffering=0) as file:
            write_at(file.fileno(), 0, layout.header)
            write(partial, layout.offsets)
            # Of the file, not of the descriptor: what others wrote is synced too.
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def read_snapshot(path: Path, *, verify: bool = True, threads: int = 1) -> Snapshot:
    """Open a snapshot; with `verify`, read all of it once and check its digest.

    A caller that loads the weights anyway passes `verify=False` and calls `require` on what it loaded.

    Raises
    ------
    SnapshotError
        Missing, truncated, damaged or not a snapshot; the message names the file.
    """
    try:
        header = read_header(path)
    except CheckpointError as error:
        raise SnapshotError(str(error)) from error
    recorded = dict(header.metadata)
    if recorded.get("format") != SNAPSHOT_FORMAT:
        raise SnapshotError(
            f"{path}: format {recorded.get('format')!r:.60} isn't {SNAPSHOT_FORMAT}: not a snapshot"
        )
    check = recorded.pop("check", "")
    if check != _metadata_check(recorded):
        raise SnapshotError(f"{path}: damaged: its metadata don't match their check; delete it")
    wrong = [info.name for info in header.tensors if info.dtype is not StoredDtype.F32]
    if wrong:
        raise SnapshotError(f"{path}: damaged: tensor {wrong[0]!r} isn't float32; delete it")
    snapshot = Snapshot(
        path,
        Iteration(int(recorded["iteration"])),
        bytes.fromhex(recorded["row_hash"]),
        recorded["digest"],
        {info.name: info for info in header.tensors},
    )
    if verify:
        snapshot.require(_digest_file(snapshot, threads))
    return snapshot


def _digest_file(snapshot: Snapshot, threads: int) -> WeightDigest:
    from dartes.noise.kernel import digest_fp32

    parts: dict[Piece, int] = {}

    def work(piece: Piece) -> None:
        values = snapshot.read_f32(piece.name, piece.start, piece.count)
        parts[piece] = digest_fp32(values, tensor_id(piece.name), piece.start)

    sizes = ((info.name, info.count) for info in snapshot.tensors.values())
    for_each_piece(work, pieces(sizes), threads)
    return weight_digest(snapshot.shapes(), sum_parts(snapshot.shapes(), parts))


def _metadata_check(metadata: Mapping[str, str]) -> str:

    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode("utf-8")).hexdigest()
