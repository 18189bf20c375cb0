"""Stored values as Python sees them, and their columns in the store, both ways.

Decoding refuses whatever could not have been written, so that a damaged column is found where it is read.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dartes.rpc.encoding import pack_bits, pack_floats, unpack_bits
from dartes.state.errors import DamagedStoreError

ITERATION_COLUMNS = (
    "iteration, stage, epoch, problems, replayed, passed, truncated, scores, auxiliary, parent_passed,"
    " row, row_hash, beside"
)
EVALUATION_COLUMNS = "iteration, set_name, problems, passed, truncated, beside"

_BESIDE_KEYS = (
    "seconds",
    "seconds_by_part",
    "prompt_tokens",
    "generated_tokens",
    "wire_bytes",
    "nondeterministic_reports",
)
"""What every report on a run reads; written with each iteration."""


@dataclass(frozen=True)
class StoredIteration:
    """One committed iteration: shapes are [B] for problems and [N, B] for member results."""

    iteration: int
    stage: int
    epoch: int
    problems: NDArray[np.int64]
    replayed: NDArray[np.bool_]
    passed: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    scores: NDArray[np.float32] | None
    auxiliary: NDArray[np.float32] | None
    parent_passed: NDArray[np.bool_] | None
    row: bytes
    row_hash: bytes
    beside: dict[str, Any]


@dataclass(frozen=True)
class StoredEvaluation:
    """One evaluation set on the weights after `iteration` updates; bits per problem."""

    iteration: int
    set_name: str
    passed: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    beside: dict[str, Any]

    @property
    def accuracy(self) -> float:
        """Share of problems passed."""
        return float(np.count_nonzero(self.passed)) / len(self.passed)


@dataclass(frozen=True)
class StoredSnapshot:
    """A snapshot that a worker reported: file name inside the snapshots folder, and its digest."""

    iteration: int
    row_hash: bytes
    digest: str
    file: str


def iteration_columns(it: StoredIteration) -> tuple[Any, ...]:
    """An iteration in the order of ITERATION_COLUMNS."""
    return (
        it.iteration,
        it.stage,
        it.epoch,
        it.problems.astype("<u4").tobytes(),
        pack_bits(it.replayed),
        _pack_rows(it.passed),
        _pack_rows(it.truncated),
        None if it.scores is None else zlib.compress(pack_floats(it.scores)),
        None if it.auxiliary is None else zlib.compress(pack_floats(it.auxiliary)),
        None if it.parent_passed is None else pack_bits(it.parent_passed),
        it.row,
        it.row_hash,
        json.dumps(it.beside, sort_keys=True),
    )


def evaluation_columns(evaluation: StoredEvaluation) -> tuple[Any, ...]:
    """An evaluation in the order of EVALUATION_COLUMNS."""
    return (
        evaluation.iteration,
        evaluation.set_name,
        len(evaluation.passed),
        pack_bits(evaluation.passed),
        pack_bits(evaluation.truncated),
        json.dumps(evaluation.beside, sort_keys=True),
    )


def iteration_of(columns: Sequence[Any]) -> StoredIteration:
    """Inverse of `iteration_columns`. Raises DamagedStoreError."""
    k, stage, epoch, problems, replayed, passed, truncated, scores, auxiliary, parent, row, digest, beside = (
        columns
    )
    with _decoding(f"iteration {k}"):
        indices = np.frombuffer(problems, "<u4").astype(np.int64)
        size = len(indices)
        members = len(passed) // ((size + 7) // 8)
        return StoredIteration(
            iteration=int(k),
            stage=int(stage),
            epoch=int(epoch),
            problems=indices,
            replayed=unpack_bits(bytes(replayed), size),
            passed=_unpack_rows(passed, members, size),
            truncated=_unpack_rows(truncated, members, size),
            scores=_unpack_scores(scores, members, size),
            auxiliary=_unpack_scores(auxiliary, members, size),
            parent_passed=None if parent is None else unpack_bits(bytes(parent), size),
            row=bytes(row),
            row_hash=bytes(digest),
            beside=_unpack_beside(beside, _BESIDE_KEYS),
        )


def evaluation_of(columns: Sequence[Any]) -> StoredEvaluation:
    """Inverse of `evaluation_columns`. Raises DamagedStoreError."""
    k, name, count, passed, truncated, beside = columns
    with _decoding(f"evaluation of {name!r} at iteration {k}"):
        return StoredEvaluation(
            iteration=int(k),
            set_name=str(name),
            passed=unpack_bits(bytes(passed), int(count)),
            truncated=unpack_bits(bytes(truncated), int(count)),
            beside=_unpack_beside(beside, ()),
        )


@contextmanager
def _decoding(what: str) -> Iterator[None]:
    try:
        yield
    except (ArithmeticError, TypeError, ValueError, zlib.error) as error:
        raise DamagedStoreError(f"{what}: damaged in the store ({error})") from error


def _pack_rows(bits: NDArray[np.bool_]) -> bytes:
    return np.packbits(bits, axis=1, bitorder="little").tobytes()


def _unpack_rows(payload: bytes, members: int, size: int) -> NDArray[np.bool_]:
    rows = np.frombuffer(payload, np.uint8).reshape(members, (size + 7) // 8)
    return np.unpackbits(rows, axis=1, count=size, bitorder="little").astype(np.bool_)


def _unpack_scores(payload: bytes | None, members: int, size: int) -> NDArray[np.float32] | None:
    if payload is None:
        return None
    return np.frombuffer(zlib.decompress(payload), "<f4").astype(np.float32).reshape(members, size)


def _unpack_beside(text: str, required: Sequence[str]) -> dict[str, Any]:
    beside = json.loads(text)
    if not isinstance(beside, dict) or any(key not in beside for key in required):
        raise ValueError("what stands beside it is incomplete")
    return beside
