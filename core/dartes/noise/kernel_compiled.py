"""The compiled loops of the noise contract: NumPy arrays in, bits of `docs/noise.md` out, in one pass.

Private to `dartes.noise.kernel`, which checks arguments. All compiled code stands in this one file since
the compiler's disk cache watches only the file of the function that it stores. Nothing here is parallel or
may be compiled with fast-math or fused multiply-add, which would change bits. Little-endian machines only.

Work goes chunk by chunk: 32 Philox blocks = 256 elements, whose words, normals and sums stay in the
first-level cache. The compiler turns short loops over slices into vector instructions, but not loops over
`array[position + e]` with signed positions (5 times slower), because each index may count from the end.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numba import njit, types, uint16, uint32, uint64
from numpy.typing import NDArray

from dartes.noise.philox import KEY_STEP_0, KEY_STEP_1, MULTIPLIER_0, MULTIPLIER_1, ROUNDS
from dartes.noise.reference import BITS_STEP, INDEX_STEP, MIX_1, MIX_2

Function = TypeVar("Function", bound=Callable[..., Any])

Floats: TypeAlias = NDArray[np.float32]
Words: TypeAlias = NDArray[np.uint32]
Halves: TypeAlias = NDArray[np.uint16]
Scalar: TypeAlias = Any
"""A machine integer or float whose type the signature of the compiled function fixes."""

CHUNK_BLOCKS = 32
CHUNK = 8 * CHUNK_BLOCKS

_M0 = np.uint64(MULTIPLIER_0)
_M1 = np.uint64(MULTIPLIER_1)
_K0 = np.uint32(KEY_STEP_0)
_K1 = np.uint32(KEY_STEP_1)
_LOW_HALF = np.uint64(0xFFFF)
_INDEX_STEP = np.uint64(INDEX_STEP)
_BITS_STEP = np.uint64(BITS_STEP)
_MIX_1 = np.uint64(MIX_1)
_MIX_2 = np.uint64(MIX_2)

_FLOATS_IN = types.Array(types.float32, 1, "C", readonly=True)
_FLOATS = types.Array(types.float32, 1, "C")
_HALVES = types.Array(types.uint16, 1, "C")
_WORDS_IN = types.Array(types.uint32, 1, "C", readonly=True)
_HALVES_IN = types.Array(types.uint16, 1, "C", readonly=True)
_SEEDS_IN = types.Array(types.uint64, 1, "C", readonly=True)
_OFFSETS_IN = types.Array(types.int64, 1, "C", readonly=True)


def _compiled(*signatures: object) -> Callable[[Function], Function]:
    """Compiles for exactly these signatures, from the disk cache where there is one."""

    def decorate(function: Function) -> Function:
        try:
            compiled: Function = njit(list(signatures), cache=True, nogil=True)(function)
        except RuntimeError as error:
            # The compiler found no writable folder for its cache (a read-only file system without
            # NUMBA_CACHE_DIR). Only time is lost.
            logging.getLogger(__name__).warning("noise kernels are compiled anew in each process: %s", error)
            compiled = njit(list(signatures), nogil=True)(function)
        return compiled

    return decorate


def _inlined(function: Function) -> Function:
    """A helper that becomes part of each kernel that calls it."""
    compiled: Function = njit(inline="always")(function)
    return compiled


@_inlined
def _fill_normals(
    normals: Floats,
    words: Words,
    table: Floats,
    seed: Scalar,
    tensor_id: Scalar,
    first_block: Scalar,
    block_count: Scalar,
) -> None:
    """The 8 normals of each of `block_count` Philox blocks; `words` is room for their 4 words each."""
    seed_low = uint32(seed)
    seed_high = uint32(seed >> np.uint64(32))
    id_low = uint32(tensor_id)
    id_high = uint32(tensor_id >> np.uint64(32))
    for b in range(block_count):
        block = uint64(first_block + uint64(b))
        x0 = uint32(block)
        x1 = uint32(block >> np.uint64(32))
        x2 = id_low
        x3 = id_high
        key0 = seed_low
        key1 = seed_high
        for _ in range(ROUNDS):
            product0 = uint64(x0) * _M0
            product1 = uint64(x2) * _M1
            x0 = uint32(uint32(product1 >> np.uint64(32)) ^ x1 ^ key0)
            x1 = uint32(product1)
            x2 = uint32(uint32(product0 >> np.uint64(32)) ^ x3 ^ key1)
            x3 = uint32(product0)
            key0 = uint32(key0 + _K0)
            key1 = uint32(key1 + _K1)
        words[4 * b] = x0
        words[4 * b + 1] = x1
        words[4 * b + 2] = x2
        words[4 * b + 3] = x3
    # Two words at a time: the fewest loads per normal, on little-endian machines in lane order.
    quads = words.view(np.uint64)
    for q in range(2 * block_count):
        quad = quads[q]
        normals[4 * q] = table[quad & _LOW_HALF]
        normals[4 * q + 1] = table[(quad >> np.uint64(16)) & _LOW_HALF]
        normals[4 * q + 2] = table[(quad >> np.uint64(32)) & _LOW_HALF]
        normals[4 * q + 3] = table[quad >> np.uint64(48)]


@_inlined
def _bfloat16(bits: Scalar) -> Scalar:
    """bfloat16 pattern of a float32 pattern; see `dartes.noise.dtypes.round_bits_bfloat16`."""
    high = uint32(bits >> np.uint32(16))
    rounded = uint32(uint32(bits + uint32(np.uint32(0x7FFF) + uint32(high & np.uint32(1)))) >> np.uint32(16))
    if uint32(bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000):
        rounded = uint32(high | np.uint32(0x0040))
    return uint16(rounded)


@_inlined
def _float16(bits: Scalar) -> Scalar:
    """float16 pattern of a float32 pattern; see `dartes.noise.dtypes.round_bits_float16`."""
    sign = uint32(uint32(bits >> np.uint32(16)) & np.uint32(0x8000))
    magnitude = uint32(bits & np.uint32(0x7FFFFFFF))
    odd = uint32(uint32(magnitude >> np.uint32(13)) & np.uint32(1))
    rebiased = uint32(magnitude - np.uint32(112 << 23))
    result = uint32(uint32(rebiased + uint32(np.uint32(0x0FFF) + odd)) >> np.uint32(13))
    if magnitude < np.uint32(113 << 23):
        exponent = min(uint32(magnitude >> np.uint32(23)), np.uint32(112))
        shift = min(uint32(np.uint32(126) - exponent), np.uint32(25))
        significand = uint32(uint32(magnitude & np.uint32(0x007FFFFF)) | np.uint32(0x00800000))
        kept = uint32(significand >> shift)
        below_half = uint32(uint32(np.uint32(1) << uint32(shift - np.uint32(1))) - np.uint32(1))
        result = uint32(uint32(significand + below_half + uint32(kept & np.uint32(1))) >> shift)
    if magnitude >= np.uint32(0x477FF000):
        result = np.uint32(0x7C00)
    if magnitude > np.uint32(0x7F800000):
        result = uint32(np.uint32(0x7E00) | uint32(uint32(magnitude >> np.uint32(13)) & np.uint32(0x03FF)))
    return uint16(uint32(sign | result))


@_inlined
def _round_chunk(out: Halves, bits: Words, half_precision: Scalar) -> None:
    """Rounds out.size float32 patterns to 16 bits: float16 if `half_precision`, else bfloat16."""
    if half_precision:
        for e in range(out.size):
            out[e] = _float16(bits[e])
    else:
        for e in range(out.size):
            out[e] = _bfloat16(bits[e])


@_inlined
def _mix64_sum(bits: Words | Halves, tensor_id: Scalar, start: Scalar) -> Scalar:
    """Sum of `dartes.noise.reference.mix64` over patterns whose first flat index is `start`."""
    total = uint64(0)
    for e in range(bits.size):
        index = uint64(start + uint64(e))
        x = uint64(tensor_id + index * _INDEX_STEP + uint64(bits[e]) * _BITS_STEP)
        x = uint64((x ^ (x >> np.uint64(30))) * _MIX_1)
        x = uint64((x ^ (x >> np.uint64(27))) * _MIX_2)
        total += uint64(x ^ (x >> np.uint64(31)))
    return total


@_compiled(
    types.void(
        _FLOATS_IN,
        _HALVES,
        types.boolean,
        _FLOATS_IN,
        types.uint64,
        types.uint64,
        types.uint64,
        types.float32,
    )
)
def write_member_16(
    master: Floats,
    out: Halves,
    half_precision: bool,
    table: Floats,
    seed: Scalar,
    tensor_id: Scalar,
    start: Scalar,
    sigma: Scalar,
) -> None:
    """out = round16(master + round32(sigma * normal)); with sigma = 0 out = round16(master)."""
    words = np.empty(4 * CHUNK_BLOCKS, np.uint32)
    normals = np.empty(CHUNK, np.float32)
    sums = np.empty(CHUNK, np.float32)
    sum_bits = sums.view(np.uint32)
    master_bits = master.view(np.uint32)
    block = start >> np.uint64(3)
    skipped: Scalar = np.intp(start & np.uint64(7))
    position = 0
    while position < master.size:
        count = min(master.size - position, CHUNK - skipped)
        written = out[position : position + count]
        if sigma == np.float32(0):
            _round_chunk(written, master_bits[position : position + count], half_precision)
        else:
            _fill_normals(normals, words, table, seed, tensor_id, block, (skipped + count + 7) // 8)
            weights = master[position : position + count]
            drawn = normals[skipped : skipped + count]
            for e in range(count):
                sums[e] = weights[e] + sigma * drawn[e]
            _round_chunk(written, sum_bits, half_precision)
        position += count
        block += np.uint64(CHUNK_BLOCKS)
        skipped = 0


@_compiled(
    types.void(_FLOATS_IN, _FLOATS, _FLOATS_IN, types.uint64, types.uint64, types.uint64, types.float32)
)
def write_member_32(
    master: Floats,
    out: Floats,
    table: Floats,
    seed: Scalar,
    tensor_id: Scalar,
    start: Scalar,
    sigma: Scalar,
) -> None:
    """out = round32(master + round32(sigma * normal)) for a sigma that is not 0."""
    words = np.empty(4 * CHUNK_BLOCKS, np.uint32)
    normals = np.empty(CHUNK, np.float32)
    block = start >> np.uint64(3)
    skipped: Scalar = np.intp(start & np.uint64(7))
    position = 0
    while position < master.size:
        count = min(master.size - position, CHUNK - skipped)
        _fill_normals(normals, words, table, seed, tensor_id, block, (skipped + count + 7) // 8)
        written = out[position : position + count]
        weights = master[position : position + count]
        drawn = normals[skipped : skipped + count]
        for e in range(count):
            written[e] = weights[e] + sigma * drawn[e]
        position += count
        block += np.uint64(CHUNK_BLOCKS)
        skipped = 0


@_compiled(types.void(_FLOATS, _FLOATS_IN, types.uint64, types.uint64, _SEEDS_IN, _FLOATS_IN, _OFFSETS_IN))
def apply_updates(
    master: Floats,
    table: Floats,
    tensor_id: Scalar,
    start: Scalar,
    seeds: NDArray[np.uint64],
    coefficients: Floats,
    offsets: NDArray[np.int64],
) -> None:
    """All updates on each chunk in turn; members of iteration k are offsets[k] .. offsets[k + 1] - 1."""
    words = np.empty(4 * CHUNK_BLOCKS, np.uint32)
    normals = np.empty(CHUNK, np.float32)
    acc = np.empty(CHUNK, np.float32)
    block = start >> np.uint64(3)
    skipped: Scalar = np.intp(start & np.uint64(7))
    position = 0
    while position < master.size:
        count = min(master.size - position, CHUNK - skipped)
        block_count = (skipped + count + 7) // 8
        weights = master[position : position + count]
        drawn = normals[skipped : skipped + count]
        for k in range(offsets.size - 1):
            for e in range(count):
                acc[e] = np.float32(0)
            for i in range(offsets[k], offsets[k + 1]):
                coefficient = coefficients[i]
                _fill_normals(normals, words, table, seeds[i], tensor_id, block, block_count)
                for e in range(count):
                    acc[e] = acc[e] + coefficient * drawn[e]
            for e in range(count):
                weights[e] = weights[e] + acc[e]
        position += count
        block += np.uint64(CHUNK_BLOCKS)
        skipped = 0


@_compiled(
    types.uint64(_WORDS_IN, types.uint64, types.uint64), types.uint64(_HALVES_IN, types.uint64, types.uint64)
)
def digest_bits(bits: Words | Halves, tensor_id: Scalar, start: Scalar) -> Scalar:
    """Sum of mix64 over the stored patterns, modulo 2**64."""
    return _mix64_sum(bits, tensor_id, start)


@_compiled(types.uint64(_WORDS_IN, types.boolean, types.uint64, types.uint64))
def digest_rounded_16(master_bits: Words, half_precision: bool, tensor_id: Scalar, start: Scalar) -> Scalar:
    """`digest_bits` of the float32 patterns rounded to 16 bits, without storing them."""
    rounded = np.empty(CHUNK, np.uint16)
    total = uint64(0)
    position = 0
    while position < master_bits.size:
        chunk = rounded[: min(master_bits.size - position, CHUNK)]
        _round_chunk(chunk, master_bits[position : position + chunk.size], half_precision)
        total += _mix64_sum(chunk, tensor_id, uint64(start + uint64(position)))
        position += chunk.size
    return total
