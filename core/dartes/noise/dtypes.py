"""The formats in which an engine serves weights, and the rounding of float32 to them as NumPy reference.

16-bit values are held as their bit patterns in uint16 arrays. Rounding is to nearest, ties to even, in
integer arithmetic, so that no library's conversion decides a bit.
"""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class ServedDtype(StrEnum):
    """Format of the served copy of the weights; the values are `torch`'s and the hub's names."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"

    @property
    def storage(self) -> np.dtype[np.uint16] | np.dtype[np.float32]:
        """The NumPy dtype that holds one value: uint16 bit patterns, or float32 itself."""
        return np.dtype(np.float32) if self is ServedDtype.FLOAT32 else np.dtype(np.uint16)

    @property
    def bytes_per_value(self) -> int:
        """Size of one stored value in bytes."""
        return self.storage.itemsize


def round_to(served: ServedDtype, values: NDArray[np.float32]) -> NDArray[np.uint16] | NDArray[np.float32]:
    """float32 values rounded to the served format: uint16 bit patterns, or a float32 copy; same shape.

    Overflow gives infinity, signs are kept also of zeros, and a NaN becomes the quiet NaN that keeps its
    sign and its highest payload bits (`docs/noise.md`, Rounding).
    """
    if served is ServedDtype.FLOAT32:
        return np.array(values, dtype=np.float32)
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return round_bits_bfloat16(bits) if served is ServedDtype.BFLOAT16 else round_bits_float16(bits)


def round_bits_bfloat16(bits: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """bfloat16 bit patterns nearest to float32 bit patterns, ties to even."""
    high = bits >> np.uint32(16)
    rounded = (bits + (np.uint32(0x7FFF) + (high & np.uint32(1)))) >> np.uint32(16)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    result: NDArray[np.uint32] = np.where(is_nan, high | np.uint32(0x0040), rounded)
    return result.astype(np.uint16)


def round_bits_float16(bits: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """IEEE half-precision bit patterns nearest to float32 bit patterns, ties to even.

    Values below 2**-14 become subnormals of step 2**-24: the significand with its leading one is shifted
    right by 126 - exponent places. Values of at least 65520 become infinity.
    """
    sign = (bits >> np.uint32(16)) & np.uint32(0x8000)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    # Normal halves: move the exponent's bias from 127 to 15 and drop 13 bits; a carry out of the
    # significand correctly raises the exponent, up to infinity.
    odd = (magnitude >> np.uint32(13)) & np.uint32(1)
    normal = (magnitude - np.uint32(112 << 23) + np.uint32(0x0FFF) + odd) >> np.uint32(13)
    # Subnormal halves. Shifts of 25 and more give zero, as do all values up to 2**-25 (a tie, to even).
    shift = np.minimum(np.uint32(126) - np.minimum(magnitude >> np.uint32(23), np.uint32(112)), np.uint32(25))
    significand = (magnitude & np.uint32(0x007FFFFF)) | np.uint32(0x00800000)
    kept = significand >> shift
    half = np.uint32(1) << (shift - np.uint32(1))
    subnormal = (significand + (half - np.uint32(1)) + (kept & np.uint32(1))) >> shift
    finite = np.where(magnitude < np.uint32(113 << 23), subnormal, normal)
    nan = np.uint32(0x7E00) | ((magnitude >> np.uint32(13)) & np.uint32(0x03FF))
    special = np.where(magnitude > np.uint32(0x7F800000), nan, np.uint32(0x7C00))
    result: NDArray[np.uint32] = sign | np.where(magnitude >= np.uint32(0x477FF000), special, finite)
    return result.astype(np.uint16)
