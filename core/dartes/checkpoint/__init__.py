"""Models on disk: reading and writing the hub's folder layout, snapshots, digests.

Knows files and tensors; not the algorithm, not engines, not the journal.
"""

from dartes.checkpoint.digest import WeightDigest, weight_digest
from dartes.checkpoint.errors import CheckpointError, SnapshotError
from dartes.checkpoint.folder import Checkpoint, open_checkpoint
from dartes.checkpoint.pieces import PIECE_ELEMENTS, Piece, for_each_piece, pieces
from dartes.checkpoint.safetensors_file import StoredDtype, TensorInfo
from dartes.checkpoint.snapshot import (
    Snapshot,
    digest_arrays,
    read_snapshot,
    sum_parts,
    write_snapshot,
    write_snapshot_with,
)
from dartes.checkpoint.write import PROVENANCE_FILE, write_checkpoint

__all__ = [
    "PIECE_ELEMENTS",
    "PROVENANCE_FILE",
    "Checkpoint",
    "CheckpointError",
    "Piece",
    "Snapshot",
    "SnapshotError",
    "StoredDtype",
    "TensorInfo",
    "WeightDigest",
    "digest_arrays",
    "for_each_piece",
    "open_checkpoint",
    "pieces",
    "read_snapshot",
    "sum_parts",
    "weight_digest",
    "write_checkpoint",
    "write_snapshot",
    "write_snapshot_with",
]
