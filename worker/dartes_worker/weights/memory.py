"""What is asked of one served tensor and the master weights behind it, wherever the two lie.

The master of a served tensor is an array of the same length in the same order, so that a stretch addresses
both. Three places implement this: `host` (NumPy), `device` (Triton) and `streamed` (a host master written to
a device by the chunk). Knows no engine, no model and no journal.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dartes.noise.reference import UpdateRow
from dartes_worker.weights.stretch import Stretch


class ServedMemory(Protocol):
    """One served tensor with its float32 master, both flat and of the same length.

    `key` is always the `tensor_id` of the stretch's checkpoint tensor. No method makes a temporary
    larger than 64 MiB. The bits are those of `dartes.noise.kernel`, whatever the place.
    """

    def fill(self, offset: int, values: NDArray[np.float32]) -> None:
        """Set the master's elements `offset` and following."""

    def read(self, offset: int, count: int) -> NDArray[np.float32]:
        """Return a copy of `count` elements of the master from `offset` on, as float32[count]."""

    def write(self, stretch: Stretch, key: int, seed: int, sigma: float) -> None:
        """Serve `round_served(master + round32(sigma * normal))`; with sigma 0 the rounded master."""

    def update(self, stretch: Stretch, key: int, rows: Sequence[UpdateRow]) -> None:
        """Apply consecutive iterations to the master in one pass; rows are (seeds, coefficients)."""

    def digest(self, stretch: Stretch, key: int) -> int:
        """D of the master's elements (float32 bits), modulo 2**64."""

    def digest_rounded(self, stretch: Stretch, key: int) -> int:
        """D that the served elements must have after `write` with sigma 0."""

    def digest_served(self, stretch: Stretch, key: int) -> int:
        """D of what the engine's tensor holds now, taken in the served format."""
