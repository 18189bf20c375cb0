"""Digests: sums of mix64 over bit patterns, modulo 2**64, of master weights and of what is served.

What `dartes.noise.kernel.digest_fp32`, `digest_rounded` and `digest_served` compute.
"""

import torch
import triton.language as tl

from dartes.noise import ServedDtype
from dartes_worker.engines.storage import TORCH_DTYPES
from dartes_worker.kernels.formats import FORMATS, rounded
from dartes_worker.kernels.launching import (
    OPTIONS,
    bits_of,
    check_inside,
    kernel,
    on_device,
    signed,
    tiling,
)
from dartes_worker.kernels.tiles import tile_of
from dartes_worker.weights.stretch import Stretch


@kernel
def digest_kernel(
    values: tl.tensor,
    total: tl.tensor,
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
    FORMAT: tl.constexpr,
    WIDE: tl.constexpr,
) -> None:
    """Add to `total` (int64[1]); `values` is int16[..] patterns or, if WIDE, int32[..] float32 ones."""
    first, address, inside = tile_of(
        start, offset, length, rows, source_step, target_step, tiles, ROWS, BLOCKS, ALIGNED
    )
    stored = tl.load(values + address, mask=inside, other=0)
    bits = rounded(stored.to(tl.uint32, bitcast=True), FORMAT) if WIDE else stored.to(tl.uint16, bitcast=True)
    index = (first[:, None] + tl.arange(0, 8 * BLOCKS)[None, :]).to(tl.uint64)
    x = key.to(tl.int64).to(tl.uint64) + index * 0x9E3779B97F4A7C15 + bits.to(tl.uint64) * 0xD1B54A32D192ED03
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    x = tl.where(inside, x ^ (x >> 31), 0)
    tl.atomic_add(total, tl.sum(tl.sum(x, axis=1), axis=0).to(tl.int64, bitcast=True))


def digest(
    values: torch.Tensor, served: ServedDtype, stretch: Stretch, key: int, blocks: int | None = None
) -> int:
    """Return D of a stretch of a flat tensor, in a served format, modulo 2**64.

    float32 values are rounded to the format first; a tensor of the format itself counts as it is.
    """
    check_inside(stretch, values)
    if values.dtype not in (torch.float32, TORCH_DTYPES[served]):
        raise ValueError(f"a digest in {served} is taken of {served} or float32, not of {values.dtype}")
    cut = tiling(stretch, blocks)
    total = torch.zeros(1, dtype=torch.int64, device=values.device)
    with on_device(values):
        digest_kernel[(cut.programs,)](
            bits_of(values),
            total,
            signed(key),
            **cut.arguments(stretch),
            FORMAT=FORMATS[served],
            WIDE=values.dtype is torch.float32,
            **OPTIONS,
        )
    return int(total.item()) % (1 << 64)
