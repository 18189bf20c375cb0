"""Results as they travel: packed bits and little-endian float32, absent where they say nothing new."""

import numpy as np
from numpy.typing import NDArray


class EncodingError(ValueError):
    """A payload's length does not fit the number of positions it claims to cover."""


def pack_bits(bits: NDArray[np.bool_]) -> bytes:
    """One bit per element, least significant first; the last byte is padded with zeros."""
    return np.packbits(bits, bitorder="little").tobytes()


def unpack_bits(payload: bytes, count: int) -> NDArray[np.bool_]:
    """Inverse of `pack_bits` for `count` elements. Raises EncodingError where the length is wrong."""
    if len(payload) != (count + 7) // 8:
        expected = (count + 7) // 8
        raise EncodingError(f"{len(payload)} bytes of bits for {count} positions; expected {expected}")
    return np.unpackbits(np.frombuffer(payload, np.uint8), count=count, bitorder="little").astype(np.bool_)


def pack_floats(values: NDArray[np.float32]) -> bytes:
    """Little-endian float32, shape [count]."""
    return values.astype("<f4").tobytes()


def unpack_floats(payload: bytes, count: int) -> NDArray[np.float32]:
    """Inverse of `pack_floats`. Raises EncodingError on a wrong length or a value that is not finite."""
    if len(payload) != 4 * count:
        raise EncodingError(f"{len(payload)} bytes of float32 for {count} positions; expected {4 * count}")
    values = np.frombuffer(payload, "<f4").astype(np.float32)
    if not np.isfinite(values).all():
        raise EncodingError("a score is not a finite number")
    return values
