"""Data sets on the hub: `hf://datasets/OWNER/NAME`, through the library `datasets`.

Asks for one configuration, one split and one revision, and says what to do where the hub has no such thing.
Data only: the library runs no code of a data set, and none is asked for.
"""

import importlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dartes.data.arrow_values import ArrowRows
from dartes.data.errors import DatasetError
from dartes.data.parts import Placed
from dartes.data.tables import damage_named, say_left_out
from dartes.errors import TransientError
from dartes.logs import wants_json
from dartes.pod import in_pod
from dartes.pod_cache import from_shared_cache

TOKEN_VARIABLE: Final = "HF_TOKEN"
_BATCH_ROWS: Final = 256


@dataclass(frozen=True, slots=True)
class HubDataset:
    """What a job names of the hub.

    Attributes
    ----------
    repository
        `OWNER/NAME`; or the absolute path of a folder laid out as on the hub.
    config, revision
        None for the only configuration, and for the newest revision.
    """

    repository: str
    config: str | None
    split: str
    revision: str | None

    @property
    def path(self) -> str:
        """As the library takes it: without the prefix it would prefer a folder of that name here."""
        return self.repository if self.repository.startswith("/") else f"hf://datasets/{self.repository}"

    @property
    def name(self) -> str:
        """For messages: hf://datasets/openai/gsm8k@main [main, train]."""
        at = f"@{self.revision}" if self.revision else ""
        part = f"{self.config}, {self.split}" if self.config else self.split
        return f"hf://datasets/{self.repository}{at} [{part}]"


def one_revision(in_source: str | None, in_field: str | None) -> str | None:
    """The revision that a job asks for, in `source` after an @ or in `revision`; raises where they differ."""
    if in_source is not None and in_field is not None and in_source != in_field:
        raise DatasetError(
            f"dataset.revision: {in_field!r}, but dataset.source ends with @{in_source}; keep one of them"
        )
    return in_source if in_source is not None else in_field


def rows_of_hub(wanted: HubDataset) -> Iterator[Placed]:
    """The rows of a split, fetched into the library's cache where they are not there yet.

    Raises
    ------
    DatasetError
        The hub has no such data set, revision, configuration or split, or gives no access; `datasets` is not
        installed; a file of the data set is damaged.
    TransientError
        The hub cannot be reached, and the data set is not in the cache.
    """
    library = _library(wanted)
    builder = _prepared(library, wanted)
    there = list(builder.info.splits or {})
    if wanted.split not in there:
        raise DatasetError(
            f"dataset.split: {wanted.name}: no split '{wanted.split}' (there are: {', '.join(there)})"
        )
    with _named(library, wanted):
        split = builder.as_dataset(split=wanted.split).with_format("arrow")
        batches = split.iter(batch_size=_BATCH_ROWS)
        maker = ArrowRows(split.features.arrow_schema, wanted.name)
        say_left_out(maker, wanted.name)
        first = 1
        for batch in batches:
            yield from maker.rows(batch, wanted.name, first)
            first += batch.num_rows


def _library(wanted: HubDataset) -> Any:
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise DatasetError(
            f"{wanted.name}: needs the library datasets, which is not installed ({error}); "
            "pip install '.[data]' in a clone"
        ) from error
    if wants_json():
        from huggingface_hub.utils.tqdm import disable_progress_bars

        library.disable_progress_bars()  # they are no lines of a log
        disable_progress_bars()
    return library


def _prepared(library: Any, wanted: HubDataset) -> Any:
    """The library's builder, with its files in the cache; in a pod, fetched by one of all that share it."""
    if not in_pod():
        return _built(library, wanted, wanted.revision)
    found: list[Any] = []

    def fetch(revision: str | None, _offline: bool) -> Path:
        # The library itself falls back on its cache; of a pinned commit it has all that it needs.
        found.append(_built(library, wanted, revision))
        # The last name is the commit: the others ask for that very one.
        return Path(found[-1].cache_dir)

    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    key = f"datasets/{wanted.repository}" + (f" {wanted.config}" if wanted.config else "")
    from_shared_cache(home, key, wanted.revision, fetch)
    return found[-1]


