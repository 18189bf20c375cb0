"""What the checks in the interpreter share: stretches, numbers hard to round, and the CPU's answer."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dartes.noise import ServedDtype, kernel
from dartes.noise.dtypes import round_to
from dartes.noise.reference import Served, UpdateRow
from dartes_worker.engines.storage import TORCH_DTYPES, as_numpy
from dartes_worker.weights.stretch import Stretch

SEED = 2**64 - 5
KEY = 2**63 + 1
SIZE = 6000
"""Elements of the tensors that stretches lie in."""


def stretch(
    start: int, offset: int, length: int, rows: int = 1, source_step: int = 0, target_step: int = 0
) -> Stretch:
    return Stretch("checkpoint", "served", start, offset, length, rows, source_step, target_step)


STRETCHES = {
    "a whole tensor": stretch(0, 0, SIZE),
    "one element": stretch(5, 3, 1),
    "a block": stretch(16, 24, 8),
    "all but the ends": stretch(3, 1, SIZE - 2),
    "end in a block": stretch(8, 8, 4091),
    "across 2**31": stretch(2**31 - 5, 7, 100),
    "across 2**32 blocks": stretch(2**35 - 13, 0, 2050),
    "far": stretch(2**62 + 1, 11, 300),
    "aligned rows": stretch(64, 128, 64, 40, 256, 128),
    "columns": stretch(1, 2, 37, 33, 100, 37),
    "rows of one": stretch(7, 0, 1, 1000, 3, 5),
    "long rows": stretch(2**33 + 9, 5, 1500, 3, 2**31 + 3, 1777),
}

HARD = np.array(
    [
        *(0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000),
        *(0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345, 0x7FFFFFFF, 0x7FC00000, 0xFFBFFFFF),
        *(0x7F7FFFFF, 0xFF7FFFFF, 0x7F7F7FFF, 0x7F7F8000, 0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001),
        *(0x477FE000, 0x477FEFFF, 0x477FF000, 0xC77FF001, 0x38800000, 0x387FFFFF, 0x387FE000, 0x387FF000),
        *(0x33800000, 0x33000000, 0x33000001, 0x32FFFFFF, 0x33C00000, 0xB3400000, 0x3F801000, 0x3F803000),
    ],
    dtype=np.uint32,
).view(np.float32)
"""Zeros, subnormal numbers, infinities, NaN, ties and borders of both 16-bit formats."""


def weights(size: int = SIZE) -> NDArray[np.float32]:
    """Weights of usual size with one hard number in every five."""
    values = np.random.default_rng(1).standard_normal(size, dtype=np.float32) * np.float32(0.02)
    values[::5] = np.resize(HARD, values[::5].size)
    return values


def served_tensor(served: ServedDtype, wide: bool, size: int = SIZE) -> torch.Tensor:
    """A tensor full of a number that no kernel writes."""
    return torch.full((size,), 7.75, dtype=torch.float32 if wide else TORCH_DTYPES[served])


def written_by_cpu(
    values: NDArray[np.float32], into: torch.Tensor, served: ServedDtype, part: Stretch, sigma: float
) -> torch.Tensor:
    """What a tensor holds after the CPU kernel has written a member, row by row."""
    result = into.clone()
    for number in range(part.rows):
        row = part.row(number)
        out: Served = np.empty(row.length, dtype=served.storage)
        master = values[row.offset : row.offset + row.length]
        kernel.write_member(master, out, served, SEED, KEY, row.start, sigma)
        result.view(BITS[result.dtype])[row.offset : row.offset + row.length] = torch.from_numpy(
            widened(out, served).view(np.int32) if result.dtype is torch.float32 else out.view(np.int16)
        )
    return result


BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}


def widened(stored: Served, served: ServedDtype) -> NDArray[np.float32]:
    """Served values as float32, with the sign and payload of a NaN."""
    if served is ServedDtype.FLOAT32:
        return stored.view(np.float32)
    if served is ServedDtype.BFLOAT16:
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    single: NDArray[np.float32] = stored.view(np.float16).astype(np.float32)
    return single


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.view(BITS[one.dtype]), other.view(BITS[other.dtype]))


def updated_by_cpu(
    values: NDArray[np.float32], part: Stretch, rows: Sequence[UpdateRow]
) -> NDArray[np.float32]:
    """Master weights after the CPU kernel has applied updates, row by row."""
    result = values.copy()
    for number in range(part.rows):
        row = part.row(number)
        kernel.apply_updates(result[row.offset : row.offset + row.length], KEY, row.start, rows)
    return result


def digest_by_cpu(values: torch.Tensor, served: ServedDtype, part: Stretch) -> int:
    """D by the CPU kernel, row by row, of served values or of float32 ones rounded first."""
    total = 0
    for number in range(part.rows):
        row = part.row(number)
        stored: Served = as_numpy(values[row.offset : row.offset + row.length])
        if stored.dtype == np.float32:
            stored = round_to(served, stored.view(np.float32))
        total += kernel.digest_served(stored, KEY, row.start)
    return total % 2**64


def row_of(*coefficients: float, seed: int = 3) -> UpdateRow:
    seeds = np.random.default_rng(seed).integers(0, 2**64, len(coefficients), dtype=np.uint64)
    return seeds, np.array(coefficients, dtype=np.float32)
