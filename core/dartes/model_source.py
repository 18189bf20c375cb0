"""Turn `model.source` into a local folder: a built-in model, a path, a mounted claim, or a model on the hub.

Fetches what the hub has when asked for and says what to do when it can't; does not open the weights.
"""

import os
from pathlib import Path
from typing import Final

from dartes.errors import ConfigurationError, TransientError
from dartes.logs import wants_json
from dartes.pod import in_pod
from dartes.pod_cache import from_shared_cache
from dartes.pod_claims import claim_path
from dartes.spec.source import Scheme, parse_source

HUB_FILES: Final = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken")
"""What is fetched of a model: safetensors weights, configuration and tokenizer; no other weight formats."""


def resolve_model(source: str, revision: str | None, base_dir: Path) -> Path:
    """Return the local folder of a model.

    Parameters
    ----------
    source
        `builtin://NAME`, `hf://org/name`, `pvc://claim/path` (in a cluster), `file://path` or a path;
        relative paths start at `base_dir`.
    revision
        Branch, tag or commit for `hf://`; refused for other sources, which have no revisions.
    base_dir
        Folder of the job file.

    Raises
    ------
    ConfigurationError
        Unknown scheme, no such folder, no such model or revision, or no access to it.
    TransientError
        The hub can't be reached and the model is not in the local cache.
    """
    try:
        place = parse_source(source)
    except ValueError as error:
        raise ConfigurationError(f"model.source = {source!r}: {error}") from error
    if place.scheme is Scheme.HUB:
        return _from_hub(place.rest, revision)
    if revision is not None:
        raise ConfigurationError(
            f"model.revision = {revision!r}: only hf:// sources have revisions, not {source!r}"
        )
    if place.scheme is Scheme.BUILTIN:
        from dartes.builtin import builtin_model

        return builtin_model(place.rest)
    if place.scheme not in {Scheme.FILE, Scheme.PVC}:
        raise ConfigurationError(
            f"model.source = {source!r}: must be builtin://NAME, hf://org/name, file://PATH, PATH or, in a "
            "cluster, pvc://CLAIM/PATH"
        )
    in_claim = place.scheme is Scheme.PVC
    folder = claim_path("model.source", place.rest) if in_claim else place.path(base_dir)
    if not folder.is_dir():
        hint = "" if "://" in source else "; a model on the hub is written hf://org/name"
        raise ConfigurationError(f"model.source = {source!r}: no folder {folder}{hint}")
    return folder.resolve()


def _from_hub(repository: str, revision: str | None) -> Path:
    if wants_json():
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()  # they are no lines of a log
    if not in_pod():
        return _snapshot(repository, revision, offline=False)
    # What of a cache is shared only the operator knows; in a cache of one's own the lock costs nothing.
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return from_shared_cache(
        home, repository, revision, lambda wanted, offline: _snapshot(repository, wanted, offline)
    )


def _snapshot(repository: str, revision: str | None, offline: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    # The base error of the HTTP client that this version of huggingface_hub is built on.
    client_error: type[Exception] = HfHubHTTPError.__bases__[0]
    where = f"model.source = 'hf://{repository}'"
    if repository.count("/") != 1 or not all(repository.split("/")):
        raise ConfigurationError(f"{where}: must be hf://org/name")
    try:
        return Path(
            snapshot_download(
                repository,
                revision=revision,
                allow_patterns=list(HUB_FILES),
                local_files_only=offline,
            )
        )
    except HFValidationError as error:
        raise ConfigurationError(f"{where}: must be hf://org/name ({error})") from error
    except GatedRepoError as error:
        raise ConfigurationError(
            f"{where}: access is restricted; accept its terms on the hub and set HF_TOKEN"
        ) from error
    except RepositoryNotFoundError as error:
        raise ConfigurationError(
            f"{where}: no such model, or a private one; check the name, or set HF_TOKEN"
        ) from error
    except RevisionNotFoundError as error:
        raise ConfigurationError(f"model.revision = {revision!r}: {where} has no such revision") from error
    except LocalEntryNotFoundError as error:
        raise TransientError(
            f"{where}: the hub can't be reached and the model is not in the local cache; try again with a "
            "connection, or fetch it elsewhere and use file://PATH"
        ) from error
    except EntryNotFoundError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    except (client_error, OSError) as error:
        raise TransientError(f"{where}: the hub can't be reached ({error}); try again") from error
