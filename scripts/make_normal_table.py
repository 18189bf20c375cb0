"""Makes the normal table of the noise contract, `core/dartes/noise/normals-v1.f32`, with mpmath.

The file is shipped and its SHA-256 is a constant: this script documents how it came to be and lets anyone
make it again. Nothing reads it at run time, so that no math library can decide a bit of the noise.

Usage: python scripts/make_normal_table.py OUTPUT
"""

import hashlib
import sys
from pathlib import Path

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

SIZE = 65536
DECIMAL_DIGITS = 40


def positive_quantile(index: int) -> mpf:
    """The normal quantile at (index + 0.5) / 65536 for 32768 <= index < 65536, before scaling."""
    with mp.workdps(DECIMAL_DIGITS):
        return mp.sqrt(2) * mp.erfinv(mpf(2 * index + 1 - SIZE) / SIZE)


def standard_deviation(positive: list[mpf]) -> mpf:
    """Root mean square of the symmetric table whose positive half is given."""
    with mp.workdps(DECIMAL_DIGITS):
        return mp.sqrt(mp.fsum(value * value for value in positive) / len(positive))


def round_to_float32(value: mpf) -> float:
    """The nearest number with 24 significant bits (ties to even), which in this range is a float32."""
    with mp.workprec(24):
        return float(+value)


def make_table() -> NDArray[np.float32]:
    """The table, float32[65536]: exactly sign-symmetric, variance 1 before the one rounding per entry."""
    positive = [positive_quantile(index) for index in range(SIZE // 2, SIZE)]
    deviation = standard_deviation(positive)
    with mp.workdps(DECIMAL_DIGITS):
        scaled = [value / deviation for value in positive]
    half = np.array([round_to_float32(value) for value in scaled], dtype=np.float32)
    return np.concatenate([-half[::-1], half])


def main(output: Path) -> None:
    """Writes the table as little-endian float32 and prints its SHA-256."""
    data = make_table().astype("<f4").tobytes()
    output.write_bytes(data)
    print(f"{hashlib.sha256(data).hexdigest()}  {output}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
