"""An object store as destination: `s3://bucket/path` and `gs://bucket/path`, through fsspec.

Objects can't be renamed as one, so a marker is written first and the provenance file last: only where that
stands is the model complete. Credentials and endpoint come from the environment, as those libraries read it.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from dartes.checkpoint import PROVENANCE_FILE
from dartes.destinations.base import Standing, parse_provenance, taken
from dartes.errors import ConfigurationError, TransientError
from dartes.journal import Exported
from dartes.spec.source import Scheme

STARTED_MARKER: Final = "dartes-export.started"
"""Says that what lies beside it without a provenance file is our own unfinished upload."""

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 60
ATTEMPTS: Final = 4


class BucketDestination:
    """A prefix in a bucket. `files` is an fsspec file system; `scratch` has room for the model."""

    def __init__(self, uri: str, path: str, files: Any, scratch: Path) -> None:
        self._uri = uri
        self._path = path.strip("/")
        self._files = files
        self._scratch = scratch

    @property
    def uri(self) -> str:
        """As the job names it."""
        return self._uri

    def standing(self) -> Standing | None:
        """The complete model under the prefix; see `Destination.standing`."""
        with _named(self._uri):
            names = self._names()
            if PROVENANCE_FILE in names:
                found = parse_provenance(self._files.cat_file(self._at(PROVENANCE_FILE)))
                if found is None:
                    raise taken(self._uri, f"its {PROVENANCE_FILE} isn't one of ours")
                return found
        if names and STARTED_MARKER not in names:
            raise taken(self._uri, f"holds {min(names)!r}")
        return None

    def place(self, build: Callable[[Path], Exported]) -> Exported:
        """Build in the scratch folder, upload, and say last that it is complete."""
        scratch = Path(tempfile.mkdtemp(prefix="dartes-export-", dir=self._scratch))
        try:
            with _named(self._uri):
                # Before the work of building: a missing bucket or right is found at once.
                self._files.pipe_file(self._at(STARTED_MARKER), b"an upload by dartes is under way\n")
            done = build(scratch / "model")
            with _named(self._uri):
                self._upload(scratch / "model")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return done

    def _upload(self, model: Path) -> None:
        files = sorted(path for path in model.iterdir() if path.name != PROVENANCE_FILE)
        for stale in self._names() - {STARTED_MARKER}:
            self._files.rm_file(self._at(stale))
        for file in [*files, model / PROVENANCE_FILE]:
            self._files.put_file(str(file), self._at(file.name))
            there = int(self._files.info(self._at(file.name))["size"])
            if there != file.stat().st_size:
                raise TransientError(
                    f"export.destination = {self._uri!r}: {file.name} has {there} bytes there and "
                    f"{file.stat().st_size} here; trying again may help"
                )
        self._files.rm_file(self._at(STARTED_MARKER))

    def _names(self) -> set[str]:
        """What lies under the prefix, relative to it."""
        try:
            found = self._files.find(self._path)
        except FileNotFoundError:
            return set()
        start = f"{self._path}/"
        return {str(name).removeprefix(start) for name in found if str(name).startswith(start)}

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"


def file_system(scheme: Scheme) -> Any:
    """The fsspec file system of s3:// or gs://; bounded waits, nothing cached.

    Raises
    ------
    ConfigurationError
        The packages for it aren't installed, or the credentials can't be read.
    """
    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    try:
        import fsspec

        if scheme is Scheme.S3:
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            options["client_kwargs"] = {"endpoint_url": endpoint} if endpoint else {}
            options["config_kwargs"] = {
                "connect_timeout": CONNECT_SECONDS,
                "read_timeout": READ_SECONDS,
                "retries": {"max_attempts": ATTEMPTS},
            }
            return fsspec.filesystem("s3", **options)
        return fsspec.filesystem("gs", **options)
    except ImportError as error:
        raise ConfigurationError(
            f"{scheme.value}:// needs packages that aren't installed ({error}); "
            "pip install '.[remote]' in a clone"
        ) from error


@contextmanager
def _named(uri: str) -> Iterator[None]:
    """Turn what the libraries raise into errors that name the destination and the fix."""
    where = f"export.destination = {uri!r}"
    try:
        yield
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{where}: no such bucket ({error}); make it, or correct the name"
        ) from error
    except PermissionError as error:
        raise ConfigurationError(
            f"{where}: access is refused ({error}); the Secret named by export.secretRef, or the pod's own "
            "cloud identity, must allow to list, read, write and delete there"
        ) from error
    except OSError as error:
        raise TransientError(f"{where}: {error}; trying again may help") from error
    except client_errors() as error:
        if type(error).__name__ in CREDENTIAL_ERRORS:
            raise ConfigurationError(
                f"{where}: no usable credentials ({error}); give them in the Secret of export.secretRef "
                "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or GOOGLE_*), or by the pod's cloud identity"
            ) from error
        raise TransientError(f"{where}: can't be reached ({error}); trying again may help") from error


CREDENTIAL_ERRORS: Final = frozenset(
    {
        "NoCredentialsError",
        "PartialCredentialsError",
        "CredentialRetrievalError",
        "ProfileNotFound",
        "DefaultCredentialsError",
        "RefreshError",
    }
)


def client_errors() -> tuple[type[Exception], ...]:
    """Base classes of what the installed client libraries raise beside OSError."""
    found: list[type[Exception]] = []
    for module, name in _ERROR_TYPES:
        try:
            found.append(getattr(import_module(module), name))
        except ImportError:
            continue  # that store's packages aren't installed, so none of its errors can come
    return tuple(found)


_ERROR_TYPES: Final = (
    ("botocore.exceptions", "BotoCoreError"),
    ("aiohttp", "ClientError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
)
