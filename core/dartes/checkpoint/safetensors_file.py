"""Read one safetensors file without trusting it: a bounded header, checked offsets, explicit sizes.

Knows the file format and nothing about models. Bytes are read with positioned reads into buffers that
the caller owns: unlike a mapping, they don't count as this process's memory, and a file that shrinks
under the reader is an error with a name instead of a bus error.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from pathlib import Path
from typing import Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dartes.checkpoint.errors import CheckpointError

HEADER_LIMIT: Final = 100_000_000
"""Longest header that is read, in bytes; the format's own bound."""

BUFFER_BYTES: Final = 2 * 2**20
"""Size of the buffer through which bytes are hashed, converted or copied."""

RANK_LIMIT: Final = 16
NAME_LIMIT: Final = 4096


class StoredDtype(StrEnum):
    """Element types of the safetensors format that have a whole number of bytes per element."""

    F64 = "F64"
    F32 = "F32"
    F16 = "F16"
    BF16 = "BF16"
    F8_E4M3 = "F8_E4M3"
    F8_E5M2 = "F8_E5M2"
    F8_E8M0 = "F8_E8M0"
    I64 = "I64"
    I32 = "I32"
    I16 = "I16"
    I8 = "I8"
    U64 = "U64"
    U32 = "U32"
    U16 = "U16"
    U8 = "U8"
    BOOL = "BOOL"

    @property
    def size(self) -> int:
        """Bytes per element."""
        return _SIZES[self]


