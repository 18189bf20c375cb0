"""Shares with their intervals, and JSON files that are whole at every moment."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.report.estimators import wilson_interval
from dartes.report.summary import write_json


@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_the_published_one(passed: int, count: int, low: float, high: float) -> None:
    found = wilson_interval(passed, count)
    assert found == pytest.approx((low, high), abs=5e-5)


def test_nothing_is_known_of_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


@given(st.integers(1, 10**6).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count))))
def test_the_share_lies_inside_and_the_bounds_solve_the_score_equation(pair: tuple[int, int]) -> None:
    passed, count = pair
    share = passed / count
    low, high = wilson_interval(passed, count)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    for bound in (low, high):
        if 1e-9 < bound < 1 - 1e-9:  # nearer to 0 or 1 the error below is all rounding
            error = math.sqrt(bound * (1 - bound) / count)
            assert abs(share - bound) == pytest.approx(1.959963984540054 * error, rel=1e-6, abs=1e-9)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]
