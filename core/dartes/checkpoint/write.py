"""Write a model folder in the hub's layout, piece by piece, all of it or nothing.

Responsible for file layout, rounding, the files that travel with the weights, and the final rename. Never
holds a tensor: values come from a callable, a piece at a time. Knows no journal and no engine.
"""

import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dartes.checkpoint.errors import CheckpointError
from dartes.checkpoint.folder import CONFIG_FILE, INDEX_FILE, SINGLE_FILE, Checkpoint
from dartes.checkpoint.pieces import Piece, for_each_piece, pieces
from dartes.checkpoint.safetensors_file import StoredDtype, TensorInfo, byte_chunks
from dartes.checkpoint.safetensors_layout import PlannedTensor, plan_layout, write_at
from dartes.durable import sync_folder
from dartes.errors import TransientError
from dartes.noise import ServedDtype

SHARD_BYTES: Final = 4_000_000_000
"""Largest shard, unless one tensor alone is larger."""

PROVENANCE_FILE: Final = "dartes.json"

_STORED: Final[Mapping[ServedDtype, StoredDtype]] = {
    ServedDtype.FLOAT32: StoredDtype.F32,
    ServedDtype.BFLOAT16: StoredDtype.BF16,
    ServedDtype.FLOAT16: StoredDtype.F16,
}
_TRAVELS: Final = re.compile(
    r".*\.(json|txt|model|jinja|tiktoken|py)$|(licen[cs]e|notice|copying)[^/]*$", re.IGNORECASE
)
_STAYS: Final = re.compile(
    rf"{re.escape(CONFIG_FILE)}$|{re.escape(PROVENANCE_FILE)}$|.*\.index\.json$|readme.*|adapter_.*|\..*",
    re.IGNORECASE,
)
ReadPiece = Callable[[str, int, int], NDArray[np.float32]]
"""(checkpoint name, first element, number of elements) -> float32[number of elements]"""


@dataclass(frozen=True)
class _File:
    name: str
    tensors: tuple[PlannedTensor, ...]


