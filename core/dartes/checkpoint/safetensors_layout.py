"""Lay out a safetensors file before its bytes exist, so that tensors can be written in any order.

Knows the file format only; who fills the tensors, and with what, is the caller's business.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from dartes.checkpoint.safetensors_file import StoredDtype


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """A tensor that is going to be stored."""

    name: str
    dtype: StoredDtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Number of bytes that it will take."""
        return prod(self.shape) * self.dtype.size


@dataclass(frozen=True)
class Layout:
    """The header of a file to be written and the byte offset of every tensor in it."""

    header: bytes
    offsets: Mapping[str, int]
    size: int


def plan_layout(tensors: Iterable[PlannedTensor], metadata: Mapping[str, str]) -> Layout:
    """Place `tensors` one after another, wider element types first so that all of them are aligned."""
    ordered = sorted(tensors, key=lambda item: (-item.dtype.size, item.name))
    document: dict[str, object] = {"__metadata__": dict(metadata)}
    relative: dict[str, int] = {}
    end = 0
    for tensor in ordered:
        relative[tensor.name] = end
        document[tensor.name] = {
            "dtype": tensor.dtype.value,
            "shape": list(tensor.shape),
            "data_offsets": [end, end + tensor.nbytes],
        }
        end += tensor.nbytes
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(8, "little") + text
    offsets = {name: len(header) + offset for name, offset in relative.items()}
    return Layout(header, offsets, len(header) + end)


def write_at(descriptor: int, offset: int, data: NDArray[np.generic] | bytes | memoryview) -> None:
    """Write all of `data` (contiguous) at byte `offset`; raises OSError, for instance on a full disk."""
    view = memoryview(data).cast("B") if isinstance(data, (bytes, memoryview)) else data.view(np.uint8).data
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done:], offset + done)
