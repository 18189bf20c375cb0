"""Philox 4x32 with 10 rounds, on NumPy arrays and on Python integers.

The generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011):
a bijection of a 128-bit counter under a 64-bit key. This module knows nothing of what the words are for.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint32]

ROUNDS = 10
MULTIPLIER_0 = 0xD2511F53
MULTIPLIER_1 = 0xCD9E8D57
KEY_STEP_0 = 0x9E3779B9
KEY_STEP_1 = 0xBB67AE85

MASK_32 = 0xFFFFFFFF
MASK_64 = 0xFFFFFFFFFFFFFFFF


def split64(value: int) -> tuple[int, int]:
    """The low and the high 32-bit word of a 64-bit unsigned integer; ValueError outside [0, 2**64)."""
    if not 0 <= value <= MASK_64:
        raise ValueError(f"{value} is not an unsigned 64-bit integer (0 <= value < 2**64)")
    return value & MASK_32, value >> 32


def philox4x32_block(key0: int, key1: int, c0: int, c1: int, c2: int, c3: int) -> tuple[int, int, int, int]:
    """One block of four 32-bit words from a key of two and a counter of four 32-bit words (Python ints)."""
    for _ in range(ROUNDS):
        product0 = MULTIPLIER_0 * c0
        product1 = MULTIPLIER_1 * c2
        c0, c1, c2, c3 = (
            (product1 >> 32) ^ c1 ^ key0,
            product1 & MASK_32,
            (product0 >> 32) ^ c3 ^ key1,
            product0 & MASK_32,
        )
        key0 = (key0 + KEY_STEP_0) & MASK_32
        key1 = (key1 + KEY_STEP_1) & MASK_32
    return c0, c1, c2, c3


def philox4x32(
    key0: int,
    key1: int,
    c0: int | Words,
    c1: int | Words,
    c2: int | Words,
    c3: int | Words,
) -> tuple[Words, Words, Words, Words]:
    """Blocks of four words for many counters under one key.

    The counter words are uint32 arrays of one shape, or integers that stand for all blocks; the result is
    four uint32 arrays of the common shape (at least one dimension). Equal to `philox4x32_block` per element.
    """
    x0, x1, x2, x3 = (
        np.array(word, dtype=np.uint64)
        for word in np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(c, dtype=np.uint32)) for c in (c0, c1, c2, c3))
        )
    )
    mask = np.uint64(MASK_32)
    high = np.uint64(32)
    for _ in range(ROUNDS):
        product0 = x0 * np.uint64(MULTIPLIER_0)
        product1 = x2 * np.uint64(MULTIPLIER_1)
        x0 = (product1 >> high) ^ x1 ^ np.uint64(key0)
        x1 = product1 & mask
        x2 = (product0 >> high) ^ x3 ^ np.uint64(key1)
        x3 = product0 & mask
        key0 = (key0 + KEY_STEP_0) & MASK_32
        key1 = (key1 + KEY_STEP_1) & MASK_32
    return x0.astype(np.uint32), x1.astype(np.uint32), x2.astype(np.uint32), x3.astype(np.uint32)
