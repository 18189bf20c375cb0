"""Bit patterns of the served formats: rounding, widening and addition whose bits no device decides.

Device functions on uint32 patterns, in integer arithmetic; what `dartes.noise.dtypes` computes.
"""

from typing import Final

import triton.language as tl

from dartes.noise import ServedDtype
from dartes_worker.kernels.launching import device_function

FLOAT32 = tl.constexpr(0)
BFLOAT16 = tl.constexpr(1)
FLOAT16 = tl.constexpr(2)

FORMATS: Final = {ServedDtype.FLOAT32: 0, ServedDtype.BFLOAT16: 1, ServedDtype.FLOAT16: 2}
"""The number by which kernels know a served format."""


@device_function
def is_nan(bits: tl.tensor) -> tl.tensor:
    """Whether float32 patterns are NaN."""
    return (bits & 0x7FFFFFFF) > 0x7F800000


@device_function
def add(bits: tl.tensor, term: tl.tensor) -> tl.tensor:
    """Return the float32 patterns of `round32(value + term)` for patterns `bits` and float32 `term`.

    A GPU would give one fixed NaN. Here a NaN keeps its sign and payload and becomes quiet, and opposite
    infinities give the NaN of x86 processors, as the CPU kernels do there.
    """
    total = (bits.to(tl.float32, bitcast=True) + term).to(tl.uint32, bitcast=True)
    return tl.where(is_nan(total), tl.where(is_nan(bits), bits | 0x00400000, 0xFFC00000), total)


@device_function
def rounded(bits: tl.tensor, FORMAT: tl.constexpr) -> tl.tensor:
    """Return the patterns in a served format of float32 patterns, to nearest and ties to even, as uint32."""
    if FORMAT == BFLOAT16:
        high = bits >> 16
        result = tl.where(is_nan(bits), high | 0x0040, (bits + (high & 1) + 0x7FFF) >> 16)
    elif FORMAT == FLOAT16:
        magnitude = bits & 0x7FFFFFFF
        normal = (magnitude - 0x38000000 + 0x0FFF + ((magnitude >> 13) & 1)) >> 13
        shift = tl.minimum(126 - tl.minimum(magnitude >> 23, 112), 25)
        significand = (magnitude & 0x007FFFFF) | 0x00800000
        below_half = (tl.full(shift.shape, 1, tl.uint32) << (shift - 1)) - 1
        subnormal = (significand + below_half + ((significand >> shift) & 1)) >> shift
        finite = tl.where(magnitude < 0x38800000, subnormal, normal)
        nan = 0x7E00 | ((magnitude >> 13) & 0x03FF)
        special = tl.where(magnitude > 0x7F800000, nan, 0x7C00)
        result = ((bits >> 16) & 0x8000) | tl.where(magnitude >= 0x477FF000, special, finite)
    else:
        result = bits
    return result


@device_function
def widened(bits: tl.tensor, FORMAT: tl.constexpr) -> tl.tensor:
    """Return the float32 patterns of patterns in a served format (uint32), exactly."""
    if FORMAT == BFLOAT16:
        result = bits << 16
    elif FORMAT == FLOAT16:
        magnitude = bits & 0x7FFF
        # A subnormal half is a multiple of 2**-24, which float32 holds as a normal number.
        subnormal = (magnitude.to(tl.float32) * 5.9604644775390625e-08).to(tl.uint32, bitcast=True)
        finite = tl.where(magnitude < 0x0400, subnormal, (magnitude << 13) + 0x38000000)
        special = (magnitude << 13) | 0x7F800000
        result = ((bits & 0x8000) << 16) | tl.where(magnitude >= 0x7C00, special, finite)
    else:
        result = bits
    return result
