"""Which elements a program works on: flat indices of the checkpoint tensor, addresses, and which are there.

A tile begins at a Philox block in every row, so that each block is computed once; elements of a row's first
and last block that are not the row's are masked out. All indices are 64-bit.
"""

import triton.language as tl

from dartes_worker.kernels.launching import device_function


@device_function
def tile_of(
    start: tl.tensor,
    offset: tl.tensor,
    length: tl.tensor,
    rows: tl.tensor,
    source_step: tl.tensor,
    target_step: tl.tensor,
    tiles: tl.tensor,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,
    ALIGNED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return (first, address, inside) of this program's tile.

    `first` is int64[ROWS]: the flat index of each row's first element, a multiple of 8, at which the row's
    blocks begin. `address` is int64[ROWS, 8 * BLOCKS]: where the elements lie in the served tensor. `inside`
    is the mask of those that belong to the stretch. If ALIGNED, indices, lengths and steps count eights.
    """
    program = tl.program_id(0)
    start, offset = start.to(tl.int64), offset.to(tl.int64)
    source_step, target_step = source_step.to(tl.int64), target_step.to(tl.int64)
    length = length.to(tl.int64)
    if ALIGNED:
        # The compiler sees that they are multiples of 8, and lets a thread read several elements at once.
        start, offset, length = start * 8, offset * 8, length * 8
        source_step, target_step = source_step * 8, target_step * 8
    row = (program // tiles).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    # Where the tile begins within each row; negative where its first block begins before the row.
    begin = (program % tiles).to(tl.int64) * (8 * BLOCKS) + tl.zeros((ROWS,), tl.int64)
    row_start = start + row * source_step
    if not ALIGNED:
        begin -= row_start % 8
    position = begin[:, None] + tl.arange(0, 8 * BLOCKS)[None, :]
    inside = (row < rows)[:, None] & (position < length)
    if not ALIGNED:
        inside &= position >= 0
    return row_start + begin, (offset + row * target_step)[:, None] + position, inside
