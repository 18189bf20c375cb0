"""Philox on arrays and integers agree; streams can be read anywhere; integer draws are unbiased."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.noise.philox import philox4x32, philox4x32_block
from dartes.noise.streams import (
    WORD_LIMIT,
    Purpose,
    WordSource,
    below,
    sampling_seed,
    shuffled,
    word,
    words,
)

WORD_32 = st.integers(0, 2**32 - 1)
WORD_64 = st.integers(0, 2**64 - 1)
STAGE = st.integers(0, 2**24 - 1)
PURPOSE = st.sampled_from(list(Purpose))


@given(st.lists(st.tuples(WORD_32, WORD_32, WORD_32, WORD_32), min_size=1, max_size=5), WORD_32, WORD_32)
def test_philox_on_arrays_equals_philox_on_integers(
    counters: list[tuple[int, int, int, int]], key0: int, key1: int
) -> None:
    columns = [np.array(column, dtype=np.uint32) for column in zip(*counters, strict=True)]
    blocks = np.stack(philox4x32(key0, key1, *columns), axis=1)
    assert blocks.tolist() == [list(philox4x32_block(key0, key1, *counter)) for counter in counters]


@given(WORD_64, PURPOSE, STAGE, WORD_64, st.integers(0, WORD_LIMIT - 20), st.integers(0, 20))
def test_a_stream_can_be_read_from_anywhere(
    run_seed: int, purpose: Purpose, stage: int, step: int, start: int, count: int
) -> None:
    expected = [word(run_seed, purpose, stage, step, k) for k in range(start, start + count)]
    assert words(run_seed, purpose, stage, step, start, count).tolist() == expected


def test_a_word_source_gives_the_words_in_order_across_its_chunks() -> None:
    source = WordSource(3, Purpose.REPLAY_DRAW, 1, 2)
    assert [source() for _ in range(1000)] == words(3, Purpose.REPLAY_DRAW, 1, 2, 0, 1000).tolist()
    assert source.position == 1000


def test_streams_of_different_purpose_stage_step_and_seed_share_no_word() -> None:
    addresses = [
        (seed, purpose, stage, step)
        for seed in (0, 1, 2**32)
        for purpose in Purpose
        for stage in (0, 1)
        for step in (0, 1, 2**32)
    ]
    drawn = np.concatenate([words(*address, 0, 16) for address in addresses])
    assert np.unique(drawn).size == drawn.size == 16 * len(addresses)


@pytest.mark.parametrize(
    ("stage", "step", "start", "count", "named"),
    [
        (2**24, 0, 0, 1, "stage 16777216"),
        (-1, 0, 0, 1, "stage -1"),
        (0, 2**64, 0, 1, "18446744073709551616"),
        (0, -1, 0, 1, "-1"),
        (0, 0, -1, 1, "words -1"),
        (0, 0, WORD_LIMIT, 1, "words 8589934592"),
    ],
)
def test_a_word_without_an_address_is_refused(
    stage: int, step: int, start: int, count: int, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        words(0, Purpose.MEMBER_SEED, stage, step, start, count)


@given(st.integers(1, 2**64), st.lists(WORD_64, min_size=1, max_size=20))
def test_a_draw_takes_the_first_word_below_the_largest_multiple(n: int, drawn: list[int]) -> None:
    rest: Iterator[int] = iter([*drawn, 0])
    accepted = next(w for w in [*drawn, 0] if w < 2**64 // n * n)
    assert below(lambda: next(rest), n) == accepted % n


def test_a_word_that_would_bias_the_draw_is_rejected() -> None:
    # 2**64 = 1 modulo 3, so exactly the last word would make 0 too frequent.
    source = iter([2**64 - 1, 2**64 - 2])
    assert below(lambda: next(source), 3) == (2**64 - 2) % 3
    assert next(source, None) is None


@pytest.mark.parametrize("n", [0, -1, 2**64 + 1])
def test_a_draw_from_no_numbers_or_too_many_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match=f"n = {n}"):
        below(lambda: 0, n)


def test_draws_fill_their_range_evenly() -> None:
    source = WordSource(11, Purpose.REPLAY_DRAW, 0, 0)
    counts = np.bincount([below(source, 7) for _ in range(14_000)], minlength=7)
    # Binomial deviation 41; five of them.
    assert counts.size == 7
    assert np.abs(counts - 2000).max() < 207


@given(WORD_64, st.integers(0, 300))
def test_a_shuffle_is_a_permutation(run_seed: int, count: int) -> None:
    assert sorted(shuffled(run_seed, Purpose.EPOCH_SHUFFLE, 0, 0, count).tolist()) == list(range(count))


def test_sampling_seeds_differ_by_member_group_and_iteration() -> None:
    seeds = {sampling_seed(5, 0, t, m, g) for t in range(3) for m in range(5) for g in range(7)}
    assert len(seeds) == 3 * 5 * 7
    assert sampling_seed(5, 0, 1, 2, 3) == word(5, Purpose.SAMPLING, 0, 1, 2 * 65536 + 3)
    with pytest.raises(ValueError, match="group 65536"):
        sampling_seed(5, 0, 1, 2, 65536)
