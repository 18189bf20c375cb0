"""Writing a member: the kernel writes the bits of the CPU kernel, and no element more."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes_worker.kernels.launching import tiling
from dartes_worker.kernels.write import write_member
from dartes_worker.weights.stretch import Stretch
from tests.unit.kernels.interpreted.kit import (
    HARD,
    KEY,
    SEED,
    SIZE,
    STRETCHES,
    same_bits,
    served_tensor,
    stretch,
    weights,
    written_by_cpu,
)

KINDS = [
    (ServedDtype.FLOAT32, True),
    (ServedDtype.BFLOAT16, False),
    (ServedDtype.BFLOAT16, True),
    (ServedDtype.FLOAT16, False),
    (ServedDtype.FLOAT16, True),
]


def check(served: ServedDtype, wide: bool, part: Stretch, sigma: float, blocks: int | None = None) -> None:
    values = weights()
    out = served_tensor(served, wide)
    expected = written_by_cpu(values, out, served, part, sigma)
    master = torch.from_numpy(values.copy())
    write_member(master, out, served, part, KEY, SEED, sigma, blocks)
    assert same_bits(out, expected)
    assert np.array_equal(master.numpy().view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize("part", STRETCHES.values(), ids=STRETCHES)
@pytest.mark.parametrize(("served", "wide"), KINDS)
def test_a_member_has_the_bits_of_the_cpu_kernel(served: ServedDtype, wide: bool, part: Stretch) -> None:
    check(served, wide, part, 1e-3)


@pytest.mark.parametrize("part", [STRETCHES["columns"], STRETCHES["aligned rows"], STRETCHES["a block"]])
@pytest.mark.parametrize(("served", "wide"), KINDS)
def test_sigma_zero_writes_the_rounded_master(served: ServedDtype, wide: bool, part: Stretch) -> None:
    check(served, wide, part, 0.0)
    check(served, wide, part, -0.0)


@pytest.mark.parametrize("blocks", [8, 128])
@pytest.mark.parametrize("name", ["columns", "aligned rows", "across 2**31", "rows of one"])
def test_the_tiles_that_a_device_uses_change_no_bit(name: str, blocks: int) -> None:
    part = STRETCHES[name]
    small = stretch(
        part.start, part.offset, part.length, min(part.rows, 9), part.source_step, part.target_step
    )
    check(ServedDtype.BFLOAT16, False, small, 1e-3, blocks)


@pytest.mark.parametrize("sigma", [-1e-3, 1e-40, -1e-45, 1e-30, 3e4])
@pytest.mark.parametrize(("served", "wide"), KINDS)
def test_no_size_of_sigma_is_flushed_or_lost(served: ServedDtype, wide: bool, sigma: float) -> None:
    check(served, wide, STRETCHES["end in a block"], sigma)


def test_a_sum_beyond_float32_is_infinite() -> None:
    values = np.full(SIZE, 3e38, dtype=np.float32)
    out = served_tensor(ServedDtype.FLOAT32, True)
    part = STRETCHES["a whole tensor"]
    expected = written_by_cpu(values, out, ServedDtype.FLOAT32, part, 3e38)
    write_member(torch.from_numpy(values), out, ServedDtype.FLOAT32, part, KEY, SEED, 3e38)
    assert bool(torch.isinf(out).any())
    assert same_bits(out, expected)


def test_opposite_infinities_give_the_nan_of_x86() -> None:
    values = np.full(SIZE, -np.inf, dtype=np.float32)
    out = served_tensor(ServedDtype.FLOAT32, True)
    with np.errstate(invalid="ignore"):
        write_member(
            torch.from_numpy(values), out, ServedDtype.FLOAT32, STRETCHES["a whole tensor"], KEY, SEED, 3e38
        )
    bits = out.numpy().view(np.uint32)
    assert set(bits.tolist()) == {0xFF800000, 0xFFC00000}


@st.composite
def any_stretch(draw: st.DrawFn) -> Stretch:
    rows = draw(st.integers(1, 20))
    length = draw(st.integers(1, 700 // rows + 1))
    target_step = length + draw(st.integers(0, 9))
    hull = (rows - 1) * target_step + length
    return stretch(
        draw(st.integers(0, 40) | st.integers(0, 2**61)),
        draw(st.integers(0, SIZE - hull)),
        length,
        rows,
        length + draw(st.integers(0, 70) | st.integers(0, 2**40)),
        target_step,
    )


@given(
    part=any_stretch(), kind=st.sampled_from(KINDS), sigma=st.floats(-1, 1, width=32), tile=st.integers(0, 8)
)
@settings(max_examples=40)
def test_any_stretch_has_the_bits_of_the_cpu_kernel(
    part: Stretch, kind: tuple[ServedDtype, bool], sigma: float, tile: int
) -> None:
    check(*kind, part, sigma, 1 << max(tile, 5 if part.rows > 1 else 3))


@given(part=any_stretch(), blocks=st.sampled_from([1, 16, 128, 2048]))
def test_tiles_cover_a_stretch_and_hold_what_a_program_may(part: Stretch, blocks: int) -> None:
    cut = tiling(part, blocks)
    lanes = max((part.start + row * part.source_step) % 8 for row in range(part.rows))
    assert cut.tiles * cut.tile_blocks * 8 >= part.length + lanes
    assert cut.tile_rows * cut.tile_blocks <= blocks
    assert cut.programs * cut.tile_rows >= cut.tiles * part.rows


def test_what_does_not_fit_is_refused_before_anything_is_written() -> None:
    master, out = torch.zeros(16), torch.zeros(16, dtype=torch.bfloat16)
    good = stretch(0, 0, 16)
    cases = [
        (master, out, stretch(0, 1, 16), 1e-3, "ends at 17"),
        (master, out, stretch(0, 0, 4, 4, 4, 5), 1e-3, "ends at 19"),
        (master, out, stretch(-1, 0, 4), 1e-3, "at least 0"),
        (master, out, stretch(2**63 - 8, 0, 16), 1e-3, "below 2"),
        (master, out, good, float("inf"), "sigma = inf"),
        (master, out, good, 1e39, "sigma = 1e"),
        (master, torch.zeros(16, dtype=torch.float16), good, 1e-3, "torch.float16"),
        (master.double(), out, good, 1e-3, "torch.float64"),
        (master[::2], out, stretch(0, 0, 4), 1e-3, "contiguous"),
    ]
    for weights_, target, part, sigma, message in cases:
        with pytest.raises(ValueError, match=message):
            write_member(weights_, target, ServedDtype.BFLOAT16, part, KEY, SEED, sigma)
    with pytest.raises(ValueError, match="64-bit"):
        write_member(master, out, ServedDtype.BFLOAT16, good, 2**64, SEED, 1e-3)
    with pytest.raises(ConfigurationError, match="device meta"):
        write_member(master.to("meta"), out.to("meta"), ServedDtype.BFLOAT16, good, KEY, SEED, 1e-3)
    assert not out.any()


def test_the_hard_numbers_are_among_the_weights() -> None:
    assert set(HARD.view(np.uint32).tolist()) <= set(weights().view(np.uint32).tolist())
