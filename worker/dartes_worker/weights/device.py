"""A served tensor and its master weights on one device, worked on by the Triton kernels.

Knows tensors and stretches, not engines. It runs on CPU tensors too, in Triton's interpreter, for tests.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from dartes.noise import ServedDtype
from dartes.noise.reference import UpdateRow
from dartes_worker.engines.storage import TORCH_DTYPES
from dartes_worker.kernels import digest, update, write
from dartes_worker.weights.stretch import Stretch

PIECE: Final = 1 << 22
"""Elements that cross between host and device at a time where the host needs a copy: 16 MiB."""


class DeviceMemory:
    """One served tensor and a float32 master of the same length beside it; a `ServedMemory`.

    Parameters
    ----------
    flat
        What the engine reads: flat, contiguous, in the served format, or in float32 if the engine keeps it so
        while 16 bits are served (values are then widened). Written in place, never replaced.
    served
        The served format.

    All work is queued on the device's current stream, in the order of the calls.
    """

    def __init__(self, flat: torch.Tensor, served: ServedDtype) -> None:
        check_served(flat, served)
        self._flat = flat
        self._served = served
        self._master = torch.zeros(flat.numel(), dtype=torch.float32, device=flat.device)

    def fill(self, offset: int, values: NDArray[np.float32]) -> None:
        """Set the master's elements `offset` and following."""
        copy_in(self._master, offset, values)

    def read(self, offset: int, count: int) -> NDArray[np.float32]:
        """Return a copy of `count` elements of the master from `offset` on, as float32[count]."""
        return copy_out(self._master, offset, count)

    def write(self, stretch: Stretch, key: int, seed: int, sigma: float) -> None:
        """Serve `round_served(master + round32(sigma * normal))`; with sigma 0 the rounded master."""
        write.write_member(self._master, self._flat, self._served, stretch, key, seed, sigma)

    def update(self, stretch: Stretch, key: int, rows: Sequence[UpdateRow]) -> None:
        """Apply consecutive iterations to the master in one pass; rows are (seeds, coefficients)."""
        update.apply_updates(self._master, stretch, key, update.packed(rows, self._master.device))

    def digest(self, stretch: Stretch, key: int) -> int:
        """D of the master's elements (float32 bits), modulo 2**64."""
        return digest.digest(self._master, ServedDtype.FLOAT32, stretch, key)

    def digest_rounded(self, stretch: Stretch, key: int) -> int:
        """D that the served elements must have after `write` with sigma 0."""
        return digest.digest(self._master, self._served, stretch, key)

    def digest_served(self, stretch: Stretch, key: int) -> int:
        """D of what the engine's tensor holds now, taken in the served format."""
        return digest.digest(self._flat, self._served, stretch, key)


def check_served(flat: torch.Tensor, served: ServedDtype) -> None:
    """ValueError unless a tensor is flat, contiguous and in the served format or float32."""
    if flat.dim() != 1 or not flat.is_contiguous():
        raise ValueError(f"a served tensor must be flat and contiguous, found shape {tuple(flat.shape)}")
    if flat.dtype not in (torch.float32, TORCH_DTYPES[served]):
        raise ValueError(f"a served tensor of {flat.dtype} can't hold {served} values")


def copy_in(master: torch.Tensor, offset: int, values: NDArray[np.float32]) -> None:
    """Copy values into a flat float32 tensor at `offset`; ValueError where they don't fit."""
    _check_range(master, offset, values.size)
    if values.dtype != np.float32 or values.ndim != 1:
        raise ValueError(f"master weights are float32[n], found {values.dtype} of shape {values.shape}")
    for first in range(0, values.size, PIECE):
        piece = np.require(values[first : first + PIECE], requirements=["C", "W", "A"])
        master[offset + first : offset + first + piece.size].copy_(torch.from_numpy(piece))


def copy_out(master: torch.Tensor, offset: int, count: int) -> NDArray[np.float32]:
    """Return a copy of a part of a flat float32 tensor in the host's memory."""
    _check_range(master, offset, count)
    part: NDArray[np.float32] = master[offset : offset + count].to("cpu", copy=True).numpy()
    return part


def _check_range(master: torch.Tensor, offset: int, count: int) -> None:
    if offset < 0 or count < 0 or offset + count > master.numel():
        raise ValueError(f"elements {offset} to {offset + count} of master weights with {master.numel()}")
