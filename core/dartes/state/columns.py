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

from dartes.rpc.encoding import pack_bits, pack_floats, unpack_bits, unpack_floats
from dartes.state.errors import DamagedStoreError

ITERATION_COLUMNS = (
    "iteration, stage, epoch, problems, replayed, passed, truncated, scores, auxiliary, parent_passed,"
    " parent_scores, row, row_hash, beside"
)
EVALUATION_COLUMNS = "iteration, set_name, problems, samples, passed, truncated, keys, scores, beside"
COMPLETION_COLUMNS = "iteration, set_name, row, sample, prompt, text, passed, score, reason"

MOST_TEXT_BYTES = 8 * 1024
"""Of a prompt or an answer that is kept to be read; what is longer loses its middle."""

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
    """One committed iteration: shapes are [B] for problems and [N, B] for member results.

    `passed` and `scores` are what the algorithm used: no rule is left to be applied to them.
    """

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
    parent_scores: NDArray[np.float32] | None = None
    """The unperturbed model's scores, float32[B], where a pass is a score above them."""


@dataclass(frozen=True)
class StoredCompletion:
    """One answer to an evaluation set, for people to read; long texts were cut."""

    row: int
    sample: int
    prompt: str
    text: str
    passed: bool
    score: float
    reason: str


@dataclass(frozen=True)
class StoredEvaluation:
    """One evaluation set on the weights after `iteration` updates.

    Every array has shape [problems * samples]: the answers to a problem stand side by side. `keys` tells
    equal answers (0 = no answer) and is None for one sample; `scores` is None where no rule needs them.
    `completions` are only written with an evaluation: `RunReader.completions` reads them.
    """

    iteration: int
    set_name: str
    passed: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    beside: dict[str, Any]
    samples: int = 1
    keys: NDArray[np.uint64] | None = None
    scores: NDArray[np.float32] | None = None
    completions: tuple[StoredCompletion, ...] = ()

    @property
    def problems(self) -> int:
        """Number of problems."""
        return len(self.passed) // self.samples

    @property
    def accuracy(self) -> float:
        """Share of answers that passed: pass@1, the mean over problems and samples."""
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
        None if it.parent_scores is None else zlib.compress(pack_floats(it.parent_scores)),
        it.row,
        it.row_hash,
        json.dumps(it.beside, sort_keys=True),
    )


def evaluation_columns(evaluation: StoredEvaluation) -> tuple[Any, ...]:
    """An evaluation in the order of EVALUATION_COLUMNS."""
    return (
        evaluation.iteration,
        evaluation.set_name,
        evaluation.problems,
        evaluation.samples,
        pack_bits(evaluation.passed),
        pack_bits(evaluation.truncated),
        None if evaluation.keys is None else zlib.compress(evaluation.keys.astype("<u8").tobytes()),
        None if evaluation.scores is None else zlib.compress(pack_floats(evaluation.scores)),
        json.dumps(evaluation.beside, sort_keys=True),
    )


def completion_columns(iteration: int, set_name: str, completion: StoredCompletion) -> tuple[Any, ...]:
    """A completion in the order of COMPLETION_COLUMNS, its texts cut."""
    return (
        iteration,
        set_name,
        completion.row,
        completion.sample,
        cut_text(completion.prompt),
        cut_text(completion.text),
        int(completion.passed),
        completion.score,
        cut_text(completion.reason),
    )


def cut_text(text: str, most: int = MOST_TEXT_BYTES) -> str:
    """The text without its middle where it takes more than `most` bytes; what is no Unicode is replaced."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data.decode()
    head, tail = data[: most // 2].decode("utf-8", "ignore"), data[-(most // 2) :].decode("utf-8", "ignore")
    return f"{head} [... {len(data) - most // 2 * 2} bytes left out ...] {tail}"


def iteration_of(columns: Sequence[Any]) -> StoredIteration:
    """Inverse of `iteration_columns`. Raises DamagedStoreError."""
    k, stage, epoch, problems, replayed, passed, truncated, scores, auxiliary, *rest = columns
    parent, parent_scores, row, digest, beside = rest
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
            parent_scores=(
                None if parent_scores is None else unpack_floats(zlib.decompress(parent_scores), size)
            ),
            row=bytes(row),
            row_hash=bytes(digest),
            beside=_unpack_beside(beside, _BESIDE_KEYS),
        )


def evaluation_of(columns: Sequence[Any]) -> StoredEvaluation:
    """Inverse of `evaluation_columns`. Raises DamagedStoreError."""
    k, name, problems, samples, passed, truncated, keys, scores, beside = columns
    with _decoding(f"evaluation of {name!r} at iteration {k}"):
        count = int(problems) * int(samples)
        if count <= 0:
            raise ValueError(f"{problems} problems with {samples} samples")
        return StoredEvaluation(
            iteration=int(k),
            set_name=str(name),
            passed=unpack_bits(bytes(passed), count),
            truncated=unpack_bits(bytes(truncated), count),
            beside=_unpack_beside(beside, ()),
            samples=int(samples),
            keys=_unpack_keys(keys, count),
            scores=None if scores is None else unpack_floats(zlib.decompress(scores), count),
        )


def completion_of(columns: Sequence[Any]) -> StoredCompletion:
    """Inverse of `completion_columns`, without what it belongs to. Raises DamagedStoreError."""
    k, name, row, sample, prompt, text, passed, score, reason = columns
    with _decoding(f"completion of {name!r} at iteration {k}"):
        return StoredCompletion(
            int(row), int(sample), str(prompt), str(text), bool(passed), float(score), str(reason)
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


def _unpack_keys(payload: bytes | None, count: int) -> NDArray[np.uint64] | None:
    if payload is None:
        return None
    keys = np.frombuffer(zlib.decompress(payload), "<u8").astype(np.uint64)
    if len(keys) != count:
        raise ValueError(f"{len(keys)} keys for {count} answers")
    return keys


def _unpack_beside(text: str, required: Sequence[str]) -> dict[str, Any]:
    beside = json.loads(text)
    if not isinstance(beside, dict) or any(key not in beside for key in required):
        raise ValueError("what stands beside it is incomplete")
    return beside
