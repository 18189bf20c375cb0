"""Views on the memory of served tensors: by NumPy where it can, else copied by the piece.

Knows tensors and formats, not checkpoints or models.
"""

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from dartes.noise import ServedDtype
from dartes_worker.engines.base import ServedValues, StagedStorage

TORCH_DTYPES: Final[dict[ServedDtype, torch.dtype]] = {
    ServedDtype.FLOAT32: torch.float32,
    ServedDtype.BFLOAT16: torch.bfloat16,
    ServedDtype.FLOAT16: torch.float16,
}


def storage_of(flat: torch.Tensor, served: ServedDtype) -> ServedValues | StagedStorage:
    """Return a writable view on a flat contiguous tensor as the noise kernels take it.

    A CPU tensor in the served format is viewed in place. One on a device, or one that the architecture
    keeps in float32 while serving 16 bits, gets a `TensorStorage`.
    """
    if flat.device.type == "cpu" and flat.dtype is TORCH_DTYPES[served]:
        return as_numpy(flat)
    return TensorStorage(flat, served)


def as_numpy(flat: torch.Tensor) -> ServedValues:
    """Return the NumPy view of a flat CPU tensor: float32, or uint16 bit patterns of a 16-bit float."""
    if flat.dtype is torch.float32:
        single: NDArray[np.float32] = flat.numpy()
        return single
    bits: NDArray[np.int16] = flat.view(torch.int16).numpy()
    return bits.view(np.uint16)


class TensorStorage:
    """A flat tensor written and read in the served format; values are widened where it holds float32.

    Pieces cross to a device with one synchronous copy each. Exercised here on CPU tensors only.
    """

    def __init__(self, flat: torch.Tensor, served: ServedDtype) -> None:
        self._flat = flat
        self._dtype = TORCH_DTYPES[served]

    def write(self, offset: int, values: ServedValues) -> None:
        """Copy `values` to the elements `offset` and following."""
        if values.dtype == np.uint16:
            source = torch.from_numpy(values.view(np.int16)).view(self._dtype)
        else:
            source = torch.from_numpy(values)
        self._flat[offset : offset + values.size].copy_(source)

    def read(self, offset: int, count: int) -> ServedValues:
        """Return a copy of `count` elements from `offset` on, rounded to the served format."""
        return as_numpy(self._flat[offset : offset + count].to("cpu", self._dtype, copy=True))
