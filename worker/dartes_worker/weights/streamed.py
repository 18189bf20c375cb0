"""A served tensor on a device whose master weights stay in the host's memory and cross by the chunk.

For models whose float32 master does not fit beside the served weights. Knows tensors and stretches, not
engines. It runs on CPU tensors too, in Triton's interpreter, for tests.
"""

import functools
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from dartes.errors import ConfigurationError
from dartes.noise import ServedDtype
from dartes.noise.reference import UpdateRow
from dartes_worker.kernels import digest, update, write
from dartes_worker.weights.device import check_served, copy_in, copy_out
from dartes_worker.weights.stretch import Stretch

STAGING_BYTES: Final = 64 * 2**20
"""Most that one chunk takes on the device."""

GAPS: Final = 2
"""Rows cross together while the span that they lie in is at most so many times what they hold."""


class Staging:
    """The device's side of a stream of chunks: one float32 buffer that all tensors of a process share."""

    def __init__(self, device: torch.device, nbytes: int = STAGING_BYTES) -> None:
        if not 32 <= nbytes <= STAGING_BYTES:
            raise ValueError(f"a staging buffer has 32 to {STAGING_BYTES} bytes, not {nbytes}")
        # A multiple of 8 elements, so that chunks begin with a Philox block where their stretch does.
        self.buffer = torch.empty(nbytes // 32 * 8, dtype=torch.float32, device=device)


@functools.cache
def shared_staging(device: torch.device) -> Staging:
    """Return the process's staging buffer on a device, made when first asked for."""
    return Staging(device)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Elements `first` to `first + count` of a tensor, and the stretch in them, its offset from `first`."""

    first: int
    count: int
    stretch: Stretch


def chunks(stretch: Stretch, limit: int) -> Iterator[Chunk]:
    """Cut a stretch into chunks of at most `limit` consecutive elements of the served tensor.

    Rows that lie close to one another cross together, with what lies between them; others one by one.
    """
    if stretch.rows > 1 and stretch.length <= stretch.target_step <= GAPS * stretch.length:
        together = max(1, (limit - stretch.length) // stretch.target_step + 1)
    else:
        together = 1
    if together == 1:
        for piece in stretch.pieces(limit):
            yield Chunk(piece.offset, piece.length, replace(piece, offset=0))
        return
    for row in range(0, stretch.rows, together):
        rows = min(together, stretch.rows - row)
        begin = stretch.row(row)
        part = replace(stretch, start=begin.start, offset=0, rows=rows)
        yield Chunk(begin.offset, (rows - 1) * stretch.target_step + stretch.length, part)


class StreamedMemory:
    """One served tensor on a device with its float32 master in the host's memory; a `ServedMemory`.

    Parameters
    ----------
    flat, served
        As in `DeviceMemory`.
    staging
        A buffer on the device of `flat`, by default the one that all tensors of the process share: calls must
        follow one another.

    The master is pinned where the device is a GPU. Copies wait for one another and for the kernels before
    them, so that the host may read and write the master between calls.
    """

    def __init__(self, flat: torch.Tensor, served: ServedDtype, staging: Staging | None = None) -> None:
        check_served(flat, served)
        staging = staging or shared_staging(flat.device)
        if staging.buffer.device != flat.device:
            raise ValueError(f"the staging buffer is on {staging.buffer.device}, the tensor on {flat.device}")
        self._flat = flat
        self._served = served
        self._staging = staging
        self._master = torch.zeros(flat.numel(), dtype=torch.float32)
        if flat.device.type == "cuda":
            pin(self._master)

    def fill(self, offset: int, values: NDArray[np.float32]) -> None:
        """Set the master's elements `offset` and following."""
        copy_in(self._master, offset, values)

    def read(self, offset: int, count: int) -> NDArray[np.float32]:
        """Return a copy of `count` elements of the master from `offset` on, as float32[count]."""
        return copy_out(self._master, offset, count)

    def write(self, stretch: Stretch, key: int, seed: int, sigma: float) -> None:
        """Serve `round_served(master + round32(sigma * normal))`; with sigma 0 the rounded master."""
        for chunk, staged in self._staged(stretch):
            out = self._flat[chunk.first : chunk.first + chunk.count]
            write.write_member(staged, out, self._served, chunk.stretch, key, seed, sigma)

    def update(self, stretch: Stretch, key: int, rows: Sequence[UpdateRow]) -> None:
        """Apply consecutive iterations to the master in one pass; rows are (seeds, coefficients)."""
        packed = update.packed(rows, self._flat.device)
        if not packed.iterations:
            return
        for chunk, staged in self._staged(stretch):
            update.apply_updates(staged, chunk.stretch, key, packed)
            self._master[chunk.first : chunk.first + chunk.count].copy_(staged)

    def digest(self, stretch: Stretch, key: int) -> int:
        """D of the master's elements (float32 bits), modulo 2**64."""
        return self._digest(stretch, ServedDtype.FLOAT32, key)

    def digest_rounded(self, stretch: Stretch, key: int) -> int:
        """D that the served elements must have after `write` with sigma 0."""
        return self._digest(stretch, self._served, key)

    def digest_served(self, stretch: Stretch, key: int) -> int:
        """D of what the engine's tensor holds now, taken in the served format."""
        return digest.digest(self._flat, self._served, stretch, key)

    def _digest(self, stretch: Stretch, served: ServedDtype, key: int) -> int:
        parts = (digest.digest(staged, served, chunk.stretch, key) for chunk, staged in self._staged(stretch))
        return sum(parts) % (1 << 64)

    def _staged(self, stretch: Stretch) -> Iterator[tuple[Chunk, torch.Tensor]]:
        """The chunks of a stretch, each with its master weights in the staging buffer."""
        for chunk in chunks(stretch, self._staging.buffer.numel()):
            if chunk.first < 0 or chunk.first + chunk.count > self._master.numel():
                raise ValueError(f"{stretch} lies outside a tensor of {self._master.numel()} elements")
            staged = self._staging.buffer[: chunk.count]
            staged.copy_(self._master[chunk.first : chunk.first + chunk.count])
            yield chunk, staged


def pin(tensor: torch.Tensor) -> None:
    """Pin a host tensor's own memory until it is freed, so that copies to a GPU need no second one.

    PyTorch's own pinned memory is not used: it takes the next power of two. ConfigurationError where the
    memory can't be pinned.
    """
    size = tensor.numel() * tensor.element_size()
    if not size:
        return
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    address = tensor.data_ptr()
    status = int(runtime.cudaHostRegister(address, size, 0))
    if status:
        raise ConfigurationError(
            f"{size >> 20} MiB of host memory for master weights can't be pinned (CUDA error {status}): give "
            "the worker more memory, or keep the master on the device (engineOptions.masterPlacement)"
        )
    weakref.finalize(tensor.untyped_storage(), runtime.cudaHostUnregister, address)
