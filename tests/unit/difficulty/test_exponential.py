"""The deterministic exp: close to the true value everywhere, and built of exact operations."""

import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dartes.difficulty import exponential
from dartes.difficulty.exponential import exp


def error_in_ulps(x: float, value: float) -> float:
    with mpmath.workdps(60):
        exact = mpmath.exp(mpmath.mpf(x))
        return float(abs(mpmath.mpf(value) - exact) / math.ulp(float(exact)))


def worst(x: NDArray[np.float64]) -> float:
    return max(error_in_ulps(a, b) for a, b in zip(x.tolist(), exp(x).tolist(), strict=True))


def test_within_three_quarters_of_an_ulp_over_a_wide_grid() -> None:
    grid = np.concatenate(
        [
            -np.linspace(0, 3, 3001),
            -np.linspace(0, 745, 3001),
            -np.logspace(-320, 2.8, 1001),
            # Around the points where the range reduction changes its multiple of ln 2.
            -((np.arange(200)[:, None] + 0.5) * math.log(2) + np.linspace(-1e-9, 1e-9, 5)).ravel(),
        ]
    )
    assert worst(grid) < 0.75


@given(st.floats(-745, 0))
def test_within_two_ulps_anywhere(x: float) -> None:
    assert worst(np.array([x])) <= 2.0


def test_known_points() -> None:
    assert exp(np.array([0.0, -0.0, -1.0])).tolist() == [1.0, 1.0, float.fromhex("0x1.78b56362cef38p-2")]
    assert exp(np.array([-745.0, -745.2, -1e300, -np.inf])).tolist() == [5e-324, 0.0, 0.0, 0.0]


def test_it_never_increases_towards_lower_arguments() -> None:
    values = exp(-np.linspace(0, 746, 200_001))
    assert np.all(np.diff(values) <= 0)


def test_an_element_has_the_same_bits_wherever_it_stands() -> None:
    x = -np.random.default_rng(0).random(40_000) * 5
    whole = exp(x)
    assert whole.tobytes() == np.concatenate([exp(x[:1]), exp(x[1:17_000]), exp(x[17_000:])]).tobytes()
    assert exp(x.reshape(200, 200)).tobytes() == whole.tobytes()
    assert exp(x[::-3]).tobytes() == whole[::-3].tobytes()
    assert exp(np.empty(0)).size == 0


@pytest.mark.parametrize("x", [1e-300, 1.0, math.nan, math.inf])
def test_other_arguments_are_refused(x: float) -> None:
    with pytest.raises(ValueError, match="at most 0"):
        exp(np.array([-1.0, x]))


def test_the_bits_are_pinned() -> None:
    # A change of method or constants would let two versions of the project draw different batches.
    x = -np.arange(4096) / 1024
    total = int(exp(x).view(np.uint64).sum(dtype=np.uint64))
    assert total == PINNED


PINNED = 1050784139362301178


def test_nothing_in_the_algorithm_calls_a_librarys_exp() -> None:
    for module in Path(exponential.__file__).parent.glob("*.py"):
        source = module.read_text()
        assert "np.exp(" not in source, module
        assert "math.exp(" not in source, module
