"""Compute the tokens that all prompts of a group begin with once, instead of once per prompt.

A system prompt or a few examples are often most of a prompt. Their keys and values are computed on one
row and repeated; the rest follows, padded *between* the two. What is shared is a pure function of the group,
and so are the answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Final, Self

import torch

SHORTEST: Final = 8
"""Tokens; a shorter beginning isn't worth a forward pass of its own."""


def can_share_prefix(model: Any) -> bool:
    """Whether padding in the middle is invisible to the model: position ids are given, every layer sees all.

    Sliding windows count padded places, positions by attention bias may, and recurrent layers
    cannot skip them.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    config = model.config.get_text_config(decoder=True)
    cache = DynamicCache(config=config)
    return (
        "position_ids" in signature(model.forward).parameters
        and not getattr(config, "alibi", False)
        and bool(cache.layers)
        and all(type(layer) is DynamicLayer for layer in cache.layers)
    )


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """The first `length` tokens of a group are the same in all its prompts; 0 = not worth sharing."""

    length: int

    @classmethod
    def none(cls) -> Self:
        """Nothing is shared."""
        return cls(0)

    @classmethod
    def of(cls, group: Sequence[Sequence[int]]) -> Self:
        """Return the longest common beginning that leaves every prompt a token of its own."""
        if len(group) < 2:
            return cls(0)
        # The smallest and largest in lexicographic order differ first where any two do.
        low, high = min(group, key=list), max(group, key=list)
        limit = min(map(len, group)) - 1
        length = next((at for at in range(limit) if low[at] != high[at]), limit)
        return cls(length if length >= SHORTEST else 0)

    def layout(self, group: Sequence[Sequence[int]], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and attention mask, int64[group, longest]: prefix, padding, rest of the prompt."""
        longest = max(map(len, group))
        ids, mask = [], []
        for tokens in group:
            padding = longest - len(tokens)
            ids.append([*tokens[: self.length], *[pad_id] * padding, *tokens[self.length :]])
            mask.append([1] * self.length + [0] * padding + [1] * (len(tokens) - self.length))
        return torch.tensor(ids), torch.tensor(mask)

    def arguments(self, model: Any, ids: torch.Tensor, rows: int) -> dict[str, Any]:
        """Return the arguments of `model.generate` that hand over the prefix's keys and values."""
        from transformers import DynamicCache

        if not self.length:
            return {}
        cache = DynamicCache(config=model.config.get_text_config(decoder=True))
        first = ids[:1, : self.length].to(model.device)
        # The prefix's logits are not needed; where the model allows it, all but one are not even computed.
        cheap = {"logits_to_keep": 1} if "logits_to_keep" in signature(model.forward).parameters else {}
        model(input_ids=first, past_key_values=cache, use_cache=True, **cheap)
        cache.batch_repeat_interleave(rows)
        return {"past_key_values": cache}