_SIZES: Final[Mapping[StoredDtype, int]] = {
    StoredDtype.F64: 8,
    StoredDtype.F32: 4,
    StoredDtype.F16: 2,
    StoredDtype.BF16: 2,
    StoredDtype.F8_E4M3: 1,
    StoredDtype.F8_E5M2: 1,
    StoredDtype.F8_E8M0: 1,
    StoredDtype.I64: 8,
    StoredDtype.I32: 4,
    StoredDtype.I16: 2,
    StoredDtype.I8: 1,
    StoredDtype.U64: 8,
    StoredDtype.U32: 4,
    StoredDtype.U16: 2,
    StoredDtype.U8: 1,
    StoredDtype.BOOL: 1,
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One stored tensor: its name, how it is stored, and where (absolute byte offset in `path`)."""

    name: str
    dtype: StoredDtype
    shape: tuple[int, ...]
    path: Path
    offset: int

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of stored bytes."""
        return self.count * self.dtype.size


@dataclass(frozen=True)
class SafetensorsHeader:
    """What a safetensors file says about itself, checked against its real size."""

    path: Path
    metadata: Mapping[str, str]
    tensors: tuple[TensorInfo, ...]


def read_header(path: Path) -> SafetensorsHeader:
    """Read and check the header of a safetensors file.

    Raises
    ------
    CheckpointError
        The file is cut short (expected and real size), has bytes that no tensor claims, or its header is
        too long, not JSON, or contradicts itself. The message names the file and the tensor.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            prefix = file.read(8)
            length = int.from_bytes(prefix, "little")
            if len(prefix) < 8:
                raise CheckpointError(
                    f"{path}: {size} bytes is too short for a safetensors file; fetch it again"
                )
            if length > HEADER_LIMIT:
                raise CheckpointError(
                    f"{path}: header of {length} bytes, at most {HEADER_LIMIT} allowed: "
                    "not a safetensors file, or damaged; fetch it again"
                )
            if 8 + length > size:
                raise CheckpointError(
                    f"{path}: truncated: the header alone needs {8 + length} bytes, the file has {size}; "
                    "fetch it again"
                )
            raw = file.read(length)
    except OSError as error:
        raise CheckpointError(f"{path}: can't be read: {error.strerror}") from error
    document = _parse(path, raw)
    metadata = _metadata(path, document.pop("__metadata__", {}))
    tensors = tuple(_tensor(path, name, entry, 8 + length) for name, entry in document.items())
    _check_extent(path, tensors, 8 + length, size)
    return SafetensorsHeader(path, metadata, tensors)


def read_bytes(info: TensorInfo, start: int, out: NDArray[np.uint8]) -> None:
    """Fill `out` (contiguous uint8) with the stored bytes of `info` from byte `start` of the tensor on."""
    with info.path.open("rb", buffering=0) as file:
        _read_exactly(file.fileno(), info, start, out.data)


def byte_chunks(info: TensorInfo, buffer_bytes: int = BUFFER_BYTES) -> Iterator[memoryview]:
    """Yield the stored bytes of a tensor in order; each view is valid until the next one is asked for."""
    buffer = np.empty(min(buffer_bytes, info.nbytes), dtype=np.uint8).data
    with info.path.open("rb", buffering=0) as file:
        for start in range(0, info.nbytes, buffer_bytes):
            view = buffer[: min(buffer_bytes, info.nbytes - start)]
            _read_exactly(file.fileno(), info, start, view)
            yield view


def _read_exactly(descriptor: int, info: TensorInfo, start: int, view: memoryview) -> None:
    done = 0
    while done < len(view):
        got = os.preadv(descriptor, [view[done:]], info.offset + start + done)
        if got == 0:
            raise CheckpointError(
                f"{info.path}: ends inside tensor {info.name!r}: the file became shorter while it was in use"
            )
        done += got


def _parse(path: Path, raw: bytes) -> dict[str, object]:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        seen = dict(pairs)
        if len(seen) != len(pairs):
            raise CheckpointError(f"{path}: a name stands twice in the header; write the file again")
        return seen

    try:
        document = json.loads(raw.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: the header isn't valid JSON ({error}); fetch the file again"
        ) from error
    if not isinstance(document, dict):
        raise CheckpointError(f"{path}: the header isn't a JSON object; fetch the file again")
    return document


def _metadata(path: Path, value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise CheckpointError(f"{path}: header field __metadata__ must map strings to strings")
    return value


def _tensor(path: Path, name: str, entry: object, data_start: int) -> TensorInfo:
    where = f"{path}: tensor {name[:200]!r}"
    try:
        encoded = len(name.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise CheckpointError(f"{where}: the name isn't valid Unicode; write the file again") from error
    if encoded > NAME_LIMIT:
        raise CheckpointError(f"{where}: the name has {encoded} bytes, at most {NAME_LIMIT} allowed")
    if not isinstance(entry, dict):
        raise CheckpointError(f"{where}: its entry isn't an object")
    try:
        dtype = StoredDtype(str(entry.get("dtype")))
    except ValueError as error:
        raise CheckpointError(
            f"{where}: dtype {str(entry.get('dtype'))[:40]!r} isn't one of {', '.join(StoredDtype)}; "
            "convert the model to bfloat16 first"
        ) from error
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not _whole_numbers(shape) or len(shape) > RANK_LIMIT:
        raise CheckpointError(f"{where}: shape must be a list of at most {RANK_LIMIT} whole numbers >= 0")
    if not _whole_numbers(offsets) or len(offsets) != 2:
        raise CheckpointError(f"{where}: data_offsets must be two whole numbers >= 0")
    info = TensorInfo(name, dtype, tuple(shape), path, data_start + offsets[0])
    if offsets[1] - offsets[0] != info.nbytes:
        raise CheckpointError(
            f"{where}: shape {list(shape)} of {dtype} is {info.nbytes} bytes, "
            f"but its offsets span {offsets[1] - offsets[0]}"
        )
    return info


def _whole_numbers(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**63 for item in value
    )


def _check_extent(path: Path, tensors: tuple[TensorInfo, ...], data_start: int, size: int) -> None:
    """Refuse a file whose tensors don't fill it from end to end, each byte once."""
    end = data_start
    for info in sorted(tensors, key=lambda item: (item.offset, item.nbytes)):
        if info.offset != end:
            kind = "overlaps another" if info.offset < end else "leaves a hole before it"
            raise CheckpointError(f"{path}: tensor {info.name!r} {kind}: byte {info.offset}, expected {end}")
        end = info.offset + info.nbytes
    if size < end:
        raise CheckpointError(
            f"{path}: truncated: expected {end} bytes, the file has {size} "
            f"({end - size} missing); fetch it again"
        )
    if size > end:
        raise CheckpointError(
            f"{path}: expected {end} bytes, the file has {size}: "
            f"{size - end} belong to no tensor; fetch it again"
        )
