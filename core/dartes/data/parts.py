"""What a data set is read from: parts, each one file that some storage can open, read one after the other.

Knows names, suffixes and how a reader sees a file; nothing of where it lies or of what stands in it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Final, TypeAlias

from dartes.tasks.base import Row

Placed: TypeAlias = tuple[str, Row]
"""A row and the place it stands at, as messages name it: "train.jsonl line 3"."""

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".json", ".csv", ".parquet", ".arrow")
"""The formats that are read, by the end of a file's name."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file.

    Attributes
    ----------
    name
        Full path or address, for messages.
    suffix
        One of `SUFFIXES`.
    open
        Opens it for reading, from its start; the file can seek. Raises OSError.
    far
        Whether every read costs a request, so that few and large ones are better.
    """

    name: str
    suffix: str
    open: Callable[[], IO[bytes]]
    far: bool = False


Reader: TypeAlias = Callable[[Part], Iterator[Placed]]
"""Reads the rows of one part, in order; raises `DatasetError` with the place of a fault."""


def suffix_of(name: str) -> str | None:
    """The format in a file's name, or None."""
    found = [suffix for suffix in SUFFIXES if name.endswith(suffix)]
    return max(found, key=len, default=None)
