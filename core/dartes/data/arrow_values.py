"""Turns Arrow's columns into JSON values, so that a Parquet file and its JSONL twin are the same data set.

Dates, times and decimals become text; columns that JSON cannot hold (bytes, images) are left out, and said.
Knows Arrow's types, nothing of files.
"""

import importlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from dartes.data.errors import DatasetError
from dartes.data.json_text import parse_json, repeated
from dartes.data.parts import Placed
from dartes.tasks.base import JSON

SLICE_BYTES: Final = 8 * 2**20
SLICE_ROWS: Final = 1024
"""Arrow rows that are turned at a time: at most so many bytes of them, at most so many rows."""

Convert: TypeAlias = Callable[[Any, str], JSON]
"""(value as Arrow gives it, its place) -> the same as JSON."""


class _NotJSONError(Exception):
    """A type that JSON cannot hold."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that is read. Without `convert` its values are JSON as Arrow gives them."""

    name: str
    convert: Convert | None
    cast: Callable[[Any], Any] | None


def arrow_module(name: str) -> Any:
    """A module of pyarrow; raises `DatasetError` where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DatasetError(
            f"dataset.source: Parquet and Arrow files need pyarrow, which is not installed ({error}); "
            "pip install '.[data]' in a clone"
        ) from error


class ArrowRows:
    """Makes rows of the batches of one schema; `left_out` names the columns that it drops, with their type.

    Raises
    ------
    DatasetError
        Two columns have one name, or not one column can be read.
    """

    def __init__(self, schema: Any, name: str) -> None:
        self._columns: list[_Column] = []
        self.left_out: dict[str, str] = {}
        twice = repeated(schema.names)
        if twice is not None:
            raise DatasetError(f"{name}: column '{twice}' appears twice")
        for field in schema:
            try:
                cast = _cast(field.type)
                convert = None if cast else _converter(field.type)
            except _NotJSONError:
                self.left_out[field.name] = str(field.type)
                continue
            self._columns.append(_Column(field.name, convert, cast))
        if not self._columns:
            raise DatasetError(f"{name}: no column with text, numbers or lists of them")

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        return [column.name for column in self._columns]

    def rows(self, batch: Any, name: str, first: int) -> Iterator[Placed]:
        """The rows of a record batch or table, placed as "NAME row 7", counted from `first`."""
        start = 0
        step = rows_per_slice(batch.nbytes, batch.num_rows)
        while start < batch.num_rows:
            part = batch.slice(start, step)
            values = [self._values(column, part, name, first + start) for column in self._columns]
            names = self.names
            for offset, row in enumerate(zip(*values, strict=True)):
                yield f"{name} row {first + start + offset}", dict(zip(names, row, strict=True))
            start += step

    def _values(self, column: _Column, part: Any, name: str, first: int) -> list[JSON]:
        array = part.column(column.name)
        try:
            values = _listed(column.cast(array) if column.cast else array)
        except UnicodeDecodeError as error:
            raise DatasetError(
                f"{name} rows {first} to {first + len(part) - 1}: column '{column.name}' holds text that is "
                "not UTF-8"
            ) from error
        if column.convert is None:
            return values
        return [
            column.convert(value, f"{name} row {first + offset}: column '{column.name}'")
            for offset, value in enumerate(values)
        ]


def _listed(array: Any) -> list[JSON]:
    """The values; one that a dictionary holds once and many rows have is one object."""
    pa = arrow_module("pyarrow")

    if not pa.types.is_dictionary(array.type):
        values: list[JSON] = array.to_pylist()
        return values
    used = array.indices.drop_null().unique()
    words = dict(zip(used.to_pylist(), array.dictionary.take(used).to_pylist(), strict=True))
    return [words.get(index) for index in array.indices.to_pylist()]


def rows_per_slice(size: int, count: int) -> int:
    """How many of `count` rows, `size` bytes together, are turned at a time."""
    average = max(1, size // max(1, count))
    return max(1, min(SLICE_ROWS, SLICE_BYTES // average))


def _cast(kind: Any) -> Callable[[Any], Any] | None:
    """How a column is made text before it is read, for types that have one spelling."""
    pa = arrow_module("pyarrow")

    if pa.types.is_timestamp(kind):
        # In UTC, without its zone: Arrow would look the zone up in this machine's tables.
        return lambda array: array.cast(pa.timestamp(kind.unit)).cast(pa.string())
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_decimal(kind):
        return lambda array: array.cast(pa.string())
    return None


def _converter(kind: Any) -> Convert | None:
    """How a value is made JSON, None where it is already; raises `_NotJSONError`."""
    pa = arrow_module("pyarrow")

    types = pa.types
    if (
        types.is_null(kind)
        or types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
    ):
        return None
    if types.is_floating(kind):
        return _finite
    if types.is_dictionary(kind):
        return _converter(kind.value_type)
    if (
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    ):
        inner = _converter(kind.value_type)
        return None if inner is None else partial(_list, inner)
    if types.is_struct(kind):
        fields = {field.name: _converter(field.type) for field in kind}
        if len(fields) < kind.num_fields:
            raise _NotJSONError  # two fields of one name
        return None if not any(fields.values()) else partial(_struct, fields)
    if types.is_map(kind) and (types.is_string(kind.key_type) or types.is_large_string(kind.key_type)):
        return partial(_map, _converter(kind.item_type))
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.json":
        return _json
    raise _NotJSONError


def _finite(value: Any, place: str) -> JSON:
    if value is None:
        return None
    number = float(value)  # half precision comes as NumPy's type
    if not math.isfinite(number):
        raise DatasetError(f"{place} holds {number}, which JSON does not have; leave it empty (null) instead")
    return number


def _json(value: Any, place: str) -> JSON:
    return None if value is None else parse_json(str(value).encode(), place)


def _list(inner: Convert, value: Any, place: str) -> JSON:
    return None if value is None else [inner(item, place) for item in value]


def _struct(fields: dict[str, Convert | None], value: Any, place: str) -> JSON:
    if value is None:
        return None
    return {
        name: value[name] if convert is None else convert(value[name], place)
        for name, convert in fields.items()
    }


def _map(inner: Convert | None, value: Any, place: str) -> JSON:
    if value is None:
        return None
    result = dict(value)
    if len(result) < len(value):
        raise DatasetError(f"{place} holds a map with one key twice")
    return {key: item if inner is None else inner(item, place) for key, item in result.items()}
