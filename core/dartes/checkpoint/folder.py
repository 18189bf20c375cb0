"""Open a model folder in the hub's layout: one safetensors file, or shards with their index.

Responsible for finding the tensors, checking them, naming what is wrong, and handing out their values as
float32. Knows no engine and changes nothing.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dartes.checkpoint.classify import LeftAlone, classify, dtypes_by_elements
from dartes.checkpoint.errors import CheckpointError
from dartes.checkpoint.safetensors_file import (
    BUFFER_BYTES,
    StoredDtype,
    TensorInfo,
    byte_chunks,
    read_bytes,
    read_header,
)
from dartes.noise import ServedDtype, tensor_id

SINGLE_FILE: Final = "model.safetensors"
INDEX_FILE: Final = "model.safetensors.index.json"
CONFIG_FILE: Final = "config.json"
JSON_LIMIT: Final = 64 * 2**20

_SERVED: Final[Mapping[StoredDtype, ServedDtype]] = {
    StoredDtype.F32: ServedDtype.FLOAT32,
    StoredDtype.BF16: ServedDtype.BFLOAT16,
    StoredDtype.F16: ServedDtype.FLOAT16,
}


@dataclass(frozen=True)
class Checkpoint:
    """A model on disk. Holds no weights and no open files; safe to share between threads.

    Attributes
    ----------
    tensors
        Every stored tensor by its checkpoint name.
    trainable
        The trained ones, sorted by name; tied ones once, under the embedding's name.
    left_alone
        The others, with the reason.
    """

    folder: Path
    config: Mapping[str, object]
    tensors: Mapping[str, TensorInfo]
    trainable: tuple[TensorInfo, ...]
    left_alone: tuple[LeftAlone, ...]

    @property
    def parameter_count(self) -> int:
        """Number of trained elements, d."""
        return sum(info.count for info in self.trainable)

    @property
    def dtype(self) -> ServedDtype:
        """Element type in which most trained elements are stored."""
        totals = dtypes_by_elements(self.trainable)
        return _SERVED[max(sorted(totals), key=totals.__getitem__)]

    def read_f32(self, name: str, start: int, count: int) -> NDArray[np.float32]:
        """Return elements `start` to `start + count` of a tensor's flat order as float32[count], exactly."""
        out = np.empty(count, dtype=np.float32)
        self.read_into(name, start, out)
        return out

    def read_into(self, name: str, start: int, out: NDArray[np.float32]) -> None:
        """Fill the contiguous float32 `out` from element `start` on; no temporary above 2 MiB.

        Raises CheckpointError if the file ends early, ValueError if the range leaves the tensor.
        """
        info = self.tensors[name]
        if start < 0 or start + len(out) > info.count:
            raise ValueError(f"{name}: elements {start}..{start + len(out)} of {info.count}")
        if info.dtype is StoredDtype.F32:
            read_bytes(info, 4 * start, out.view(np.uint8))
            return
        if info.dtype not in _SERVED:
            raise ValueError(f"{name}: {info.dtype} isn't read as float32")
        step = BUFFER_BYTES // 2
        buffer = np.empty(min(step, len(out)), dtype="<u2")
        for done in range(0, len(out), step):
            target = out[done : done + step]
            words = buffer[: len(target)]
            read_bytes(info, 2 * (start + done), words.view(np.uint8))
            if info.dtype is StoredDtype.BF16:
                np.left_shift(words, np.uint32(16), out=target.view(np.uint32), dtype=np.uint32)
            else:
                target[:] = words.view("<f2")

    @cached_property
    def _base_digest(self) -> str:
        redundant = {item.info.name for item in self.left_alone if item.tied_to is not None}
        total = hashlib.sha256()
        for name in sorted(self.tensors.keys() - redundant):
            info = self.tensors[name]
            content = hashlib.sha256()
            for chunk in byte_chunks(info):
                content.update(chunk)
            entry = [name, info.dtype.value, list(info.shape), content.hexdigest()]
            total.update(json.dumps(entry, separators=(",", ":")).encode("ascii") + b"\n")
        return total.hexdigest()

    def base_digest(self) -> str:
        """SHA-256 hex over the sorted (name, dtype, shape, SHA-256 of bytes).

        How the tensors are cut into files doesn't matter. A head that repeats its
        tied embedding is left out: saving a model again may drop it.
        Reads everything once, then remembers.
        """
        return self._base_digest


