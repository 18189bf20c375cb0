"""Which rows of a source become problems, and under which column names: filters, renaming, the limit.

Works on rows with their places, one at a time; knows nothing of files.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice

from dartes.data.errors import DatasetError
from dartes.data.parts import Placed
from dartes.tasks.base import JSON, Row

_VALUES_SHOWN = 5


class Selection:
    """One pass over a source's rows. It counts what it reads, for the message about an empty data set.

    `columns` is new name -> name in the source; `filters` is name in the source -> values to keep, as text.
    """

    def __init__(
        self, columns: Mapping[str, str], filters: Mapping[str, tuple[str, ...]], limit: int | None
    ) -> None:
        self._columns = columns
        self._filters = {name: frozenset(values) for name, values in filters.items()}
        self._given = filters
        self._limit = limit
        self._read = 0
        self._seen: dict[str, dict[str, None]] = {name: {} for name in filters}

    def apply(self, rows: Iterator[Placed]) -> Iterator[Placed]:
        """The problems, in order; raises `DatasetError` for a column that a row does not have."""
        return islice(self._selected(rows), self._limit)

    def why_empty(self) -> str:
        """What to say where `apply` gave nothing."""
        if not self._read:
            return "there is not one problem in it; a data set needs at least one"
        asked = "; ".join(
            f"{name} one of {_quoted(values)} (in the file: {_quoted(self._seen[name])})"
            for name, values in self._given.items()
        )
        return f"none of its {self._read:,} rows is left by dataset.filters: {asked}"

    def _selected(self, rows: Iterator[Placed]) -> Iterator[Placed]:
        for place, row in rows:
            self._read += 1
            if self._filters and not self._kept(row, place):
                continue
            yield place, self._renamed(row, place) if self._columns else row

    def _kept(self, row: Row, place: str) -> bool:
        kept = True
        for name, values in self._filters.items():
            if name not in row:
                raise DatasetError(f"{place}: dataset.filters.{name}: no such column {_there_are(row)}")
            text = text_of(row[name])
            seen = self._seen[name]
            if len(seen) <= _VALUES_SHOWN:
                seen[text] = None
            kept = kept and text in values
        return kept

    def _renamed(self, row: Row, place: str) -> Row:
        """A renamed column replaces one that has the new name."""
        for new, old in self._columns.items():
            if old not in row:
                raise DatasetError(f"{place}: dataset.columns.{new}: no column '{old}' {_there_are(row)}")
        kept = {name: value for name, value in row.items() if name not in self._columns.values()}
        return {**kept, **{new: row[old] for new, old in self._columns.items()}}


def text_of(value: JSON) -> str:
    """A value as filters compare it: text as it is, anything else as JSON (3, 1.5, true, null)."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _there_are(row: Row) -> str:
    return f"(there are: {', '.join(sorted(row)) or 'none'})"


def _quoted(values: Mapping[str, None] | tuple[str, ...]) -> str:
    shown = [f"'{value[:40]}'" for value in list(values)[:_VALUES_SHOWN]]
    return ", ".join([*shown, "..."] if len(values) > _VALUES_SHOWN else shown)
