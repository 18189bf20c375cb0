"""Notices problems that share an `id`, in 8 bytes a problem: a first look by hash, a second one by value.

Knows the column's name and nothing else of rows; where two are, the caller's second pass tells.
"""

import json
from array import array
from collections.abc import Iterable
from typing import Final

import numpy as np

from dartes.data.errors import DatasetError
from dartes.data.parts import Placed
from dartes.tasks.base import Row

ID_COLUMN: Final = "id"


class Ids:
    """The ids seen so far, each as 64 bits of a hash. Rows without an id, or with null, have none."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, row: Row) -> None:
        """Note the id of a row."""
        value = row.get(ID_COLUMN)
        if value is not None:
            self._hashes.append(hash(_text(row)))

    def repeated(self) -> frozenset[int]:
        """Hashes that came more than once: of equal ids, or (rarely) of different ones."""
        ordered = np.sort(np.frombuffer(self._hashes, np.int64))
        return frozenset(ordered[1:][ordered[1:] == ordered[:-1]].tolist())


def refuse_duplicates(repeated: frozenset[int], rows: Iterable[Placed]) -> None:
    """Look again at the rows whose id's hash is in `repeated`; raises `DatasetError` with both places."""
    first: dict[str, str] = {}
    for place, row in rows:
        if row.get(ID_COLUMN) is None or hash(_text(row)) not in repeated:
            continue
        text = _text(row)
        if text in first:
            raise DatasetError(
                f"{place}: the id {text[:80]} is that of {first[text]} too; give each problem its own, or "
                "call this column something else (dataset.columns)"
            )
        first[text] = place


def _text(row: Row) -> str:
    return _ENCODE(row[ID_COLUMN])


_ENCODE: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode
