"""Loads the problems that a job's `dataset` section names, and digests them.

One pass: a source's rows are filtered, renamed, counted, digested and stored one by one. Coordinator and
workers load alike and compare digests, so nothing here may depend on the machine.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from dartes.data.builtin import builtin_rows
from dartes.data.comma_separated import rows_of_records
from dartes.data.duplicates import ID_COLUMN, Ids, refuse_duplicates
from dartes.data.errors import DatasetError
from dartes.data.hub import HubDataset, one_revision, rows_of_hub
from dartes.data.lines import rows_of_lines, rows_of_list, rows_of_packed_lines
from dartes.data.parts import Part, Placed, Reader
from dartes.data.places import Places
from dartes.data.row_store import RowWriter
from dartes.data.selection import Selection
from dartes.data.storage import LocalStorage, Storage, parts_of
from dartes.data.tables import rows_of_arrow, rows_of_parquet
from dartes.errors import ConfigurationError, TransientError
from dartes.pod_claims import claim_path
from dartes.spec.source import Scheme, Source, parse_source
from dartes.tasks.base import Row

DIGEST_DOMAIN: Final = b"dartes-rows-v1\n"

_ENCODE: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
_HUB_DATASETS: Final = "datasets/"

PLAIN_PATH: Final = "dataset"
"""Where a job has its only data set."""

READERS: Final[Mapping[str, Reader]] = {
    ".jsonl": rows_of_lines,
    ".jsonl.gz": rows_of_packed_lines,
    ".json": rows_of_list,
    ".csv": rows_of_records,
    ".parquet": rows_of_parquet,
    ".arrow": rows_of_arrow,
}


class DatasetDescription(Protocol):
    """The part of a job's `dataset` section that is read here."""

    @property
    def source(self) -> str: ...
    @property
    def config(self) -> str | None: ...
    @property
    def split(self) -> str: ...
    @property
    def revision(self) -> str | None: ...
    @property
    def max_problems(self) -> int | None: ...
    @property
    def columns(self) -> Mapping[str, str]: ...
    @property
    def filters(self) -> Mapping[str, tuple[str, ...]]: ...


@dataclass(frozen=True, slots=True)
class Dataset:
    """The problems of a job, in their order.

    Attributes
    ----------
    rows
        One mapping (column -> value) per problem, after filters, renaming and limit; never empty. A row is
        decoded at every access, so keep it while it is needed.
    digest
        SHA-256, hex, of the rows as canonical JSON.
    description
        Where they come from, for messages.
    places
        Where each row stands in its source, for messages: "train.jsonl line 3".
    """

    rows: Sequence[Row]
    digest: str
    description: str
    places: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Opened:
    """A source that can be read from its start, any number of times."""

    name: str
    rows: Callable[[], Iterator[Placed]]


def load_dataset(description: DatasetDescription, base_dir: Path, path: str = PLAIN_PATH) -> Dataset:
    """Load the problems that `description` names; relative paths start at `base_dir` (the job file's folder).

    `path` is where the job's spec has the data set, such as `dataset.mix[0]`; errors begin with it.

    Memory stays bounded however many problems there are: some megabytes, 16 bytes a problem, and 8 more while
    loading where the problems have ids. Larger data sets lie in the temporary folder (TMPDIR).

    Raises
    ------
    DatasetError
        For an unknown source, split or column, a damaged file or line, two problems of one id, an empty data
        set.
    ConfigurationError
        Packages that a source needs are not installed, or a claim is not mounted.
    TransientError
        A hub or bucket cannot be reached.
    """
    try:
        return _loaded(description, base_dir)
    except DatasetError as error:
        raise DatasetError(_at(path, str(error))) from error
    except ConfigurationError as error:
        raise ConfigurationError(_at(path, str(error))) from error
    except TransientError as error:
        raise TransientError(_at(path, str(error))) from error


