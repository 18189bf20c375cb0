"""Weighted drawing without replacement, in integers: the same picks on every machine.

It knows weights and a source of random words; what is drawn, and why, is the caller's.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty.exponential import exp
from dartes.noise.streams import below

WEIGHT_SCALE = float(1 << 32)
# A draw reads the sums of all blocks and the members of one: the square root of a million candidates each.
_BLOCK = 1024


def draw_weights(estimates: NDArray[np.float64], exponent: float) -> NDArray[np.int64]:
    """Integer draw weights round(2**32 * exp(-exponent * estimate)), half to even, at least 1; int64[E].

    The lower bound keeps every candidate drawable where a steep exponent would round its weight to 0.
    """
    scaled = np.rint(exp(-(exponent * estimates)) * WEIGHT_SCALE)
    return np.maximum(scaled.astype(np.int64), 1)


def draw_without_replacement(
    weights: NDArray[np.int64], count: int, word_source: Callable[[], int]
) -> NDArray[np.int64]:
    """Positions of `count` different candidates in the order drawn, int64[count].

    Each draw takes an integer below the sum of the weights that are left, and picks the first candidate, in
    index order, at which the running sum exceeds it. `weights` int64[E], each at least 1, sum below 2**63.
    """
    if not 0 <= count <= weights.size:
        raise ValueError(f"cannot draw {count} of {weights.size} candidates")
    block_count = -(-weights.size // _BLOCK)
    left = np.zeros(block_count * _BLOCK, dtype=np.int64)
    left[: weights.size] = weights
    blocks = left.reshape(block_count, _BLOCK)
    block_sums = blocks.sum(axis=1)
    total = int(block_sums.sum())
    picks = np.empty(count, dtype=np.int64)
    for draw in range(count):
        target = below(word_source, total)
        block, rest = _locate(block_sums, target)
        inside, _ = _locate(blocks[block], rest)
        picks[draw] = block * _BLOCK + inside
        weight = blocks[block, inside]
        blocks[block, inside] = 0
        block_sums[block] -= weight
        total -= int(weight)
    return picks


def _locate(parts: NDArray[np.int64], target: int) -> tuple[int, int]:
    """The first position whose running sum exceeds target, and target less the sum before it."""
    running = np.cumsum(parts)
    position = int(np.searchsorted(running, target, side="right"))
    return position, target - int(running[position] - parts[position])
