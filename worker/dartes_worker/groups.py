"""Cut a batch into generation groups: which prompts share one tensor while an engine generates.

Greedy answers depend in their last bits on what else is in the tensor, so groups are a pure function of
prompt lengths and two numbers of the job file; every worker computes the same ones. Knows no engine, no
worker count and no memory size.
"""

from collections.abc import Sequence

from dartes.errors import ConfigurationError


def generation_groups(
    lengths: Sequence[int], max_new_tokens: int, token_budget: int
) -> tuple[tuple[int, ...], ...]:
    """Return the groups as positions in the batch; every position is in exactly one group.

    Positions are taken by (length descending, position), each into the open group as long as
    group size x (longest prompt + `max_new_tokens`) stays within `token_budget`, else into a new one. A
    prompt that exceeds the budget alone is a group of its own.

    Parameters
    ----------
    lengths
        Prompt lengths in tokens, in batch order.
    max_new_tokens
        `generation.maxNewTokens`, at least 1.
    token_budget
        `generation.tokenBudget`, at least 1.
    """
    if max_new_tokens < 1 or token_budget < 1:
        raise ConfigurationError(
            f"generation.maxNewTokens = {max_new_tokens} and generation.tokenBudget = {token_budget}: "
            "both must be at least 1"
        )
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    capacity = 0
    for position in sorted(range(len(lengths)), key=lambda position: (-lengths[position], position)):
        if len(group) == capacity:
            if group:
                groups.append(tuple(group))
            # The first prompt of a group is its longest.
            group, capacity = [], max(1, token_budget // (lengths[position] + max_new_tokens))
        group.append(position)
    if group:
        groups.append(tuple(group))
    return tuple(groups)


def slice_of(groups: Sequence[tuple[int, ...]], k: int, of: int) -> tuple[tuple[int, ...], ...]:
    """Return slice `k` of `of` slices: groups floor(k G / K) to floor((k + 1) G / K).

    The slices 0..of-1 partition the groups; some are empty where there are fewer groups than slices.
    ValueError unless 0 <= k < of.
    """
    if not 0 <= k < of:
        raise ValueError(f"slice {k} of {of}: a slice index is at least 0 and below the number of slices")
    count = len(groups)
    return tuple(groups[k * count // of : (k + 1) * count // of])
