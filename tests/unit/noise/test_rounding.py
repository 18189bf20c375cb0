"""Rounding to the served formats: reference, kernel and `torch` agree on every kind of number."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dartes.noise import ServedDtype, kernel
from dartes.noise.dtypes import round_to

TORCH = {ServedDtype.BFLOAT16: torch.bfloat16, ServedDtype.FLOAT16: torch.float16}
HALVES = list(TORCH)


def by_kernel(served: ServedDtype, bits: NDArray[np.uint32]) -> NDArray[np.uint16]:
    out = np.empty(bits.size, dtype=np.uint16)
    kernel.round_into(bits.view(np.float32), out, served)
    return out


def by_torch(served: ServedDtype, bits: NDArray[np.uint32]) -> NDArray[np.uint16]:
    converted = torch.from_numpy(bits.view(np.float32)).to(TORCH[served])
    return converted.view(torch.int16).numpy().view(np.uint16)


def is_nan(bits: NDArray[np.uint32]) -> NDArray[np.bool_]:
    return (bits & np.uint32(0x7FFFFFFF)) > 0x7F800000


def widened(served: ServedDtype) -> NDArray[np.uint32]:
    """The float32 bits of all 2**16 patterns of a format."""
    patterns = torch.from_numpy(np.arange(65536, dtype=np.uint16).view(np.int16).copy())
    return patterns.view(TORCH[served]).float().numpy().view(np.uint32)


@pytest.mark.parametrize("served", HALVES)
def test_rounding_equals_torch_on_random_bits(served: ServedDtype) -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 4_000_000, dtype=np.uint32)
    # Uniform bits are mostly outside float16's range: half of them get an exponent inside and around it.
    exponents = np.random.default_rng(2).integers(99, 146, 2_000_000, dtype=np.uint32)
    bits[::2] = (bits[::2] & np.uint32(0x807FFFFF)) | (exponents << np.uint32(23))
    rounded = by_kernel(served, bits)
    assert np.array_equal(rounded, round_to(served, bits.view(np.float32)))
    number = ~is_nan(bits)
    assert np.array_equal(rounded[number], by_torch(served, bits)[number])


@pytest.mark.parametrize("served", HALVES)
def test_rounding_is_right_around_every_value_of_the_format(served: ServedDtype) -> None:
    values = widened(served)
    values = values[~is_nan(values)]
    step = 1 << (16 if served is ServedDtype.BFLOAT16 else 13)
    around = [0, 1, 2, step // 2 - 1, step // 2, step // 2 + 1, step - 1]
    bits = np.concatenate([values + np.uint32(d) for d in around] + [values - np.uint32(d) for d in around])
    # Halfway between subnormal float16 lies elsewhere: the middle of neighbours, exact in float64.
    with np.errstate(over="ignore"):
        magnitudes = np.sort(values[values < 0x7F800000].view(np.float32).astype(np.float64))
        middles = ((magnitudes[1:] + magnitudes[:-1]) / 2).astype(np.float32).view(np.uint32)
    bits = np.concatenate([bits, middles, middles - np.uint32(1), middles + np.uint32(1)])
    bits = bits[~is_nan(bits)]
    rounded = by_kernel(served, bits)
    assert np.array_equal(rounded, round_to(served, bits.view(np.float32)))
    assert np.array_equal(rounded, by_torch(served, bits))


@pytest.mark.parametrize("served", HALVES)
def test_a_value_of_the_format_is_kept(served: ServedDtype) -> None:
    bits = widened(served)
    kept = ~is_nan(bits)
    assert np.array_equal(by_kernel(served, bits)[kept], np.arange(65536, dtype=np.uint16)[kept])


@pytest.mark.parametrize(
    ("served", "bits", "expected"),
    [
        (ServedDtype.BFLOAT16, 0x7F800001, 0x7FC0),
        (ServedDtype.BFLOAT16, 0xFFFFFFFF, 0xFFFF),
        (ServedDtype.BFLOAT16, 0x7F7FFFFF, 0x7F80),
        (ServedDtype.BFLOAT16, 0x80000000, 0x8000),
        (ServedDtype.BFLOAT16, 0x00008000, 0x0000),
        (ServedDtype.BFLOAT16, 0x00008001, 0x0001),
        (ServedDtype.BFLOAT16, 0x00018000, 0x0002),
        (ServedDtype.FLOAT16, 0x7F800001, 0x7E00),
        (ServedDtype.FLOAT16, 0xFFFFFFFF, 0xFFFF),
        (ServedDtype.FLOAT16, 0x477FEFFF, 0x7BFF),
        (ServedDtype.FLOAT16, 0x477FF000, 0x7C00),
        (ServedDtype.FLOAT16, 0xFF800000, 0xFC00),
        (ServedDtype.FLOAT16, 0x80000000, 0x8000),
        (ServedDtype.FLOAT16, 0x33000000, 0x0000),
        (ServedDtype.FLOAT16, 0x33000001, 0x0001),
        (ServedDtype.FLOAT16, 0x33C00000, 0x0002),
        (ServedDtype.FLOAT16, 0x387FFFFF, 0x0400),
        (ServedDtype.FLOAT16, 0xB87FE000, 0x8400),
    ],
)
def test_the_edges_of_the_formats(served: ServedDtype, bits: int, expected: int) -> None:
    one = np.array([bits], dtype=np.uint32)
    assert by_kernel(served, one).tolist() == [expected]
    assert round_to(served, one.view(np.float32)).tolist() == [expected]


def test_float32_is_passed_through_bit_for_bit() -> None:
    bits = np.random.default_rng(3).integers(0, 2**32, 100_000, dtype=np.uint32)
    out = np.empty(bits.size, dtype=np.float32)
    kernel.round_into(bits.view(np.float32), out, ServedDtype.FLOAT32)
    assert np.array_equal(out.view(np.uint32), bits)
    assert np.array_equal(round_to(ServedDtype.FLOAT32, bits.view(np.float32)).view(np.uint32), bits)
