"""The noise contract at working speed: one pass over memory, one thread, no tensor-sized temporaries.

Bit for bit equal to `dartes.noise.reference`. Importing this module loads the compiler (or its disk cache),
so others import it inside the functions that need it. All functions release the interpreter lock. Arrays
are flat, contiguous slices of a tensor whose first flat index is `start`; any start is allowed.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dartes.noise import kernel_compiled
from dartes.noise.dtypes import ServedDtype
from dartes.noise.philox import MASK_64
from dartes.noise.reference import Float32s, Served, UpdateRow, changes_weights
from dartes.noise.table import normal_table

__all__ = [
    "apply_updates",
    "digest_fp32",
    "digest_rounded",
    "digest_served",
    "round_into",
    "write_member",
]


def write_member(
    master: Float32s,
    out: Served,
    served: ServedDtype,
    seed: int,
    tensor_id: int,
    start: int,
    sigma: float | np.float32,
) -> None:
    """Writes `round_served(master + round32(sigma * normal))` to `out`; with sigma = +-0 the rounded master.

    `master` is float32[n]; `out` is uint16[n] bit patterns for the 16-bit formats, float32[n] otherwise, and
    must not overlap `master`. `sigma` is rounded to float32 first. ValueError for arrays that do not fit.
    """
    with np.errstate(over="ignore"):
        scale = np.float32(sigma)
    if not np.isfinite(scale):
        raise ValueError(f"sigma = {sigma}: must be a finite float32")
    _check_flat("master", master, np.dtype(np.float32))
    _check_flat("out", out, served.storage, writes=True)
    if master.size != out.size:
        raise ValueError(f"master has {master.size} elements, out has {out.size}: they must be equal")
    if np.may_share_memory(master, out):
        raise ValueError("out overlaps master: a member must never be written over the master weights")
    _check_address(seed, tensor_id, start, master.size)
    address = (np.uint64(seed), np.uint64(tensor_id), np.uint64(start))
    if served is not ServedDtype.FLOAT32:
        half_precision = served is ServedDtype.FLOAT16
        kernel_compiled.write_member_16(
            master, out.view(np.uint16), half_precision, normal_table(), *address, scale
        )
    elif scale == 0:
        out[:] = master
    else:
        kernel_compiled.write_member_32(master, out.view(np.float32), normal_table(), *address, scale)


def round_into(master: Float32s, out: Served, served: ServedDtype) -> None:
    """Writes the master itself, rounded to the served format, to `out`: a member with sigma 0."""
    write_member(master, out, served, seed=0, tensor_id=0, start=0, sigma=0.0)


def apply_updates(master: Float32s, tensor_id: int, start: int, rows: Sequence[UpdateRow]) -> None:
    """Applies the updates of consecutive iterations to `master` (float32[n]) in place, in one pass.

    Each row is (seeds uint64[N], coefficients float32[N]) in member order; N may differ between rows. Per
    element `acc = +0.0; acc += round32(c_i * normal_i)`, then `master += acc`. A row whose coefficients are
    all zero changes no bit. ValueError for rows that do not fit or hold a coefficient that is not finite.
    """
    _check_flat("master", master, np.dtype(np.float32), writes=True)
    _check_address(0, tensor_id, start, master.size)
    effective = [row for k, row in enumerate(rows) if changes_weights(k, row)]
    if not effective or not master.size:
        return
    offsets = np.zeros(len(effective) + 1, dtype=np.int64)
    np.cumsum([seeds.size for seeds, _ in effective], out=offsets[1:])
    kernel_compiled.apply_updates(
        master,
        normal_table(),
        np.uint64(tensor_id),
        np.uint64(start),
        np.concatenate([seeds for seeds, _ in effective]),
        np.concatenate([coefficients for _, coefficients in effective]),
        offsets,
    )


def digest_fp32(master: Float32s, tensor_id: int, start: int) -> int:
    """Sum of `mix64(id, flat index, float32 bits)` over the slice, modulo 2**64; slices add up."""
    return digest_served(master, tensor_id, start)


def digest_served(stored: Served, tensor_id: int, start: int) -> int:
    """The same sum over what an engine's tensor holds: uint16 patterns, or float32 values."""
    is_float32 = stored.dtype == np.float32
    _check_flat("stored", stored, (ServedDtype.FLOAT32 if is_float32 else ServedDtype.BFLOAT16).storage)
    _check_address(0, tensor_id, start, stored.size)
    bits: NDArray[np.uint32] | NDArray[np.uint16]
    bits = stored.view(np.uint32) if is_float32 else stored.view(np.uint16)
    return int(kernel_compiled.digest_bits(bits, np.uint64(tensor_id), np.uint64(start)))


def digest_rounded(master: Float32s, served: ServedDtype, tensor_id: int, start: int) -> int:
    """The `digest_served` that a served copy of the unperturbed master must have; stores nothing."""
    if served is ServedDtype.FLOAT32:
        return digest_fp32(master, tensor_id, start)
    _check_flat("master", master, np.dtype(np.float32))
    _check_address(0, tensor_id, start, master.size)
    half_precision = served is ServedDtype.FLOAT16
    bits = master.view(np.uint32)
    return int(
        kernel_compiled.digest_rounded_16(bits, half_precision, np.uint64(tensor_id), np.uint64(start))
    )


def _check_flat(
    name: str,
    array: NDArray[np.generic],
    dtype: np.dtype[np.uint16] | np.dtype[np.float32],
    writes: bool = False,
) -> None:
    if array.dtype != dtype:
        raise ValueError(f"{name} has dtype {array.dtype}, but {dtype} is needed")
    if array.ndim != 1 or not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(
            f"{name} has shape {array.shape} and strides {array.strides}: "
            "a flat, contiguous, aligned array is needed"
        )
    if writes and not array.flags.writeable:
        raise ValueError(f"{name} is read-only, but is written to")


def _check_address(seed: int, tensor_id: int, start: int, count: int) -> None:
    for name, value in (("seed", seed), ("tensor_id", tensor_id)):
        if not 0 <= value <= MASK_64:
            raise ValueError(f"{name} = {value}: must be an unsigned 64-bit integer")
    if start < 0 or start + count > MASK_64:
        raise ValueError(f"start = {start}: flat indices must be at least 0 and below 2**64 - 1")
