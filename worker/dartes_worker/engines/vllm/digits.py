"""The numbers that a probe loads: digits 0 to 255 of codes, exact in every format that weights are served in.

The digits of consecutive codes repeat, so values are copied out of a table: as fast as memory. Knows no
model; mapping.py decides what is loaded and what it means.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from dartes_worker.engines.probe import scrambled_digit

BITS: Final = 8
_TABLE: Final = 2**20
_SCRAMBLED_PERIOD: Final = 2**20 - 3
"""A prime, so that no row length repeats with it."""


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of every code: `number` 0 is the lowest; None scrambles the code to one digit instead.

    The lowest is loaded as -1 - digit, all others as they are: what stays the same from one load to the next
    was not loaded at all.
    """

    number: int | None

    @property
    def negative(self) -> bool:
        """Whether it is loaded as -1 - digit."""
        return self.number == 0


def digits_for(end: int) -> list[Digit]:
    """Return the digits that codes below `end` have, and the scrambled one as the last."""
    count = max(1, -(-(end - 1).bit_length() // BITS))
    return [*map(Digit, range(count)), Digit(None)]


class DigitValues:
    """Values of one digit for consecutive codes, as tensors of one format on one device."""

    def __init__(self, digit: Digit, dtype: torch.dtype, device: torch.device) -> None:
        self._table: torch.Tensor | None = None
        self._block = 1
        self._dtype, self._device = dtype, device
        if digit.number is None:
            table = scrambled_digit(np.arange(_SCRAMBLED_PERIOD, dtype=np.int64)) & 255
        elif digit.number < 2:
            table = (np.arange(_TABLE, dtype=np.int64) >> (BITS * digit.number)) & 255
        else:
            # A table of a full period would be large, and the digit stays the same for long.
            self._block = 1 << (BITS * digit.number)
            return
        values = torch.from_numpy(-1 - table if digit.negative else table)
        self._table = values.to(device=device, dtype=dtype)

    def of(self, code: int, count: int) -> torch.Tensor:
        """Return the values of codes `code` to `code + count` as a new flat tensor."""
        out = torch.empty(count, dtype=self._dtype, device=self._device)
        done = 0
        while done < count:
            if self._table is None:
                step = min(count - done, self._block - (code + done) % self._block)
                out[done : done + step].fill_(((code + done) // self._block) & 255)
            else:
                first = (code + done) % self._table.numel()
                step = min(count - done, self._table.numel() - first)
                out[done : done + step] = self._table[first : first + step]
            done += step
        return out

    def at(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the values of any codes, where they come from a table."""
        assert self._table is not None, "only digits with a table are looked up"
        return self._table[codes % self._table.numel()]
