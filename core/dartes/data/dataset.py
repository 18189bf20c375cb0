"""Loads the problems that a job's `dataset` section names, and digests them.

Decides which source reads a name, then renames columns and applies the limit. Coordinator and workers load
alike and compare digests, so nothing here may depend on the machine.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from dartes.data.builtin import builtin_rows
from dartes.data.errors import DatasetError
from dartes.data.files import resolve_file, rows_of_file
from dartes.spec.source import Scheme, parse_source
from dartes.tasks.base import Row

DIGEST_DOMAIN = b"dartes-rows-v1\n"


class DatasetDescription(Protocol):
    """The part of a job's `dataset` section that is read here."""

    @property
    def source(self) -> str: ...
    @property
    def split(self) -> str: ...
    @property
    def max_problems(self) -> int | None: ...
    @property
    def columns(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Dataset:
    """The problems of a job, in their order.

    Attributes
    ----------
    rows
        One mapping (column -> value) per problem, after renaming and limit; never empty.
    digest
        SHA-256, hex, of the rows as canonical JSON.
    description
        Where they come from, for messages.
    """

    rows: Sequence[Row]
    digest: str
    description: str


def load_dataset(description: DatasetDescription, base_dir: Path) -> Dataset:
    """Load the problems that `description` names; relative paths start at `base_dir` (the job file's folder).

    Raises
    ------
    DatasetError
        For an unknown or unsupported source, a damaged file or line, a missing column, an empty data set.
    """
    name, located = _open_source(description, base_dir)
    renamed = _rename(located, description.columns)
    digest = hashlib.sha256(DIGEST_DOMAIN)
    rows = []
    for place, row in islice(renamed, description.max_problems):
        digest.update(_canonical(row, place))
        rows.append(row)
    if not rows:
        raise DatasetError(f"{name}: there is not one problem in it; a data set needs at least one")
    return Dataset(tuple(rows), digest.hexdigest(), f"{name} ({len(rows):,} problems)")


def _open_source(description: DatasetDescription, base_dir: Path) -> tuple[str, Iterator[tuple[str, Row]]]:
    try:
        source = parse_source(description.source)
    except ValueError as error:
        raise DatasetError(f"dataset.source: {description.source!r}: {error}") from error
    if source.scheme is Scheme.BUILTIN:
        name = f"builtin://{source.rest} [{description.split}]"
        rows = builtin_rows(source.rest, description.split)
        return name, ((f"{name}, problem {number}", row) for number, row in enumerate(rows, start=1))
    if source.scheme is not Scheme.FILE:
        raise DatasetError(
            f"dataset.source: {description.source!r} is not supported yet; "
            "use builtin://NAME or a local .jsonl or .json file"
        )
    path = resolve_file(source.path(base_dir), description.split)
    return str(path), rows_of_file(path)


def _rename(rows: Iterable[tuple[str, Row]], columns: Mapping[str, str]) -> Iterator[tuple[str, Row]]:
    """`columns` is new name -> name in the source; a renamed column replaces one that has the new name."""
    for place, row in rows:
        for new, old in columns.items():
            if old not in row:
                there = ", ".join(sorted(row)) or "none"
                raise DatasetError(f"{place}: dataset.columns.{new}: no column '{old}' (there are: {there})")
        kept = {name: value for name, value in row.items() if name not in columns.values()}
        yield place, {**kept, **{new: row[old] for new, old in columns.items()}}


def _canonical(row: Row, place: str) -> bytes:
    """One row as a line of canonical JSON: sorted keys, no spaces, UTF-8."""
    try:
        return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        raise DatasetError(
            f"{place}: holds half of a UTF-16 pair (\\ud800 to \\udfff), which is no character"
        ) from None
