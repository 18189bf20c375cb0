"""Where the files of a data set lie: a local path or a mounted claim. Lists and opens; reads no format.

`Storage` is also what a bucket looks like to the rest; see `bucket.py`.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final, Protocol

from dartes.data.errors import DatasetError
from dartes.data.layout import DEPTH, files_of_split
from dartes.data.parts import SUFFIXES, Part, suffix_of


class Storage(Protocol):
    """A place that holds one file, or a folder of files."""

    @property
    def name(self) -> str:
        """Path or address, for messages."""
        ...

    @property
    def far(self) -> bool:
        """Whether every read costs a request."""
        ...

    def files(self) -> Sequence[str] | None:
        """The files of a folder relative to it, at most `DEPTH` names deep; None where it is one file."""
        ...

    def open(self, name: str) -> IO[bytes]:
        """Open a file of the folder, or with "" the place itself, for reading and seeking."""
        ...

    def errors_named(self) -> AbstractContextManager[None]:
        """Around every use: what the storage raises becomes an error that says what to do."""
        ...


def parts_of(storage: Storage, split: str) -> tuple[Part, ...]:
    """What is read of a place: the file itself, whole, or the files of `split` in a folder.

    Raises
    ------
    DatasetError
        An unknown format or split, an incomplete folder, or nothing there.
    """
    with storage.errors_named():
        names = storage.files()
        if names is not None:
            chosen = files_of_split(names, split, storage.name, partial(_read, storage))
            return tuple(_part(storage, name) for name in chosen)
        if suffix_of(storage.name) is None:
            raise DatasetError(
                f"dataset.source: {storage.name} must end with {', '.join(SUFFIXES)}, or be a folder of such "
                "files"
            )
        return (_part(storage, ""),)


def _part(storage: Storage, name: str) -> Part:
    full = f"{storage.name}/{name}" if name else storage.name
    return Part(full, suffix_of(full) or "", partial(storage.open, name), storage.far)


def _read(storage: Storage, name: str) -> bytes:
    with storage.open(name) as file:
        return file.read()


class LocalStorage:
    """A path of this machine."""

    far: Final = False

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """See `Storage.name`."""
        return str(self._path)

    def files(self) -> Sequence[str] | None:
        """See `Storage.files`."""
        if self._path.is_dir():
            return list(_below(self._path, "", DEPTH))
        if not self._path.is_file():
            if suffix_of(self.name) is None:
                return None  # the complaint about its name says more
            raise DatasetError(f"dataset.source: there is no file {self._path}")
        return None

    def open(self, name: str) -> IO[bytes]:
        """See `Storage.open`."""
        return (self._path / name if name else self._path).open("rb")

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """See `Storage.errors_named`."""
        try:
            yield
        except OSError as error:
            place = error.filename or self._path
            raise DatasetError(f"dataset.source: cannot read {place}: {error.strerror or error}") from error


def _below(folder: Path, prefix: str, depth: int) -> Iterator[str]:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            if depth > 1:
                yield from _below(entry, f"{prefix}{entry.name}/", depth - 1)
        else:
            yield f"{prefix}{entry.name}"