def _built(library: Any, wanted: HubDataset, revision: str | None) -> Any:
    with _named(library, wanted), _silenced():
        try:
            builder = library.load_dataset_builder(
                wanted.path,
                name=wanted.config,
                revision=revision,
                token=os.environ.get(TOKEN_VARIABLE) or None,
            )
        except ValueError as error:
            there = _configs(library, wanted, revision)
            if wanted.config in there or (wanted.config is None and len(there) == 1):
                raise
            what = "name one of its" if wanted.config is None else f"no '{wanted.config}' among its"
            raise DatasetError(
                f"dataset.config: {wanted.name}: {what} configurations (there are: {', '.join(there)})"
            ) from error
        builder.download_and_prepare()
        return builder


def _configs(library: Any, wanted: HubDataset, revision: str | None) -> list[str]:
    names: Callable[..., list[str]] = library.get_dataset_config_names
    return names(wanted.path, revision=revision, token=os.environ.get(TOKEN_VARIABLE) or None)


@contextmanager
def _silenced() -> Iterator[None]:
    """Keep the libraries' own lines about retries off standard error; the error says it all once."""
    loggers = [logging.getLogger(name) for name in ("datasets", "fsspec", "huggingface_hub", "urllib3")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _named(library: Any, wanted: HubDataset) -> Iterator[None]:
    """Turn what the libraries raise into errors that name the data set and the fix."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    raised = library.exceptions
    # The base error of the HTTP client that this version of huggingface_hub is built on.
    client_error: type[Exception] = HfHubHTTPError.__bases__[0]
    where = f"dataset.source: {wanted.name}"
    try:
        with damage_named(where):
            yield
    except raised.DatasetNotFoundError as error:
        raise DatasetError(f"{where}: {_why_not_found(str(error), wanted)} ({error})") from error
    except GatedRepoError as error:
        raise DatasetError(f"{where}: {_GATED} ({error})") from error
    except RepositoryNotFoundError as error:
        raise DatasetError(f"{where}: {_MISSING} ({error})") from error
    except RevisionNotFoundError as error:
        raise DatasetError(f"{where}: it has no revision {wanted.revision!r} ({error})") from error
    except (HFValidationError, raised.FileNotFoundDatasetsError) as error:
        raise DatasetError(f"{where}: {error}") from error
    except raised.DatasetsError as error:
        cause = error.__cause__
        if isinstance(cause, client_error | ConnectionError):
            raise TransientError(f"{where}: {_UNREACHABLE} ({cause})") from error
        raise DatasetError(f"{where}: cannot be read ({cause or error})") from error
    except (client_error, ConnectionError, TimeoutError) as error:
        raise TransientError(f"{where}: {_UNREACHABLE} ({error})") from error
    except FileNotFoundError as error:
        raise DatasetError(f"{where}: {error}") from error
    except OSError as error:
        raise TransientError(
            f"{where}: cannot be fetched ({error}); is there room, and may it be written, in the cache "
            "(HF_HOME)? Then try again"
        ) from error
    except (ValueError, RuntimeError, NotImplementedError) as error:
        raise DatasetError(f"{where}: cannot be read ({error})") from error


_GATED: Final = "access is restricted; accept its terms on the hub and set HF_TOKEN"
_MISSING: Final = "no such data set, or a private one; check the name, or set HF_TOKEN"
_UNREACHABLE: Final = (
    "the hub can't be reached and the data set is not in the local cache; try again with a connection, or "
    "fetch it elsewhere and name its folder"
)


def _why_not_found(said: str, wanted: HubDataset) -> str:
    """The library has one error for three causes, and says in its text which."""
    if "gated" in said:
        return _GATED
    if "Revision" in said:
        return f"it has no revision {wanted.revision!r}"
    return _MISSING
