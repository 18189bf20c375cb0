"""The journal's header and rows: their values, their bytes, and the hash chain over them.

With the base model, these *are* the fine-tuned model. Pure: knows no file and applies nothing.

Layout, all numbers little endian. Header: canonical JSON (sorted keys, no spaces, UTF-8). Row: iteration
uint64, stage uint32, number of members uint32, seeds uint64[N], coefficients float32[N]. Hashes: SHA-256
of the header's bytes, then SHA-256(previous hash, bytes of the row) for every row.
"""

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dartes.ids import Iteration
from dartes.journal.errors import JournalError

FORMAT_VERSION: Final = 1
HASH_BYTES: Final = 32
MEMBER_LIMIT: Final = 2**20
STAGE_LIMIT: Final = 2**24
HEADER_LIMIT: Final = 64 * 2**20
"""Longest header in bytes; a model of 100,000 tensors takes about 10 MB."""

_ROW_PREFIX: Final = struct.Struct("<QII")
ROW_LIMIT: Final = _ROW_PREFIX.size + 12 * MEMBER_LIMIT


@dataclass(frozen=True)
class JournalHeader:
    """What must be equal for a journal's rows to mean the same weights.

    Attributes
    ----------
    noise_version
        Version of the noise contract.
    run_seed
        The job's seed, 0..2**64 - 1.
    algorithm_digest, algorithm_fields
        Digest and values of the job's fields that decide the result.
    base_digest, data_digest
        Digest of the base model and of the problems, hex.
    tensors
        Name and shape of every trained tensor, sorted by name.
    """

    noise_version: int
    run_seed: int
    algorithm_digest: str
    algorithm_fields: Mapping[str, object]
    base_digest: str
    data_digest: str
    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    format_version: int = FORMAT_VERSION

    def encode(self) -> bytes:
        """Canonical bytes; equal headers have equal bytes."""
        document = {
            "format_version": self.format_version,
            "noise_version": self.noise_version,
            "run_seed": self.run_seed,
            "algorithm_digest": self.algorithm_digest,
            "algorithm_fields": dict(self.algorithm_fields),
            "base_digest": self.base_digest,
            "data_digest": self.data_digest,
            "tensors": [[name, list(shape)] for name, shape in self.tensors],
        }
        text = json.dumps(
            document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        return text.encode("utf-8")

    @staticmethod
    def decode(raw: bytes) -> "JournalHeader":
        """Parse canonical bytes; JournalError if they aren't, or if a newer version wrote them."""
        try:
            document = json.loads(raw.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise JournalError(f"journal header: not JSON ({error})") from error
        version = document.get("format_version") if isinstance(document, dict) else None
        if version != FORMAT_VERSION:
            raise JournalError(
                f"journal header: format_version {version!r:.40}, this version of dartes reads "
                f"{FORMAT_VERSION}; use the version that wrote it"
            )
        try:
            header = JournalHeader(
                noise_version=_whole(document["noise_version"]),
                run_seed=_whole(document["run_seed"]),
                algorithm_digest=_text(document["algorithm_digest"]),
                algorithm_fields=_mapping(document["algorithm_fields"]),
                base_digest=_text(document["base_digest"]),
                data_digest=_text(document["data_digest"]),
                tensors=tuple(
                    (_text(n), tuple(_whole(s) for s in shape)) for n, shape in document["tensors"]
                ),
            )
            same = header.encode() == raw
        except (KeyError, TypeError, ValueError) as error:
            raise JournalError(f"journal header: field missing or of the wrong type: {error}") from error
        if not same:
            raise JournalError("journal header: has fields or a form that this version doesn't know")
        return header

    def hash(self) -> bytes:
        """SHA-256 of the header: the `previous` of the first row, and the row hash of the base model."""
        return hashlib.sha256(self.encode()).digest()


@dataclass(frozen=True, eq=False)
class JournalRow:
    """One iteration's update: member i's noise is drawn from seeds[i] and weighted by coefficients[i].

    `seeds` uint64[N], `coefficients` float32[N] (finite, the sign of antithetic members included).
    """

    iteration: Iteration
    stage: int
    seeds: NDArray[np.uint64]
    coefficients: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Refuse a row that couldn't be stored or replayed; freezes private copies of the arrays."""
        seeds = np.array(self.seeds, dtype=np.uint64, copy=True)
        coefficients = np.array(self.coefficients, dtype=np.float32, copy=True)
        if not 0 <= self.iteration < 2**64 or not 0 <= self.stage < STAGE_LIMIT:
            raise JournalError(
                f"journal row: iteration {self.iteration} or stage {self.stage} is out of range"
            )
        if seeds.ndim != 1 or seeds.shape != coefficients.shape or not 0 < seeds.size <= MEMBER_LIMIT:
            raise JournalError(
                f"journal row {self.iteration}: {seeds.shape} seeds and {coefficients.shape} coefficients; "
                f"they must be as many, 1 to {MEMBER_LIMIT}"
            )
        if not np.isfinite(coefficients).all():
            raise JournalError(f"journal row {self.iteration}: a coefficient isn't finite")
        seeds.flags.writeable = False
        coefficients.flags.writeable = False
        object.__setattr__(self, "seeds", seeds)
        object.__setattr__(self, "coefficients", coefficients)

    def encode(self) -> bytes:
        """The row's bytes; equal rows have equal bytes."""
        return (
            _ROW_PREFIX.pack(self.iteration, self.stage, self.seeds.size)
            + self.seeds.astype("<u8").tobytes()
            + self.coefficients.astype("<f4").tobytes()
        )

    @staticmethod
    def decode(raw: bytes) -> "JournalRow":
        """Parse a row's bytes; JournalError if they are no row."""
        if len(raw) < _ROW_PREFIX.size:
            raise JournalError(f"journal row: {len(raw)} bytes is too short")
        iteration, stage, members = _ROW_PREFIX.unpack_from(raw)
        if members > MEMBER_LIMIT or len(raw) != _ROW_PREFIX.size + 12 * members:
            raise JournalError(f"journal row: {members} members don't take {len(raw)} bytes")
        seeds = np.frombuffer(raw, dtype="<u8", count=members, offset=_ROW_PREFIX.size)
        coefficients = np.frombuffer(raw, dtype="<f4", count=members, offset=_ROW_PREFIX.size + 8 * members)
        return JournalRow(Iteration(iteration), stage, seeds, coefficients)

    def update(self) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        """Seeds and coefficients, as the noise kernel takes them."""
        return self.seeds, self.coefficients

    def __eq__(self, other: object) -> bool:
        """Rows are equal when their bytes are (so -0.0 is not 0.0)."""
        return isinstance(other, JournalRow) and self.encode() == other.encode()

    def __hash__(self) -> int:
        """Consistent with equality."""
        return hash(self.encode())


def row_hash(previous: bytes, row: JournalRow) -> bytes:
    """SHA-256(previous, row): 32 bytes; `previous` is the hash of the row before, or of the header."""
    return hashlib.sha256(previous + row.encode()).digest()


def chain(start: bytes, rows: Sequence[JournalRow]) -> tuple[bytes, ...]:
    """The hash of every row, continuing from `start`."""
    hashes: list[bytes] = []
    for row in rows:
        start = row_hash(start, row)
        hashes.append(start)
    return tuple(hashes)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise ValueError(f"{value!r:.40} isn't a whole number from 0 to 2**64 - 1")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} isn't text")
    return value


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} isn't an object")
    return value
