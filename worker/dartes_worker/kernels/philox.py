"""The normals of a tile: Philox blocks, 16-bit lanes, table.

Device functions; what `dartes.noise.reference.normals` computes, each Philox block once.
"""

import triton.language as tl

from dartes_worker.kernels.launching import device_function


@device_function
def normals(
    table: tl.tensor,
    seed: tl.tensor,
    key: tl.tensor,
    first: tl.tensor,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,
) -> tl.tensor:
    """Return float32[ROWS, 8 * BLOCKS]: the normals from the flat indices `first` (int64[ROWS]) on.

    `first` are multiples of 8. `seed` and `key` are 64-bit scalars, `table` points to float32[65536].
    """
    block = (first // 8)[:, None] + tl.arange(0, BLOCKS)[None, :]
    x0, x1, x2, x3 = tl.philox(
        seed,
        block.to(tl.uint32),
        (block >> 32).to(tl.uint32),
        key.to(tl.uint32),
        (key >> 32).to(tl.uint32),
    )
    # A join adds a last axis: words [.., 2, 2] in the order x0 x1 x2 x3, then the low half before the high.
    words = tl.join(tl.join(x0, x2), tl.join(x1, x3))
    lanes = tl.join(words & 0xFFFF, words >> 16)
    return tl.load(table + tl.reshape(lanes, (ROWS, 8 * BLOCKS)))
