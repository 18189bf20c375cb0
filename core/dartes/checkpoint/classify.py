"""Decide which stored tensors are trained, which are left alone, and which make a model unusable.

The rules are about names and element types only, so that every process decides alike; see
`docs/noise.md` for what being trained means. Reads tensor bytes only to tell a tied head from a free one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dartes.checkpoint.errors import CheckpointError
from dartes.checkpoint.safetensors_file import StoredDtype, TensorInfo, byte_chunks

TRAINABLE_DTYPES: Final = frozenset({StoredDtype.F32, StoredDtype.BF16, StoredDtype.F16})
"""Element types that float32 holds exactly."""

_BUFFERS: Final = re.compile(
    r"(^|\.)(inv_freq|original_inv_freq|masked_bias|position_ids|num_batches_tracked|running_mean|running_var"
    r"|e_score_correction_bias)$"
)
_CAUSAL_MASK: Final = re.compile(r"(^|\.)(attn|attention)\.bias$")
_HEAD: Final = re.compile(r"(^|\.)(lm_head|embed_out)\.weight$")
_EMBEDDING: Final = re.compile(
    r"(^|\.)(embed_tokens|wte|embed_in|word_embeddings|tok_embeddings|token_embedding|embeddings)\.weight$"
)
_QUANTISED_SUFFIX: Final = re.compile(r"\.(qweight|qzeros|g_idx|weight_scale_inv|weight_packed|SCB|absmax)$")


@dataclass(frozen=True)
class LeftAlone:
    """A tensor that is never changed: why, and for a tied head the embedding whose values it repeats."""

    info: TensorInfo
    reason: str
    tied_to: str | None = None


@dataclass(frozen=True)
class Classified:
    """The tensors of a model: trained ones and those left alone, each sorted by name."""

    trainable: tuple[TensorInfo, ...]
    left_alone: tuple[LeftAlone, ...]


def classify(tensors: Mapping[str, TensorInfo], config: Mapping[str, object]) -> Classified:
    """Sort the tensors of a model into trained and left alone.

    Raises
    ------
    CheckpointError
        Quantised, integer or float64 weights; a head that the configuration calls tied and that differs
        from the embedding. The message names the tensor and the fix.
    """
    _refuse_quantised(tensors, config)
    trainable: list[TensorInfo] = []
    left_alone: list[LeftAlone] = []
    for name in sorted(tensors):
        info = tensors[name]
        if _BUFFERS.search(name):
            left_alone.append(LeftAlone(info, "buffer"))
        elif _CAUSAL_MASK.search(name) and len(info.shape) == 4:
            left_alone.append(LeftAlone(info, "causal mask"))
        elif (embedding := tied_embedding(info, tensors, config)) is not None:
            left_alone.append(LeftAlone(info, f"tied to {embedding}", embedding))
        elif info.dtype in TRAINABLE_DTYPES:
            trainable.append(info)
        else:
            raise CheckpointError(_unusable(info))
    return Classified(tuple(trainable), tuple(left_alone))


def tied_embedding(
    head: TensorInfo, tensors: Mapping[str, TensorInfo], config: Mapping[str, object]
) -> str | None:
    """Name of the embedding that an output head repeats, or None where the head has values of its own.

    `tie_word_embeddings` decides where the configuration has it; where it doesn't, equal bytes do.
    """
    if not _HEAD.search(head.name):
        return None
    declared = declared_tie(config)
    if declared is False:
        return None
    candidates = [
        info
        for name, info in sorted(tensors.items())
        if _EMBEDDING.search(name) and info.shape == head.shape and info.dtype == head.dtype
    ]
    for info in candidates:
        if same_bytes(head, info):
            return info.name
    if declared:
        against = ", ".join(info.name for info in candidates) or "any embedding of the same shape and dtype"
        raise CheckpointError(
            f"{head.path}: config.json has tie_word_embeddings: true, but {head.name!r} differs "
            f"from {against}; set tie_word_embeddings: false in config.json "
            "to train both, or remove the head from the file"
        )
    return None


def declared_tie(config: Mapping[str, object]) -> bool | None:
    """What the configuration (or its text part) says of tied embeddings; None where it doesn't say."""
    text_part = config.get("text_config")
    for part in (config, text_part if isinstance(text_part, dict) else {}):
        value = part.get("tie_word_embeddings")
        if isinstance(value, bool):
            return value
    return None


def same_bytes(left: TensorInfo, right: TensorInfo) -> bool:
    """Whether two tensors of the same size hold the same bytes; reads in bounded pieces."""
    pairs = zip(byte_chunks(left), byte_chunks(right), strict=True)
    return all(np.array_equal(np.frombuffer(a, np.uint8), np.frombuffer(b, np.uint8)) for a, b in pairs)


def dtypes_by_elements(tensors: Sequence[TensorInfo]) -> Mapping[StoredDtype, int]:
    """Number of elements stored in each element type."""
    totals: dict[StoredDtype, int] = {}
    for info in tensors:
        totals[info.dtype] = totals.get(info.dtype, 0) + info.count
    return totals


def _refuse_quantised(tensors: Mapping[str, TensorInfo], config: Mapping[str, object]) -> None:
    for name in sorted(tensors):
        if _QUANTISED_SUFFIX.search(name):
            raise CheckpointError(
                f"{tensors[name].path}: {name!r} belongs to quantised weights, which can't be trained; "
                "use the unquantised model, or de-quantise it to bfloat16 first"
            )
    for part in (config, config.get("text_config")):
        if isinstance(part, dict) and part.get("quantization_config"):
            raise CheckpointError(
                "config.json has a quantization_config: quantised weights can't be trained; "
                "use the unquantised model, or de-quantise it to bfloat16 and remove that field"
            )


def _unusable(info: TensorInfo) -> str:
    where = f"{info.path}: tensor {info.name!r} is stored as {info.dtype}"
    if info.dtype is StoredDtype.F64:
        return f"{where}, which float32 master weights can't hold exactly; convert the model to float32 first"
    return (
        f"{where}: only {', '.join(sorted(TRAINABLE_DTYPES))} can be trained; "
        "use the unquantised model, or convert it to bfloat16 first"
    )
