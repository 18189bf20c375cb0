"""Write a member: `round_served(master + round32(sigma * normal))`, one pass, nothing kept beside it.

Bit for bit what `dartes.noise.kernel.write_member` writes. Knows stretches, not models.
"""

import numpy as np
import torch
import triton.language as tl

from dartes.noise import ServedDtype
from dartes_worker.engines.storage import TORCH_DTYPES
from dartes_worker.kernels.formats import FORMATS, add, rounded, widened
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
def write_kernel(
    master: tl.tensor,
    out: tl.tensor,
    table: tl.tensor,
    seed: tl.int64,
    key: tl.int64,
    sigma_bits: tl.int32,
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
    FORMAT: tl.constexpr,
    WIDE: tl.constexpr,
    PERTURBED: tl.constexpr,
) -> None:
    """`master` is int32[..] float32 patterns, `out` int16[..] patterns or, if WIDE, int32[..] of float32."""
    first, address, inside = tile_of(
        start, offset, length, rows, source_step, target_step, tiles, ROWS, BLOCKS, ALIGNED
    )
    bits = tl.load(master + address, mask=inside, other=0).to(tl.uint32, bitcast=True)
    if PERTURBED:
        drawn = normals(table, seed.to(tl.int64), key.to(tl.int64), first, ROWS, BLOCKS)
        bits = add(bits, sigma_bits.to(tl.float32, bitcast=True) * drawn)
    served = rounded(bits, FORMAT)
    if WIDE:
        tl.store(out + address, widened(served, FORMAT).to(tl.int32, bitcast=True), mask=inside)
    else:
        tl.store(out + address, served.to(tl.int16), mask=inside)


def write_member(
    master: torch.Tensor,
    out: torch.Tensor,
    served: ServedDtype,
    stretch: Stretch,
    key: int,
    seed: int,
    sigma: float,
    blocks: int | None = None,
) -> None:
    """Write a stretch of a member from `master` (flat float32) to `out`; with sigma 0 the rounded master.

    Both have the same length and order and lie on one device; `out` is in the served format, or float32 that
    gets widened values. `sigma` is rounded to float32 and must be finite. ValueError for what does not fit.
    """
    with np.errstate(over="ignore"):
        scale = np.float32(sigma)
    if not np.isfinite(scale):
        raise ValueError(f"sigma = {sigma}: must be a finite float32")
    check_inside(stretch, master, out)
    if master.dtype is not torch.float32 or out.dtype not in (torch.float32, TORCH_DTYPES[served]):
        raise ValueError(
            f"{served} is written from float32 master weights, not {master.dtype} to {out.dtype}"
        )
    cut = tiling(stretch, blocks)
    with on_device(out):
        write_kernel[(cut.programs,)](
            bits_of(master),
            bits_of(out),
            table_on(out.device),
            signed(seed),
            signed(key),
            int(scale.view(np.int32)),
            **cut.arguments(stretch),
            FORMAT=FORMATS[served],
            WIDE=out.dtype is torch.float32,
            PERTURBED=bool(scale != 0),
            **OPTIONS,
        )
