"""Data sets in an object store: `s3://bucket/path` and `gs://bucket/path`, through fsspec.

Objects are read in blocks, as the formats ask for them; nothing is copied to disk first. Credentials and
endpoint come from the environment, as those libraries read it.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final

from dartes.data.errors import DatasetError
from dartes.data.layout import DEPTH
from dartes.errors import TransientError
from dartes.spec.source import Scheme

BLOCK_BYTES: Final = 8 * 2**20
LINE_BUFFER_BYTES: Final = 256 * 2**10


class BucketStorage:
    """An object, or the objects below a prefix. `files` is an fsspec file system."""

    far: Final = True

    def __init__(self, uri: str, path: str, files: Any) -> None:
        self._uri = uri.rstrip("/")
        self._path = path.strip("/")
        self._files = files

    @property
    def name(self) -> str:
        """As the job names it."""
        return self._uri

    def files(self) -> Sequence[str] | None:
        """See `Storage.files`; an object of the very name counts more than a prefix."""
        if "/" in self._path and self._files.isfile(self._path):
            return None
        start = f"{self._path}/"
        found = [
            str(name).removeprefix(start)
            # Everything below: with a depth, fsspec takes a refusal for an empty folder.
            for name in self._files.find(self._path)
            if str(name).startswith(start) and not str(name).endswith("/")
        ]
        found = [name for name in found if name.count("/") < DEPTH]
        if not found:
            raise DatasetError(f"dataset.source: there is nothing at {self._uri}")
        return found

    def open(self, name: str) -> IO[bytes]:
        """See `Storage.open`."""
        full = f"{self._path}/{name}" if name else self._path
        file = self._files.open(full, "rb", block_size=BLOCK_BYTES, cache_type="readahead")
        return io.BufferedReader(file, LINE_BUFFER_BYTES)  # whose lines can be bounded, unlike fsspec's

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """See `Storage.errors_named`."""
        where = f"dataset.source = {self._uri!r}"
        from dartes.destinations.bucket import CREDENTIAL_ERRORS, client_errors

        try:
            yield
        except DatasetError:
            raise  # of what stands in an object; the clients' errors need not be looked for
        except FileNotFoundError as error:
            raise DatasetError(f"{where}: no such bucket or object ({error}); correct the name") from error
        except PermissionError as error:
            raise DatasetError(
                f"{where}: access is refused ({error}); the credentials in the environment (in a cluster: "
                "the Secret named by dataset.secretRef, or the pod's own cloud identity) must allow to list "
                "and read there"
            ) from error
        except OSError as error:
            raise TransientError(f"{where}: {error}; trying again may help") from error
        except client_errors() as error:
            if type(error).__name__ in CREDENTIAL_ERRORS:
                raise DatasetError(
                    f"{where}: no usable credentials ({error}); set AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, or GOOGLE_APPLICATION_CREDENTIALS; in a cluster by the Secret of "
                    "dataset.secretRef or the pod's cloud identity"
                ) from error
            raise TransientError(f"{where}: can't be reached ({error}); trying again may help") from error


def open_bucket(uri: str, scheme: Scheme, path: str) -> BucketStorage:
    """The place that `uri` names; raises `ConfigurationError` where the packages for it are missing."""
    from dartes.destinations.bucket import file_system

    return BucketStorage(uri, path, file_system(scheme))
