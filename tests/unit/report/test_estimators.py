"""pass@k, maj@K and the intervals, each beside a slow count of every case."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dartes.report.estimators import (
    change_interval,
    majority_passes,
    mean_interval,
    pass_at_k,
    sample_counts,
    wilson_interval,
)


def every_row(samples: int) -> NDArray[np.bool_]:
    return np.array(list(itertools.product([False, True], repeat=samples)), np.bool_)


@pytest.mark.parametrize("samples", [1, 2, 3, 5, 6])
def test_pass_at_k_is_the_share_of_all_draws_of_k_answers_with_a_pass(samples: int) -> None:
    rows = every_row(samples)
    for k in range(1, samples + 1):
        for row, value in zip(rows, pass_at_k(rows, k), strict=True):
            draws = list(itertools.combinations(row.tolist(), k))
            assert value == sum(any(draw) for draw in draws) / len(draws)


def test_pass_at_1_is_the_mean_and_pass_at_all_asks_for_one_pass() -> None:
    rows = every_row(4)
    assert pass_at_k(rows, 1).tolist() == rows.mean(axis=1).tolist()
    assert pass_at_k(rows, 4).tolist() == rows.any(axis=1).astype(float).tolist()


def test_pass_at_k_stays_exact_for_many_samples() -> None:
    row = np.zeros((1, 1024), np.bool_)
    row[0, 0] = True
    assert pass_at_k(row, 512)[0] == 0.5


@pytest.mark.parametrize("k", [0, 4])
def test_more_draws_than_answers_are_refused(k: int) -> None:
    with pytest.raises(ValueError, match="allowed: 1 to 3"):
        pass_at_k(np.zeros((2, 3), np.bool_), k)


def test_the_reported_k_are_powers_of_two_and_the_number_of_samples() -> None:
    assert [sample_counts(n) for n in (1, 2, 3, 8, 10)] == [
        [1],
        [1, 2],
        [1, 2, 3],
        [1, 2, 4, 8],
        [1, 2, 4, 8, 10],
    ]


def test_the_majority_is_what_counting_every_key_finds() -> None:
    for keys in itertools.product(range(4), repeat=5):
        passed = np.array([[key == 2 for key in keys]])
        votes = Counter(key for key in keys if key)
        most = max(votes.values(), default=0)
        winner = next((key for key in keys if key and votes[key] == most), None)
        found = majority_passes(passed, np.array([keys], np.uint64))[0]
        assert bool(found) == (winner == 2), keys


def test_answers_without_a_key_never_win_though_they_are_the_most() -> None:
    passed = np.array([[True, True, True, False], [True, True, True, True]])
    keys = np.array([[0, 0, 0, 5], [0, 0, 0, 0]], np.uint64)
    assert majority_passes(passed, keys).tolist() == [False, False]


def test_large_keys_are_told_apart_to_the_last_bit() -> None:
    top = 2**64 - 1
    keys = np.array([[top, top - 1, top - 1]], np.uint64)
    assert majority_passes(np.array([[True, False, False]]), keys).tolist() == [False]


def test_one_answer_each_gives_the_plain_wilson_interval() -> None:
    values = np.array([1.0] * 7 + [0.0] * 3)
    assert mean_interval(values) == pytest.approx(wilson_interval(7, 10))
    assert wilson_interval(7, 10) == pytest.approx((0.3968, 0.8922), abs=1e-4)


def test_samples_that_agree_count_as_one_and_independent_ones_as_many() -> None:
    alike = np.array([1.0, 0.0] * 50)
    independent = np.array([0.5] * 100)
    assert mean_interval(alike, 8) == pytest.approx(wilson_interval(50, 100), abs=1e-3)
    assert mean_interval(independent, 8) == pytest.approx(wilson_interval(400, 800))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_right_or_all_wrong_leaves_room_for_doubt(value: float) -> None:
    low, high = mean_interval(np.full(20, value), 16)
    assert high - low > 0.1


def test_no_problems_say_nothing() -> None:
    assert mean_interval(np.zeros(0)) == (0.0, 1.0)
    assert change_interval(np.zeros(0), np.zeros(0)) == (-1.0, 1.0)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_every_interval_holds_its_estimate_and_stays_in_bounds(counts: list[tuple[int, int]]) -> None:
    before, after = np.array(counts, float).T / 4
    low, high = mean_interval(before, 4)
    assert 0 <= low <= before.mean() + 1e-12
    assert before.mean() - 1e-12 <= high <= 1
    down, up = change_interval(before, after, 4)
    assert -1 <= down <= after.mean() - before.mean() + 1e-12
    assert after.mean() - before.mean() - 1e-12 <= up <= 1


def test_swapping_before_and_after_mirrors_the_change() -> None:
    before, after = np.array([1.0] * 12 + [0.0] * 8), np.array([1.0] * 9 + [0.0] * 11)
    low, high = change_interval(before, after)
    assert change_interval(after, before) == pytest.approx((-high, -low))


def pairs(both: int, lost: int, won: int, neither: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    before = np.array([1.0] * both + [1.0] * lost + [0.0] * won + [0.0] * neither)
    after = np.array([1.0] * both + [0.0] * lost + [1.0] * won + [0.0] * neither)
    return before, after


def newcombe10(a: int, b: int, c: int, d: int) -> tuple[float, float]:
    """Written from the table of counts, as the paper has it; first minus second."""
    n = a + b + c + d
    (l1, u1), (l2, u2) = wilson_interval(a + b, n), wilson_interval(a + c, n)
    p1, p2 = (a + b) / n, (a + c) / n
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    cross = a * d - b * c
    if cross > 0:
        cross = max(cross - n / 2, 0)  # type: ignore[assignment]
    phi = cross / math.sqrt(margins) if margins else 0.0
    delta = math.sqrt((p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2)
    epsilon = math.sqrt((u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2)
    return p1 - p2 - delta, p1 - p2 + epsilon


@pytest.mark.parametrize("table", [(36, 12, 2, 0), (10, 3, 5, 12), (0, 4, 4, 0), (8, 0, 0, 2), (20, 0, 1, 0)])
def test_the_change_is_newcombes_interval_of_the_table_of_pairs(table: tuple[int, int, int, int]) -> None:
    both, second, first, neither = table
    before, after = pairs(both, first, second, neither)
    assert change_interval(before, after) == pytest.approx(newcombe10(*table))


def test_the_change_covers_the_truth_in_about_95_of_100_cases() -> None:
    # Every table of 12 pairs with its multinomial weight: the coverage itself, not a simulation of it.
    shares, count = (0.5, 0.2, 0.1, 0.2), 12
    truth, covered = shares[2] - shares[1], 0.0
    for both, lost, won in itertools.product(range(count + 1), repeat=3):
        neither = count - both - lost - won
        if neither < 0:
            continue
        low, high = change_interval(*pairs(both, lost, won, neither))
        ways = math.factorial(count)
        chance = 1.0
        for number, share in zip((both, lost, won, neither), shares, strict=True):
            ways //= math.factorial(number)
            chance *= share**number
        covered += ways * chance * (low <= truth <= high)
    assert 0.93 <= covered <= 0.99
