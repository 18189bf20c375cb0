"""Which rank owns which elements, checked against sets of single elements."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes_worker.engines.probe import Run
from dartes_worker.engines.vllm.coverage import owned
from dartes_worker.engines.vllm.rectangles import runs_of, stretches_of
from dartes_worker.weights.stretch import Stretch


def elements(stretches: Sequence[Stretch]) -> Counter[tuple[str, int, str, int]]:
    """Every (checkpoint name, index, served name, index) that stretches hold."""
    return Counter(
        (run.source, run.start + j, run.target, run.offset + j)
        for stretch in stretches
        for run in runs_of(stretch)
        for j in range(run.count)
    )


def only(stretches: Sequence[Stretch], own: bool) -> list[Stretch]:
    return [stretch for stretch in stretches if stretch.owned is own]


@st.composite
def partial_ranks(draw: st.DrawFn) -> tuple[int, list[list[Stretch]]]:
    """Ranks with arbitrary, overlapping slices of one matrix that lack nothing together."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    ranks = [[Stretch("w", "whole", 0, 0, rows * columns)]]
    for rank in range(draw(st.integers(0, 3))):
        left = draw(st.integers(0, columns - 1))
        width = draw(st.integers(1, columns - left))
        top = draw(st.integers(0, rows - 1))
        height = draw(st.integers(1, rows - top))
        name = f"part{rank}"
        ranks.append([Stretch("w", name, top * columns + left, 0, width, height, columns, width)])
    return rows * columns, draw(st.permutations(ranks))


@given(partial_ranks())
def test_every_element_is_owned_once_and_nothing_moves(case: tuple[int, list[list[Stretch]]]) -> None:
    count, ranks = case
    found = owned(ranks, {"w": count}, "model")
    for before, after in zip(ranks, found, strict=True):
        assert elements(before) == elements(after)
    owners = Counter(index for _, index, *_ in elements([s for rank in found for s in only(rank, True)]))
    assert owners == Counter(range(count))


def test_replicas_are_owned_by_the_first_rank_and_stay_whole() -> None:
    rank = [Stretch("norm", "norm", 0, 0, 8)]
    first, second = owned([rank, rank], {"norm": 8}, "model")
    assert first == rank
    assert second == [Stretch("norm", "norm", 0, 0, 8, owned=False)]


def test_columns_of_two_ranks_stay_one_stretch_each() -> None:
    ranks = [[Stretch("w", "w", rank * 4, 0, 4, 1000, 8, 4)] for rank in range(2)]
    assert owned(ranks, {"w": 8000}, "model") == ranks


def test_a_tensor_held_twice_by_one_rank_is_owned_once() -> None:
    twice = [Stretch("w", "a", 0, 0, 8), Stretch("w", "b", 0, 0, 8)]
    (marked,) = owned([twice], {"w": 8}, "model")
    assert [stretch.owned for stretch in marked] == [True, False]


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([[]], "w: served nowhere"),
        ([[Stretch("w", "w", 0, 0, 6)]], "w: elements 6..10 of 10 are served nowhere"),
        ([[Stretch("w", "w", 2, 0, 3)], [Stretch("w", "w", 7, 0, 3)]], "w: elements 0..2, 5..7 of 10"),
        ([[Stretch("w", "w", 0, 0, 12)]], "w: elements 10..12 do not exist"),
        ([[Stretch("w", "w", 0, 0, 10), Stretch("v", "v", 0, 0, 1)]], "v: not a trained tensor"),
    ],
)
def test_what_is_not_served_is_named(ranks: list[list[Stretch]], said: str) -> None:
    with pytest.raises(ConfigurationError, match="model: the engine does not serve") as refusal:
        owned(ranks, {"w": 10}, "model")
    assert said in str(refusal.value)


def test_a_tensor_with_thousands_of_gaps_is_told_in_a_few_words() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        owned([[Stretch("w", "w", 0, 0, 1, 5000, 2, 1)]], {"w": 10_000}, "model")
    assert "and 4997 more ranges" in str(refusal.value)
    assert len(str(refusal.value)) < 400


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 6), st.integers(0, 3)), max_size=12
    )
)
def test_rectangles_hold_exactly_the_elements_of_the_runs(drawn: list[tuple[int, int, int, int]]) -> None:
    runs, offset = [], 0
    for source, start, count, gap in drawn:
        runs.append(Run(f"s{source}", start, "t", offset + gap, count))
        offset += gap + count
    stretches = stretches_of(runs)
    assert elements(stretches) == Counter(
        (run.source, run.start + j, run.target, run.offset + j) for run in runs for j in range(run.count)
    )
    assert all(min(s.source_step, s.target_step) >= s.length for s in stretches if s.rows > 1)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.integers(0, 9), st.integers(0, 9))
def test_a_rectangle_survives_being_cut_to_runs(
    rows: int, length: int, gap: int, start: int, offset: int
) -> None:
    stretch = Stretch("w", "t", start, offset, length, rows, length + gap, length)
    (found,) = stretches_of(runs_of(stretch))
    assert elements([found]) == elements([stretch])
    assert (found.rows, found.length) == (rows, length)


def test_runs_that_continue_one_another_become_one() -> None:
    runs = [Run("w", 4, "t", 4, 4), Run("w", 0, "t", 0, 4)]
    assert stretches_of(runs) == (Stretch("w", "t", 0, 0, 8),)