def write_checkpoint(
    source: Checkpoint,
    read: ReadPiece,
    output: Path,
    dtype: ServedDtype,
    *,
    provenance: Callable[[], Mapping[str, object]] | None = None,
    threads: int = 1,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write a model like `source` with trained weights from `read`, rounded to nearest even, to `output`.

    Buffers are copied as they are; a tied head that the source stores is written equal to its embedding,
    so that the result loads alike whether or not the loader ties it. `config.json` gets the new dtype,
    and tokenizer, generation and licence files are copied.

    Parameters
    ----------
    read
        Called once per piece and trained tensor, and again for a tied head; from several threads if
        `threads` > 1. At most `threads` pieces of 1 Mi elements exist at a time.
    provenance
        Called after the last piece; what it returns becomes `dartes.json`.

    Raises
    ------
    CheckpointError
        `output` exists and is not an empty folder.
    TransientError
        The disk is full. Nothing is left behind.
    """
    if output.is_symlink() or (output.exists() and not (output.is_dir() and not any(output.iterdir()))):
        raise CheckpointError(f"{output}: exists and is not empty; name a new folder or remove it first")
    plan = _plan(source, dtype, shard_bytes)
    needed = sum(tensor.nbytes for file in plan for tensor in file.tensors)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(output.parent).free
        if free < needed:
            raise TransientError(f"{output}: needs {needed} bytes, the disk has {free} free; make room")
        partial = output.parent / f".{output.name}.partial-{secrets.token_hex(4)}"
        partial.mkdir()
        try:
            for file in plan:
                _write_file(source, read, partial / file.name, file.tensors, dtype, threads)
            if len(plan) > 1:
                _write_json(partial / INDEX_FILE, _index(plan))
            _copy_companions(source.folder, partial)
            if source.config:
                _write_json(partial / CONFIG_FILE, with_dtype(source.config, dtype))
            if provenance is not None:
                _write_json(partial / PROVENANCE_FILE, provenance())
            sync_folder(partial)
            partial.rename(output)
            sync_folder(output.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TransientError(
                f"{output}: the disk is full ({needed} bytes are needed); make room"
            ) from error
        raise


def with_dtype(config: Mapping[str, object], dtype: ServedDtype) -> dict[str, object]:
    """A configuration whose dtype fields, in whichever of the two spellings, at any depth, say `dtype`."""

    def renamed(part: Mapping[str, object]) -> dict[str, object]:
        return {
            key: dtype.value
            if key in ("dtype", "torch_dtype") and (value is None or isinstance(value, str))
            else renamed(value)
            if isinstance(value, dict)
            else value
            for key, value in part.items()
        }

    result = renamed(config)
    if "dtype" not in result and "torch_dtype" not in result:
        result["torch_dtype"] = dtype.value
    return result


def _plan(source: Checkpoint, dtype: ServedDtype, shard_bytes: int) -> Sequence[_File]:
    """Fill shards in the order of names; the only shard has the plain name."""
    trained = {info.name for info in source.trainable} | {i.info.name for i in source.left_alone if i.tied_to}
    shards: list[list[PlannedTensor]] = [[]]
    size = 0
    for name in sorted(source.tensors):
        info = source.tensors[name]
        planned = PlannedTensor(name, _STORED[dtype] if name in trained else info.dtype, info.shape)
        if shards[-1] and size + planned.nbytes > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append(planned)
        size += planned.nbytes
    if len(shards) == 1:
        return [_File(SINGLE_FILE, tuple(shards[0]))]
    return [
        _File(f"model-{number:05d}-of-{len(shards):05d}.safetensors", tuple(tensors))
        for number, tensors in enumerate(shards, start=1)
    ]


def _index(plan: Sequence[_File]) -> Mapping[str, object]:
    return {
        "metadata": {"total_size": sum(tensor.nbytes for file in plan for tensor in file.tensors)},
        "weight_map": {tensor.name: file.name for file in plan for tensor in file.tensors},
    }


def _write_file(
    source: Checkpoint,
    read: ReadPiece,
    path: Path,
    tensors: Sequence[PlannedTensor],
    dtype: ServedDtype,
    threads: int,
) -> None:
    from dartes.noise.kernel import round_into

    layout = plan_layout(tensors, {"format": "pt"})
    values_of = {info.name: info.name for info in source.trainable}
    values_of |= {item.info.name: item.tied_to for item in source.left_alone if item.tied_to}
    with path.open("xb", buffering=0) as file:
        descriptor = file.fileno()
        write_at(descriptor, 0, layout.header)

        def work(piece: Piece) -> None:
            values = read(values_of[piece.name], piece.start, piece.count)
            at = layout.offsets[piece.name] + piece.start * dtype.bytes_per_value
            rounded: NDArray[np.uint16] | NDArray[np.float32] = np.empty(piece.count, dtype=dtype.storage)
            round_into(values, rounded, dtype)
            write_at(descriptor, at, rounded)

        sizes = [(tensor.name, source.tensors[tensor.name].count) for tensor in tensors]
        for_each_piece(work, pieces((name, size) for name, size in sizes if name in values_of), threads)
        _copy_buffers(descriptor, (source.tensors[n] for n, _ in sizes if n not in values_of), layout.offsets)
        file.truncate(layout.size)
        os.fsync(descriptor)


def _copy_buffers(descriptor: int, buffers: Iterable[TensorInfo], offsets: Mapping[str, int]) -> None:
    for info in buffers:
        at = offsets[info.name]
        for chunk in byte_chunks(info):
            write_at(descriptor, at, chunk)
            at += len(chunk)


def _copy_companions(folder: Path, output: Path) -> None:
    """Copy the small files that make the weights usable; old weights, their index and the README stay."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and _TRAVELS.fullmatch(path.name) and not _STAYS.fullmatch(path.name):
            _write_small(output / path.name, path.read_bytes())


def _write_json(path: Path, document: Mapping[str, object]) -> None:
    _write_small(path, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8"))


def _write_small(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
