"""Apply updates: all members of all given iterations in one pass over the master weights.

Bit for bit what `dartes.noise.kernel.apply_updates` computes. Knows stretches and rows, not journals.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import triton.language as tl

from dartes.noise.reference import UpdateRow, changes_weights
from dartes_worker.kernels.formats import add
from dartes_worker.kernels.launching import (
    OPTIONS,
    bits_of,
    check_inside,
    kernel,
    on_device,
    signed,
    table_on,
    tiling,
)
from dartes_worker.kernels.philox import normals
from dartes_worker.kernels.tiles import tile_of
from dartes_worker.weights.stretch import Stretch


@kernel
def update_kernel(
    master: tl.tensor,
    table: tl.tensor,
    seeds: tl.tensor,
    coefficients: tl.tensor,
    ends: tl.tensor,
    iterations: tl.int32,
    key: tl.int64,
    start: tl.int64,
    offset: tl.int64,
    length: tl.int64,
    rows: tl.int64,
    source_step: tl.int64,
    target_step: tl.int64,
    tiles: tl.int32,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,
    ALIGNED: tl.constexpr,
) -> None:
    """`master` is int32[..] float32 patterns; members of iteration k are `ends[k]` to `ends[k + 1] - 1`."""
    first, address, inside = tile_of(
        start, offset, length, rows, source_step, target_step, tiles, ROWS, BLOCKS, ALIGNED
    )
    bits = tl.load(master + address, mask=inside, other=0).to(tl.uint32, bitcast=True)
    for k in range(iterations):
        acc = tl.zeros((ROWS, 8 * BLOCKS), tl.float32)
        for i in range(tl.load(ends + k), tl.load(ends + k + 1)):
            drawn = normals(table, tl.load(seeds + i), key.to(tl.int64), first, ROWS, BLOCKS)
            acc += tl.load(coefficients + i) * drawn
        bits = add(bits, acc)
    tl.store(master + address, bits.to(tl.int32, bitcast=True), mask=inside)


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Iterations that change weights, on a device.

    Attributes
    ----------
    seeds, coefficients
        int64[M] and float32[M] of all members of all iterations.
    ends
        int32[K + 1]: members of iteration k are `ends[k]` to `ends[k + 1] - 1`.
    """

    seeds: torch.Tensor
    coefficients: torch.Tensor
    ends: torch.Tensor

    @property
    def iterations(self) -> int:
        """Number K of iterations."""
        return self.ends.numel() - 1


def packed(rows: Sequence[UpdateRow], device: torch.device) -> PackedRows:
    """Check rows and put them on a device: without iterations and members whose coefficients are all zero.

    A member with coefficient 0 adds nothing to the sum, an iteration of such members must not be applied.
    ValueError for rows that do not fit or hold a coefficient that is not finite.
    """
    effective = [row for k, row in enumerate(rows) if changes_weights(k, row)]
    kept = [(seeds[values != 0], values[values != 0]) for seeds, values in effective]
    ends = np.zeros(len(kept) + 1, dtype=np.int32)
    np.cumsum([seeds.size for seeds, _ in kept], out=ends[1:])
    seeds = np.concatenate([np.empty(0, np.uint64), *(seeds for seeds, _ in kept)])
    values = np.concatenate([np.empty(0, np.float32), *(values for _, values in kept)])
    return PackedRows(*(torch.from_numpy(array).to(device) for array in (seeds.view(np.int64), values, ends)))


def apply_updates(
    master: torch.Tensor, stretch: Stretch, key: int, rows: PackedRows, blocks: int | None = None
) -> None:
    """Apply consecutive iterations to a stretch of `master` (flat float32) in place, in one pass."""
    check_inside(stretch, master)
    if master.dtype is not torch.float32:
        raise ValueError(f"master weights are float32, not {master.dtype}")
    if not rows.iterations:
        return
    cut = tiling(stretch, blocks)
    with on_device(master):
        update_kernel[(cut.programs,)](
            bits_of(master),
            table_on(master.device),
            rows.seeds,
            rows.coefficients,
            rows.ends,
            rows.iterations,
            signed(key),
            **cut.arguments(stretch),
            **OPTIONS,
        )
