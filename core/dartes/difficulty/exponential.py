"""exp() whose bits are the same on every machine, for weights and draw probabilities.

NumPy's and the C library's `exp` differ in the last bit between processors, which would let two replicas of
one run draw different batches. This one uses IEEE additions, subtractions and multiplications alone, each in
its own NumPy call, so that no compiler can fuse or reorder them.
"""

import math

import numpy as np
from numpy.typing import NDArray

LOWEST = -746.0
"""exp() is 0 in float64 from here down."""

_INVERSE_LN2 = float.fromhex("0x1.71547652b82fep+0")
# ln 2 in two parts: the high one has 32 significant bits, so its product with any k <= 1077 is exact.
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
# 1/13!, 1/12!, ..., 1/2!: with |r| <= 0.347 the first term left out, r**14 / 14!, is below 2**-57.
_COEFFICIENTS = tuple(1.0 / math.factorial(n) for n in range(13, 1, -1))
# Elements per pass; eight arrays of this size stay in a core's second-level cache.
_CHUNK = 1 << 14


def exp(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """e**x for x <= 0, elementwise; float64 of x's shape, within 0.75 ulp.

    Raises ValueError for a positive or NaN argument. Method: x = k ln 2 + r with |r| <= ln 2 / 2 and r kept
    in two parts, a Taylor polynomial in Horner form, then an exact scaling by 2**k (rounded once where the
    result is subnormal).
    """
    x = np.asarray(x, dtype=np.float64)
    if not np.all(x <= 0.0):
        raise ValueError("exp: every argument must be a number of at most 0")
    flat = x.reshape(-1)
    result = np.empty_like(flat)
    for start in range(0, flat.size, _CHUNK):
        result[start : start + _CHUNK] = _exp_chunk(flat[start : start + _CHUNK])
    return result.reshape(x.shape)


def _exp_chunk(x: NDArray[np.float64]) -> NDArray[np.float64]:
    x = np.maximum(x, LOWEST)
    k = np.rint(x * _INVERSE_LN2)
    high = x - k * _LN2_HIGH
    low = k * _LN2_LOW
    r = high - low
    r_error = (high - r) - low
    polynomial = np.full_like(r, _COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        polynomial = polynomial * r + coefficient
    # 1 + r is rounded, and that rounding is known exactly (|r| < 1), so it goes back into the small terms.
    head = 1.0 + r
    head_error = r - (head - 1.0)
    tail = head_error + (r_error + (r * r) * polynomial)
    return np.ldexp(head + tail, k.astype(np.int32))