def _at(path: str, message: str) -> str:
    """A message about a data set with the place that the job has it at; that of a plain one says enough."""
    if path == PLAIN_PATH:
        return message
    field = message.removeprefix(f"{PLAIN_PATH}.")
    return f"spec.{path}: {message}" if field == message else f"spec.{path}.{field}"


def _loaded(description: DatasetDescription, base_dir: Path) -> Dataset:
    opened = _opened(description, base_dir)
    selection = _selection(description)
    digest = hashlib.sha256(DIGEST_DOMAIN)
    ids = Ids()
    places = Places()
    with closing(RowWriter()) as writer:
        for place, row in selection.apply(opened.rows()):
            line = _canonical(row, place)
            digest.update(line)
            writer.append(line)
            places.append(place)
            if ID_COLUMN in row:
                ids.add(row)
        if not len(writer):
            raise DatasetError(f"{opened.name}: {selection.why_empty()}")
        if repeated := ids.repeated():
            refuse_duplicates(repeated, _selection(description).apply(opened.rows()))
        rows = writer.rows()
    return Dataset(rows, digest.hexdigest(), f"{opened.name} ({len(rows):,} problems)", places)


def _selection(description: DatasetDescription) -> Selection:
    return Selection(description.columns, description.filters, description.max_problems)


def _opened(description: DatasetDescription, base_dir: Path) -> _Opened:
    try:
        source = parse_source(description.source)
    except ValueError as error:
        raise DatasetError(f"dataset.source: {description.source!r}: {error}") from error
    if source.scheme is Scheme.HUB:
        wanted = _on_hub(source, description)
        return _Opened(wanted.name, lambda: rows_of_hub(wanted))
    for field, value in {"config": description.config, "revision": description.revision}.items():
        if value is not None:
            raise DatasetError(
                f"dataset.{field}: {value!r}: only hf://datasets sources have one, not "
                f"{description.source!r}; leave it out"
            )
    if source.scheme is Scheme.BUILTIN:
        return _built_in(source.rest, description.split)
    storage = _storage(source, description.source, base_dir)
    parts = parts_of(storage, description.split)
    name = parts[0].name if len(parts) == 1 else f"{storage.name} [{description.split}]"
    return _Opened(name, lambda: rows_of_parts(storage, parts))


def _on_hub(source: Source, description: DatasetDescription) -> HubDataset:
    if not source.rest.startswith(_HUB_DATASETS):
        raise DatasetError(
            f"dataset.source: {description.source!r} is a model; a data set is hf://datasets/OWNER/NAME"
        )
    return HubDataset(
        source.rest.removeprefix(_HUB_DATASETS),
        description.config,
        description.split,
        one_revision(source.revision, description.revision),
    )


def _built_in(name: str, split: str) -> _Opened:
    shown = f"builtin://{name} [{split}]"
    rows = builtin_rows(name, split)
    return _Opened(
        shown,
        lambda: ((f"{shown}, problem {number}", row) for number, row in enumerate(rows, start=1)),
    )


def _storage(source: Source, text: str, base_dir: Path) -> Storage:
    if source.scheme in {Scheme.S3, Scheme.GCS}:
        from dartes.data.bucket import open_bucket

        return open_bucket(text, source.scheme, source.rest)
    if source.scheme is Scheme.PVC:
        return LocalStorage(claim_path("dataset.source", source.rest))
    return LocalStorage(source.path(base_dir))


def rows_of_parts(storage: Storage, parts: Sequence[Part]) -> Iterator[Placed]:
    """The rows of all parts, one part after the other."""
    with storage.errors_named():
        for part in parts:
            yield from READERS[part.suffix](part)


def _canonical(row: Row, place: str) -> bytes:
    """One row as a line of canonical JSON: sorted keys, no spaces, UTF-8."""
    try:
        return _ENCODE(row).encode() + b"\n"
    except UnicodeEncodeError:
        raise DatasetError(
            f"{place}: holds half of a UTF-16 pair (\\ud800 to \\udfff), which is no character"
        ) from None
    except RecursionError:
        raise DatasetError(f"{place}: nested too deeply") from None
