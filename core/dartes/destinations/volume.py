"""A folder as destination: on a mounted volume claim (`pvc://claim/path`), or on this machine (`file://path`).

The model is written beside its final name and renamed, so a reader sees all of it or nothing.
"""

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dartes.checkpoint import PROVENANCE_FILE
from dartes.destinations.base import Standing, parse_provenance, taken
from dartes.errors import ConfigurationError, TransientError
from dartes.journal import Exported
from dartes.pod_claims import claim_path


def claim_folder(rest: str, uri: str) -> Path:
    """The local path of `claim/path` in a pod.

    Raises
    ------
    ConfigurationError
        No path follows the claim, the path leaves the claim, or the claim isn't mounted here.
    """
    if not rest.partition("/")[2].strip("/."):
        raise ConfigurationError(
            f"export.destination = {uri!r}: must be pvc://claim/path, with a path inside the claim"
        )
    return claim_path("export.destination", rest)


class FolderDestination:
    """A folder that the model becomes."""

    def __init__(self, uri: str, folder: Path) -> None:
        self._uri = uri
        self._folder = folder

    @property
    def uri(self) -> str:
        """As the job names it."""
        return self._uri

    def standing(self) -> Standing | None:
        """The complete model in the folder; see `Destination.standing`."""
        with _named(self._uri):
            if not self._folder.exists() and not self._folder.is_symlink():
                return None
            if not self._folder.is_dir():
                raise taken(self._uri, "is a file")
            names = {path.name for path in self._folder.iterdir()}
            if not names:
                return None
            if PROVENANCE_FILE not in names:
                raise taken(self._uri, f"holds {min(names)!r}")
            found = parse_provenance((self._folder / PROVENANCE_FILE).read_bytes())
        if found is None:
            raise taken(self._uri, f"its {PROVENANCE_FILE} isn't one of ours")
        return found

    def place(self, build: Callable[[Path], Exported]) -> Exported:
        """Build beside the final name; the export itself syncs and renames."""
        with _named(self._uri):
            for left in self._folder.parent.glob(f".{self._folder.name}.partial-*"):
                shutil.rmtree(left, ignore_errors=True)  # of an attempt that was killed: as large as a model
            return build(self._folder)


@contextmanager
def _named(uri: str) -> Iterator[None]:
    """Turn the file system's refusals into errors that name the destination."""
    try:
        yield
    except OSError as error:
        where = f"export.destination = {uri!r}: {error.strerror or error}"
        if error.errno in _REFUSALS:
            raise ConfigurationError(
                f"{where} ({error.filename}); the volume must be writable for the export pod's user"
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TransientError(f"{where}; make room on the volume") from error
        raise TransientError(f"{where} ({error.filename}); trying again may help") from error


_REFUSALS: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG)
