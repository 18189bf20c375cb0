"""Every random decision but the noise itself: 64-bit words addressed by (run seed, purpose, stage, step, k).

Any word can be computed on its own, so no generator has a state to store, and no library's stream, which
may change by version, decides anything. This module does not know what its callers draw.
"""

from collections.abc import Callable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from dartes.noise.philox import philox4x32, philox4x32_block, split64

WORD_LIMIT = 1 << 33
"""Words per (run seed, purpose, stage, step): the block number k // 2 is one 32-bit counter word."""

STAGE_LIMIT = 1 << 24
MEMBER_LIMIT = 1 << 16
GROUP_LIMIT = 1 << 16


class Purpose(IntEnum):
    """What a stream decides; the number is part of the counter and never changes its meaning."""

    MEMBER_SEED = 1
    EPOCH_SHUFFLE = 2
    REPLAY_DRAW = 3
    BATCH_SHUFFLE = 4
    SAMPLING = 5


def words(
    run_seed: int, purpose: Purpose, stage: int, step: int, start: int, count: int
) -> NDArray[np.uint64]:
    """Words k = start .. start + count - 1 of one stream, uint64[count].

    `step` is the epoch or the iteration, below 2**64; `stage` is below 2**24. Word k is taken from the
    Philox block k // 2: its outputs (0, 1) for even k, (2, 3) for odd k, low word first.
    """
    key0, key1, c1, c2, c3 = _address(run_seed, purpose, stage, step, start, count)
    first_block = start // 2
    block_count = (start + count + 1) // 2 - first_block
    blocks = np.arange(first_block, first_block + block_count, dtype=np.uint64).astype(np.uint32)
    x0, x1, x2, x3 = philox4x32(key0, key1, blocks, c1, c2, c3)
    pairs = np.empty((block_count, 2), dtype=np.uint64)
    high = np.uint64(32)
    pairs[:, 0] = x0.astype(np.uint64) | (x1.astype(np.uint64) << high)
    pairs[:, 1] = x2.astype(np.uint64) | (x3.astype(np.uint64) << high)
    skipped = start - 2 * first_block
    return pairs.reshape(-1)[skipped : skipped + count].copy()


def word(run_seed: int, purpose: Purpose, stage: int, step: int, k: int) -> int:
    """Word k of one stream, as a Python int in [0, 2**64); equal to `words(..., k, 1)[0]`."""
    key0, key1, c1, c2, c3 = _address(run_seed, purpose, stage, step, k, 1)
    block = philox4x32_block(key0, key1, k // 2, c1, c2, c3)
    low, high = block[2:] if k % 2 else block[:2]
    return low | (high << 32)


class WordSource:
    """The words of one stream in order, k = 0, 1, 2, ...; calling it gives the next one.

    It computes ahead in small chunks; `position` is the k of the next word.
    """

    _CHUNK = 128

    def __init__(self, run_seed: int, purpose: Purpose, stage: int, step: int) -> None:
        _address(run_seed, purpose, stage, step, 0, 0)
        self._stream = (run_seed, purpose, stage, step)
        self._ahead: list[int] = []
        self.position = 0

    def __call__(self) -> int:
        if not self._ahead:
            count = min(self._CHUNK, max(1, WORD_LIMIT - self.position))
            self._ahead = words(*self._stream, self.position, count).tolist()[::-1]
        self.position += 1
        return self._ahead.pop()


def below(word_source: Callable[[], int], n: int) -> int:
    """An unbiased integer in [0, n), 1 <= n <= 2**64.

    Takes words until one lies below the largest multiple of n that is at most 2**64, and returns it
    modulo n. At least one word is always taken, also for n = 1.
    """
    if not 1 <= n <= 1 << 64:
        raise ValueError(f"n = {n}: an integer draw needs 1 <= n <= 2**64")
    accepted = (1 << 64) - (1 << 64) % n
    while True:
        drawn = word_source()
        if drawn < accepted:
            return drawn % n


def shuffled(run_seed: int, purpose: Purpose, stage: int, step: int, count: int) -> NDArray[np.int64]:
    """The indices 0 .. count - 1 sorted by (word k, k), int64[count]: the shuffle of this project."""
    return np.argsort(words(run_seed, purpose, stage, step, 0, count), kind="stable").astype(np.int64)


def sampling_seed(run_seed: int, stage: int, iteration: int, member: int, group: int) -> int:
    """The 64-bit seed for sampled decoding of one generation group: word member * 2**16 + group."""
    if not (0 <= member < MEMBER_LIMIT and 0 <= group < GROUP_LIMIT):
        raise ValueError(f"member {member}, group {group}: both must be at least 0 and below 2**16")
    return word(run_seed, Purpose.SAMPLING, stage, iteration, member * GROUP_LIMIT + group)


def _address(
    run_seed: int, purpose: Purpose, stage: int, step: int, start: int, count: int
) -> tuple[int, int, int, int, int]:
    """Key words 0 and 1 and counter words 1 to 3 of a stream; ValueError for what has no address."""
    if not 0 <= stage < STAGE_LIMIT:
        raise ValueError(f"stage {stage}: must be at least 0 and below 2**24")
    if start < 0 or count < 0 or start + count > WORD_LIMIT:
        raise ValueError(f"words {start} to {start + count}: a stream has the words 0 to 2**33 - 1")
    key0, key1 = split64(run_seed)
    step_low, step_high = split64(step)
    return key0, key1, int(purpose) | (stage << 8), step_low, step_high
