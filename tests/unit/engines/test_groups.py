"""Generation groups: every position once, within the budget, by lengths alone; slices partition them."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes_worker.groups import generation_groups, slice_of

LENGTHS = st.lists(st.integers(1, 60), max_size=80)
LIMITS = st.integers(1, 40)
BUDGETS = st.integers(1, 600)


@pytest.mark.parametrize(
    ("lengths", "max_new_tokens", "token_budget", "groups"),
    [
        ([], 4, 16, ()),
        ([3], 4, 16, ((0,),)),
        ([3, 3, 3], 4, 14, ((0, 1), (2,))),
        ([2, 9, 4, 9], 1, 20, ((1, 3), (2, 0))),
        # 30 + 4 exceeds the budget alone; the others don't wait for it.
        ([3, 30, 3], 4, 14, ((1,), (0, 2))),
        ([5, 4, 1, 1, 1, 1], 1, 10, ((0,), (1, 2), (3, 4, 5))),
    ],
)
def test_groups_are_filled_longest_first(
    lengths: list[int], max_new_tokens: int, token_budget: int, groups: tuple[tuple[int, ...], ...]
) -> None:
    assert generation_groups(lengths, max_new_tokens, token_budget) == groups


@given(LENGTHS, LIMITS, BUDGETS)
def test_every_position_is_in_exactly_one_group(lengths: list[int], limit: int, budget: int) -> None:
    groups = generation_groups(lengths, limit, budget)
    assert sorted(chain(*groups)) == list(range(len(lengths)))
    assert all(groups)


@given(LENGTHS, LIMITS, BUDGETS)
def test_a_group_of_several_stays_within_the_budget_and_is_as_large_as_that_allows(
    lengths: list[int], limit: int, budget: int
) -> None:
    groups = generation_groups(lengths, limit, budget)
    for number, group in enumerate(groups):
        width = max(lengths[position] for position in group) + limit
        assert len(group) == 1 or len(group) * width <= budget
        if number + 1 < len(groups):
            assert (len(group) + 1) * width > budget


@given(LENGTHS, LIMITS, BUDGETS)
def test_order_is_by_length_descending_then_position(lengths: list[int], limit: int, budget: int) -> None:
    order = list(chain(*generation_groups(lengths, limit, budget)))
    keys = [(-lengths[position], position) for position in order]
    assert keys == sorted(keys)


@given(LENGTHS, LIMITS, BUDGETS, st.randoms())
def test_shuffling_a_batch_of_distinct_lengths_keeps_its_groups(
    lengths: list[int], limit: int, budget: int, random: object
) -> None:
    distinct = list(dict.fromkeys(lengths))
    shuffled = list(distinct)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    def by_length(batch: list[int]) -> list[list[int]]:
        return [[batch[position] for position in group] for group in generation_groups(batch, limit, budget)]

    assert by_length(distinct) == by_length(shuffled)


@given(LENGTHS, LIMITS, BUDGETS, st.integers(1, 9))
def test_slices_partition_the_groups_in_order_and_evenly(
    lengths: list[int], limit: int, budget: int, of: int
) -> None:
    groups = generation_groups(lengths, limit, budget)
    slices = [slice_of(groups, k, of) for k in range(of)]
    assert tuple(chain(*slices)) == groups
    assert all(len(groups) // of <= len(part) <= len(groups) // of + 1 for part in slices)


@pytest.mark.parametrize("k", [-1, 4])
def test_a_slice_that_there_is_not_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"slice {k} of 4"):
        slice_of(((0,),), k, 4)


@pytest.mark.parametrize(("limit", "budget"), [(0, 5), (5, 0)])
def test_limits_below_one_are_refused_by_field(limit: int, budget: int) -> None:
    with pytest.raises(ConfigurationError, match=r"generation\.maxNewTokens"):
        generation_groups([1], limit, budget)