def open_checkpoint(folder: Path) -> Checkpoint:
    """Open and check a model folder; reads headers, and the head where it may be tied.

    Raises
    ------
    CheckpointError
        No weights in safetensors, a missing shard or tensor, a truncated or damaged file, quantised,
        integer or float64 weights, or two trained tensors whose noise ids collide.
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder; a model is a folder with {SINGLE_FILE} in it")
    config_path = folder / CONFIG_FILE
    config = read_json_object(config_path) if config_path.is_file() else {}
    tensors = _single(folder) if (folder / SINGLE_FILE).is_file() else _sharded(folder)
    classified = classify(tensors, config)
    if not classified.trainable:
        raise CheckpointError(f"{folder}: the files hold no trainable tensor; is this a model folder?")
    ids: dict[int, str] = {}
    for info in classified.trainable:
        other = ids.setdefault(tensor_id(info.name), info.name)
        if other != info.name:
            raise CheckpointError(
                f"{folder}: tensors {other!r} and {info.name!r} have the same noise id; rename one of them"
            )
    return Checkpoint(folder, config, tensors, classified.trainable, classified.left_alone)


def read_json_object(path: Path) -> dict[str, object]:
    """Read a JSON object of bounded size; CheckpointError names the file."""
    try:
        with path.open("rb") as file:
            raw = file.read(JSON_LIMIT + 1)
        if len(raw) > JSON_LIMIT:
            raise CheckpointError(f"{path}: more than {JSON_LIMIT} bytes; not a file of this kind")
        document = json.loads(raw.decode("utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: isn't valid JSON ({error}); fetch it again") from error
    if not isinstance(document, dict):
        raise CheckpointError(f"{path}: isn't a JSON object; fetch it again")
    return document


def _single(folder: Path) -> dict[str, TensorInfo]:
    return {info.name: info for info in read_header(folder / SINGLE_FILE).tensors}


def _sharded(folder: Path) -> dict[str, TensorInfo]:
    index_path = folder / INDEX_FILE
    if not index_path.is_file():
        raise CheckpointError(_no_weights(folder))
    weight_map = read_json_object(index_path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index_path}: field weight_map must map tensor names to files")
    tensors: dict[str, TensorInfo] = {}
    for shard in sorted({str(value) for value in weight_map.values()}):
        path = folder / shard
        if shard != Path(shard).name or not shard.endswith(".safetensors"):
            raise CheckpointError(
                f"{index_path}: {shard[:200]!r} must be a .safetensors file in the same folder"
            )
        if not path.is_file():
            raise CheckpointError(
                f"{folder}: shard {shard} is missing, {INDEX_FILE} names it; fetch it again"
            )
        for info in read_header(path).tensors:
            if info.name in tensors:
                raise CheckpointError(
                    f"{folder}: {info.name!r} is in {tensors[info.name].path.name} and {shard}"
                )
            tensors[info.name] = info
    for name, shard in sorted(weight_map.items()):
        if name not in tensors or tensors[name].path.name != shard:
            raise CheckpointError(
                f"{folder}: tensor {name[:200]!r} is missing from {shard}, where {INDEX_FILE} places it; "
                "fetch that file again"
            )
    return tensors


def _no_weights(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    loose = [name for name in names if name.endswith(".safetensors")]
    if loose:
        return f"{folder}: has {loose[0]} but neither {SINGLE_FILE} nor {INDEX_FILE}; fetch the index too"
    others = [
        name for name in names if name.endswith((".bin", ".pt", ".pth", ".h5", ".gguf", ".msgpack", ".ckpt"))
    ]
    if others:
        return (
            f"{folder}: weights only as {others[0]}, which isn't read; load the model with transformers and "
            "save_pretrained() it, which writes safetensors"
        )
    return f"{folder}: no weights: neither {SINGLE_FILE} nor {INDEX_FILE} is there"
