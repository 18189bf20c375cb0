"""Master and served weights in host memory: the noise kernels for CPUs, straight on NumPy views.

Where the served tensor can't be viewed in the served format (a model that keeps some tensors in float32),
values go through a buffer of the stretch's size; the caller cuts stretches into pieces.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dartes.noise import ServedDtype
from dartes.noise.reference import UpdateRow
from dartes_worker.engines.base import ServedValues
from dartes_worker.engines.storage import storage_of
from dartes_worker.weights.stretch import Stretch


class HostMemory:
    """A served CPU tensor and its master, both of `flat.numel()` elements.

    Methods take stretches of one row (see `Stretch.pieces`); they run on the calling thread and release the
    interpreter lock.
    """

    def __init__(self, flat: torch.Tensor, served: ServedDtype) -> None:
        self._storage = storage_of(flat, served)
        self._served = served
        self._master = np.empty(flat.numel(), dtype=np.float32)

    def fill(self, offset: int, values: NDArray[np.float32]) -> None:
        """Set the master's elements `offset` and following."""
        self._master[offset : offset + values.size] = values

    def read(self, offset: int, count: int) -> NDArray[np.float32]:
        """Return a copy of `count` elements of the master."""
        return self._master[offset : offset + count].copy()

    def write(self, stretch: Stretch, key: int, seed: int, sigma: float) -> None:
        """Serve the member `seed` at `sigma`."""
        from dartes.noise.kernel import write_member

        master = self._view(stretch)
        if isinstance(self._storage, np.ndarray):
            out = self._storage[stretch.offset : stretch.offset + stretch.length]
            write_member(master, out, self._served, seed, key, stretch.start, sigma)
            return
        staged: ServedValues = np.empty(stretch.length, dtype=self._served.storage)
        write_member(master, staged, self._served, seed, key, stretch.start, sigma)
        self._storage.write(stretch.offset, staged)

    def update(self, stretch: Stretch, key: int, rows: Sequence[UpdateRow]) -> None:
        """Apply consecutive iterations to the master."""
        from dartes.noise.kernel import apply_updates

        apply_updates(self._view(stretch), key, stretch.start, rows)

    def digest(self, stretch: Stretch, key: int) -> int:
        """D of the master's elements."""
        from dartes.noise.kernel import digest_fp32

        return digest_fp32(self._view(stretch), key, stretch.start)

    def digest_rounded(self, stretch: Stretch, key: int) -> int:
        """D that the served elements must have after the parent was written."""
        from dartes.noise.kernel import digest_rounded

        return digest_rounded(self._view(stretch), self._served, key, stretch.start)

    def digest_served(self, stretch: Stretch, key: int) -> int:
        """D of what is served now."""
        from dartes.noise.kernel import digest_served

        first, count = stretch.offset, stretch.length
        values = (
            self._storage[first : first + count]
            if isinstance(self._storage, np.ndarray)
            else self._storage.read(first, count)
        )
        return digest_served(values, key, stretch.start)

    def _view(self, stretch: Stretch) -> NDArray[np.float32]:
        if stretch.rows != 1:
            raise ValueError(f"{stretch.name}: {stretch.rows} rows: cut the stretch into pieces first")
        return self._master[stretch.offset : stretch.offset + stretch.length]
