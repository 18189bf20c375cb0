"""How kernels are compiled and launched: on which device, with which options, in tiles of which shape.

Knows Triton and tensors, not the noise. With TRITON_INTERPRET=1 in the environment *before* `triton` is first
imported, everything runs on CPU tensors in Triton's interpreter; that is how it is tested without a GPU.
"""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
import triton
import triton.language as tl

from dartes.errors import ConfigurationError
from dartes.noise.table import normal_table
from dartes_worker.weights.stretch import Stretch

Kernel: TypeAlias = Any
"""A compiled function, launched as `kernel[grid](...)`; a type checker cannot see through it."""

LANES: Final = 8
"""Normals per Philox block."""

DEVICE_BLOCKS: Final = 128
"""Philox blocks of a program: one for each thread of four warps."""

INTERPRETER_BLOCKS: Final = 2048
"""The same in the interpreter, which pays for each program and hardly for its size."""

OPTIONS: Final = {"num_warps": 4, "num_stages": 1, "enable_fp_fusion": False}
"""Options of every launch. A product fused with the addition that follows it would change bits."""


def kernel(function: Callable[..., None]) -> Kernel:
    """Make a kernel; its scalar arguments are never specialised, so that few variants are compiled."""
    scalars = [name for name, kind in function.__annotations__.items() if kind in (tl.int32, tl.int64)]
    return triton.jit(function, do_not_specialize=scalars)


def device_function(function: Callable[..., Any]) -> Any:
    """Make a function that kernels call."""
    return triton.jit(function)


@dataclass(frozen=True, slots=True)
class Tiling:
    """A stretch cut into tiles of `tile_rows` rows and `tile_blocks` Philox blocks.

    Attributes
    ----------
    tiles
        Tiles beside one another that cover a row, wherever in a block it begins.
    programs
        Tiles in all.
    aligned
        Whether every row begins and ends with a block and lies likewise in the served tensor, so that threads
        may read and write several elements at once.
    """

    tile_rows: int
    tile_blocks: int
    tiles: int
    programs: int
    aligned: bool

    def arguments(self, stretch: Stretch) -> dict[str, int | bool]:
        """Return the arguments of a kernel that say which elements it works on, by name."""
        unit = LANES if self.aligned else 1
        return {
            "start": stretch.start // unit,
            "offset": stretch.offset // unit,
            "length": stretch.length // unit,
            "rows": stretch.rows,
            "source_step": stretch.source_step // unit,
            "target_step": stretch.target_step // unit,
            "tiles": self.tiles,
            "ROWS": self.tile_rows,
            "BLOCKS": self.tile_blocks,
            "ALIGNED": self.aligned,
        }


def tiling(stretch: Stretch, blocks: int | None = None) -> Tiling:
    """Return how a stretch is cut; `blocks` is the number of Philox blocks of a program, a power of two."""
    blocks = blocks or (INTERPRETER_BLOCKS if interpreted() else DEVICE_BLOCKS)
    steps = (stretch.source_step, stretch.target_step) if stretch.rows > 1 else ()
    begins = (stretch.start, stretch.offset, *steps)
    on_block = all(value % LANES == 0 for value in (stretch.start, *steps[:1]))
    # A row that begins within a block needs one block more.
    needed = -(-stretch.length // LANES) + (0 if on_block else 1)
    tile_blocks = min(blocks, 1 << (needed - 1).bit_length())
    tile_rows = min(blocks // tile_blocks, 1 << (stretch.rows - 1).bit_length())
    tiles = -(-needed // tile_blocks)
    programs = tiles * -(-stretch.rows // tile_rows)
    aligned = all(value % LANES == 0 for value in (*begins, stretch.length))
    return Tiling(tile_rows, tile_blocks, tiles, programs, aligned)


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter."""
    return bool(triton.knobs.runtime.interpret)


def on_device(tensor: torch.Tensor) -> contextlib.AbstractContextManager[object]:
    """Make the tensor's device the one that launches go to; ConfigurationError where none can run there."""
    if tensor.device.type == "cuda":
        return torch.cuda.device(tensor.device)
    if tensor.device.type == "cpu" and interpreted():
        return contextlib.nullcontext()
    raise ConfigurationError(
        f"weights on device {tensor.device}: Triton kernels run on CUDA devices only; elsewhere the weights "
        "must lie in the host's memory"
    )


@functools.cache
def table_on(device: torch.device) -> torch.Tensor:
    """Return the normal table as float32[65536] on a device; one for all tensors of the process."""
    return torch.from_numpy(normal_table().copy()).to(device)


def bits_of(flat: torch.Tensor) -> torch.Tensor:
    """Return a view of a flat tensor as integers of the same size, which no conversion touches."""
    return flat.view(torch.int32 if flat.element_size() == 4 else torch.int16)


def signed(value: int) -> int:
    """Return an unsigned 64-bit integer as the signed one with the same bits, which a launch takes."""
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} is not an unsigned 64-bit integer (0 <= value < 2**64)")
    return value - (1 << 64) if value >= 1 << 63 else value


def check_inside(stretch: Stretch, *tensors: torch.Tensor) -> None:
    """ValueError unless each tensor is flat and holds the stretch; a kernel would write elsewhere."""
    last = stretch.offset + (stretch.rows - 1) * stretch.target_step + stretch.length
    backwards = stretch.rows > 1 and min(stretch.source_step, stretch.target_step) < 0
    if min(stretch.start, stretch.offset) < 0 or min(stretch.length, stretch.rows) < 1 or backwards:
        raise ValueError(f"{stretch}: start, offset and steps must be at least 0, length and rows at least 1")
    if stretch.start + (stretch.rows - 1) * stretch.source_step + stretch.length >= 1 << 63:
        raise ValueError(f"{stretch}: flat indices must be below 2**63")
    for tensor in tensors:
        if tensor.dim() != 1 or not tensor.is_contiguous():
            raise ValueError(f"a flat, contiguous tensor is needed, found shape {tuple(tensor.shape)}")
        if last > tensor.numel():
            raise ValueError(f"{stretch} ends at {last}, but the tensor has {tensor.numel()} elements")
