"""From a destination as a job names it to the thing that writes there."""

import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final

from dartes.destinations.base import Destination
from dartes.destinations.bucket import BucketDestination, file_system
from dartes.destinations.hub import HubDestination
from dartes.destinations.volume import FolderDestination, claim_folder
from dartes.errors import ConfigurationError
from dartes.spec.source import Scheme, parse_source

CLUSTER_SCHEMES: Final = (Scheme.PVC, Scheme.S3, Scheme.GCS, Scheme.HUB)
"""What the export pod can write to."""

LOCAL_SCHEMES: Final = (Scheme.FILE, Scheme.S3, Scheme.GCS, Scheme.HUB)
"""What a run on this machine can write to."""


def open_destination(
    uri: str, allowed: Collection[Scheme] = CLUSTER_SCHEMES, base_dir: Path = Path()
) -> Destination:
    """The destination that `uri` names; nothing is written or asked yet.

    `base_dir` is where relative local paths start.

    Raises
    ------
    ConfigurationError
        Misspelt, not of an allowed scheme, without a path, or a claim that isn't mounted.
    """
    where = f"export.destination = {uri!r}"
    try:
        place = parse_source(uri)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    if place.scheme not in allowed:
        listed = ", ".join(f"{scheme.value}://" for scheme in allowed)
        raise ConfigurationError(f"{where}: can't be written to from here; allowed: {listed}")
    if place.scheme is Scheme.FILE:
        return FolderDestination(uri, place.path(base_dir).absolute())
    if place.scheme is Scheme.PVC:
        return FolderDestination(uri, claim_folder(place.rest, uri))
    if place.scheme is Scheme.HUB:
        if place.rest.count("/") != 1 or place.rest.startswith("datasets/"):
            raise ConfigurationError(f"{where}: must be hf://org/name")
        return HubDestination(uri, place.rest, _scratch())
    bucket, _, path = place.rest.partition("/")
    if not bucket or not path.strip("/"):
        raise ConfigurationError(f"{where}: must be {place.scheme.value}://bucket/path, with a path")
    return BucketDestination(uri, place.rest, file_system(place.scheme), _scratch())


def _scratch() -> Path:
    """A folder with room for a model: the pod's cache volume, else the system's own choice."""
    cache = os.environ.get("XDG_CACHE_HOME")
    if cache:
        folder = Path(cache)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    return Path(tempfile.gettempdir())
