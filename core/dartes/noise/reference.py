"""The noise contract in plain NumPy: the executable form of `docs/noise.md`, which every kernel must equal.

Every function takes a flat slice of a tensor (its first flat index `start`) and gives the same bits as the
slice of the whole. It is slow and uses temporaries of the slice's size: the kernel is for real work.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dartes.noise.dtypes import ServedDtype, round_to
from dartes.noise.philox import MASK_64, philox4x32, split64
from dartes.noise.table import normal_table

Float32s: TypeAlias = NDArray[np.float32]
Served: TypeAlias = NDArray[np.uint16] | NDArray[np.float32]
UpdateRow: TypeAlias = tuple[NDArray[np.uint64], Float32s]
"""Seeds uint64[N] and coefficients float32[N] of one iteration, in member order."""

LANES = 8
"""Numbers per Philox block: four words of two 16-bit halves."""

INDEX_STEP = 0x9E3779B97F4A7C15
BITS_STEP = 0xD1B54A32D192ED03
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB


def table_indices(seed: int, tensor_id: int, start: int, count: int) -> NDArray[np.uint16]:
    """The 16 random bits of elements start .. start + count - 1 of a tensor, uint16[count].

    Philox key = seed; counter = (block low, block high, id low, id high) with block = flat index // 8;
    lane = flat index % 8 counts the 16-bit halves of the four output words, the low half first.
    """
    key0, key1 = split64(seed)
    id_low, id_high = split64(tensor_id)
    first_block = start // LANES
    block_count = -(-(start + count) // LANES) - first_block
    blocks = np.arange(first_block, first_block + block_count, dtype=np.uint64)
    low = blocks.astype(np.uint32)
    high = (blocks >> np.uint64(32)).astype(np.uint32)
    lanes = np.empty((block_count, LANES), dtype=np.uint16)
    for position, word in enumerate(philox4x32(key0, key1, low, high, id_low, id_high)):
        lanes[:, 2 * position] = word & np.uint32(0xFFFF)
        lanes[:, 2 * position + 1] = word >> np.uint32(16)
    skipped = start - first_block * LANES
    return lanes.reshape(-1)[skipped : skipped + count].copy()


def normals(seed: int, tensor_id: int, start: int, count: int) -> Float32s:
    """The normals of elements start .. start + count - 1 of a tensor, float32[count]."""
    return normal_table()[table_indices(seed, tensor_id, start, count)]


def terms(coefficient: np.float32, seed: int, tensor_id: int, start: int, count: int) -> Float32s:
    """`round32(coefficient * normal)` per element: one rounded product, float32[count]."""
    return np.float32(coefficient) * normals(seed, tensor_id, start, count)


def member(master: Float32s, seed: int, tensor_id: int, start: int, sigma: np.float32) -> Float32s:
    """The weights of a member before they are rounded to the served format, float32 like `master`.

    `round32(master + round32(sigma * normal))`; with sigma = +-0 the master itself, its bits unchanged.
    """
    if sigma == 0:
        return master.copy()
    return master + terms(sigma, seed, tensor_id, start, master.size)


def write_member(
    master: Float32s,
    out: Served,
    served: ServedDtype,
    seed: int,
    tensor_id: int,
    start: int,
    sigma: np.float32,
) -> None:
    """Writes a member's weights in the served format to `out`; see `dartes.noise.kernel.write_member`."""
    out[:] = round_to(served, member(master, seed, tensor_id, start, sigma))


def apply_updates(master: Float32s, tensor_id: int, start: int, rows: Sequence[UpdateRow]) -> None:
    """Applies the updates of consecutive iterations to `master` in place.

    Per iteration and element `acc = +0.0; acc += term_i` in member order, then `master += acc`, each step
    one float32 operation. An iteration whose coefficients are all zero changes no bit.
    """
    for seeds, coefficients in rows:
        if not np.any(coefficients):
            continue
        acc = np.zeros(master.size, dtype=np.float32)
        for seed, coefficient in zip(seeds.tolist(), coefficients, strict=True):
            acc += terms(coefficient, seed, tensor_id, start, master.size)
        master += acc


def changes_weights(position: int, row: UpdateRow) -> bool:
    """Whether the row at `position` changes any weight; one whose coefficients are all zero is skipped.

    ValueError for seeds or coefficients that do not fit each other or are not finite.
    """
    seeds, coefficients = row
    if seeds.dtype != np.uint64 or coefficients.dtype != np.float32:
        raise ValueError(
            f"row {position}: seeds are {seeds.dtype} and coefficients {coefficients.dtype}, "
            "but uint64 and float32 are needed"
        )
    if seeds.ndim != 1 or seeds.shape != coefficients.shape:
        raise ValueError(f"row {position}: {seeds.shape} seeds for {coefficients.shape} coefficients")
    if not np.isfinite(coefficients).all():
        raise ValueError(f"row {position}: coefficients must be finite, found {coefficients}")
    return bool(np.any(coefficients))


def mix64(tensor_id: int, index: int, bits: int) -> int:
    """The digest's contribution of one element, on Python ints; see `docs/noise.md`, Digest."""
    x = (tensor_id + index * INDEX_STEP + bits * BITS_STEP) & MASK_64
    x = ((x ^ (x >> 30)) * MIX_1) & MASK_64
    x = ((x ^ (x >> 27)) * MIX_2) & MASK_64
    return x ^ (x >> 31)


def digest_fp32(master: Float32s, tensor_id: int, start: int) -> int:
    """Sum of `mix64(id, flat index, float32 bits)` over the slice, modulo 2**64."""
    return _digest(np.ascontiguousarray(master, dtype=np.float32).view(np.uint32), tensor_id, start)


def digest_served(stored: Served, tensor_id: int, start: int) -> int:
    """The same sum over what is stored in a served format: 16-bit patterns, or float32 bits."""
    bits: NDArray[np.uint32] | NDArray[np.uint16]
    bits = stored.view(np.uint32) if stored.dtype == np.float32 else stored.view(np.uint16)
    return _digest(bits, tensor_id, start)


def digest_rounded(master: Float32s, served: ServedDtype, tensor_id: int, start: int) -> int:
    """The `digest_served` that a served copy of the unperturbed master must have."""
    return digest_served(round_to(served, master), tensor_id, start)


def _digest(bits: NDArray[np.uint16] | NDArray[np.uint32], tensor_id: int, start: int) -> int:
    """`mix64` summed over integer bit patterns whose first flat index is `start`."""
    index = np.arange(start, start + bits.size, dtype=np.uint64)
    x = np.uint64(tensor_id) + index * np.uint64(INDEX_STEP) + bits.astype(np.uint64) * np.uint64(BITS_STEP)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(MIX_1)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(MIX_2)
    x ^= x >> np.uint64(31)
    return int(np.sum(x, dtype=np.uint64))
