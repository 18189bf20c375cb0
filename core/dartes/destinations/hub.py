"""A repository on the hub as destination: `hf://org/name`, written as one commit.

The repository is made, private, where there is none; its owner decides who sees it. The token is HF_TOKEN.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dartes.checkpoint import PROVENANCE_FILE
from dartes.destinations.base import Standing, parse_provenance, taken
from dartes.errors import ConfigurationError, TransientError
from dartes.journal import Exported


class HubDestination:
    """A model repository; `scratch` is a folder with room for the model."""

    def __init__(self, uri: str, repository: str, scratch: Path) -> None:
        self._uri = uri
        self._repository = repository
        self._scratch = scratch

    @property
    def uri(self) -> str:
        """As the job names it."""
        return self._uri

    def standing(self) -> Standing | None:
        """The complete model in the repository; see `Destination.standing`."""
        from huggingface_hub.errors import RepositoryNotFoundError

        with _named(self._uri):
            try:
                names = set(_api().list_repo_files(self._repository))
            except RepositoryNotFoundError:
                return None  # or a private one that the token can't see: making it will tell
            if PROVENANCE_FILE not in names:
                weights = sorted(name for name in names if name.endswith((".safetensors", ".bin", ".gguf")))
                if weights:
                    raise taken(self._uri, f"holds {weights[0]!r}")
                return None
            with tempfile.TemporaryDirectory(prefix="dartes-", dir=self._scratch) as folder:
                # Not the shared cache: an older answer there would hide what stands now.
                path = _api().hf_hub_download(self._repository, PROVENANCE_FILE, local_dir=folder)
                found = parse_provenance(Path(path).read_bytes())
        if found is None:
            raise taken(self._uri, f"its {PROVENANCE_FILE} isn't one of ours")
        return found

    def place(self, build: Callable[[Path], Exported]) -> Exported:
        """Make the repository, build in the scratch folder, upload as one commit."""
        scratch = Path(tempfile.mkdtemp(prefix="dartes-export-", dir=self._scratch))
        try:
            with _named(self._uri):
                # Before the work of building: a token without the right to write is found at once.
                _api().create_repo(self._repository, private=True, exist_ok=True)
            done = build(scratch / "model")
            with _named(self._uri):
                self._commit(scratch / "model", done.iteration)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return done

    def _commit(self, model: Path, iteration: int) -> None:
        """All files in one commit: a helper for whole folders might make several, and stop in between."""
        from huggingface_hub import CommitOperationAdd

        _api().create_commit(
            self._repository,
            operations=[
                CommitOperationAdd(path_in_repo=path.name, path_or_fileobj=path)
                for path in sorted(model.iterdir())
            ],
            commit_message=f"The model after {iteration} iterations of DART-ES",
        )


def _api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)


@contextmanager
def _named(uri: str) -> Iterator[None]:
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    client_error: type[Exception] = HfHubHTTPError.__bases__[0]  # of the HTTP client it is built on
    where = f"export.destination = {uri!r}"
    try:
        yield
    except HFValidationError as error:
        raise ConfigurationError(f"{where}: must be hf://org/name ({error})") from error
    except LocalTokenNotFoundError as error:
        raise ConfigurationError(f"{where}: no token; {_TOKEN}") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise ConfigurationError(f"{where}: the hub refuses ({status}); {_TOKEN}") from error
        if 400 <= status < 500 and status not in (408, 409, 412, 429):
            raise ConfigurationError(f"{where}: the hub refuses: {error}") from error
        raise TransientError(f"{where}: the hub answers {status} ({error}); trying again may help") from error
    except (client_error, OSError) as error:
        raise TransientError(f"{where}: the hub can't be reached ({error}); try again") from error


_TOKEN = (
    "put a token that may write to the repository under the key `token` into the Secret named by "
    "export.secretRef (it becomes HF_TOKEN)"
)
