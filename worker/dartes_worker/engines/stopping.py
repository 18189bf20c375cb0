"""Stop strings: end an answer at the first of some texts, and cut it there.

Looks at text, not tokens: a stop string may begin in the middle of one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch


class StopStrings:
    """A stopping criterion for `generate` that remembers at which token each row's text first held a stop."""

    def __init__(self, stops: Sequence[str], decode: Callable[[Sequence[Sequence[int]]], list[str]]) -> None:
        self._stops = tuple(stops)
        self._decode = decode
        self._prompt_length = 0
        self._stopped: dict[int, int] = {}

    def begin(self, prompt_length: int) -> None:
        """Start on a batch whose rows have `prompt_length` tokens before the answer."""
        self._prompt_length = prompt_length
        self._stopped = {}

    def __call__(self, input_ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        """Return bool[rows]: which answers hold a stop string by now."""
        count = input_ids.shape[1] - self._prompt_length
        running = [row for row in range(input_ids.shape[0]) if row not in self._stopped]
        texts = self._decode(input_ids[running, self._prompt_length :].tolist())
        for row, text in zip(running, texts, strict=True):
            if any(stop in text for stop in self._stops):
                self._stopped[row] = count
        done = torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
        done[list(self._stopped)] = True
        return done

    def stopped_at(self, row: int) -> int | None:
        """Return how many tokens `row` had when a stop string was complete, or None."""
        return self._stopped.get(row)

    def cut(self, text: str) -> str:
        """Return `text` before the earliest stop string."""
        return text[: min((at for stop in self._stops if (at := text.find(stop)) >= 0), default=len(text))]
