"""What a place for a finished model can do, and the one way to deliver a model there exactly once.

A place is complete when it holds the provenance file that every export ends with. Knows no kind of place.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dartes.errors import ConfigurationError
from dartes.journal import Exported


@dataclass(frozen=True)
class Standing:
    """The complete model that a place holds: journal hash and weight digest in hex, iterations applied."""

    journal_hash: str
    weight_digest: str
    iteration: int


@dataclass(frozen=True)
class Delivered:
    """Where the model is now, and whether it had been there already."""

    uri: str
    weight_digest: str
    iteration: int
    already: bool


class Destination(Protocol):
    """A place that takes one model, whole or not at all."""

    @property
    def uri(self) -> str:
        """As the job names it."""

    def standing(self) -> Standing | None:
        """The complete model here; None where there is none and one may be written.

        Raises
        ------
        ConfigurationError
            Something else is here, the place doesn't exist, or access is refused.
        TransientError
            It can't be reached now.
        """

    def place(self, build: Callable[[Path], Exported]) -> Exported:
        """Have the model built into a new local folder and make it stand here; errors as `standing`.

        What an interrupted attempt left behind is replaced.
        """


def deliver(destination: Destination, row_hash: str, build: Callable[[Path], Exported]) -> Delivered:
    """Put the model with this journal hash (hex) at a destination; does nothing where it stands there.

    Raises
    ------
    ConfigurationError
        Another model stands there, or errors of the destination.
    """
    there = destination.standing()
    if there is None:
        done = destination.place(build)
        return Delivered(destination.uri, done.digest.total, done.iteration, already=False)
    if there.journal_hash != row_hash:
        raise ConfigurationError(
            f"export.destination = {destination.uri!r}: holds another model (iteration {there.iteration}, "
            f"journal hash {there.journal_hash[:16]}..., not {row_hash[:16]}...); name another path or "
            "remove it"
        )
    return Delivered(destination.uri, there.weight_digest, there.iteration, already=True)


def parse_provenance(content: bytes) -> Standing | None:
    """The model that a provenance file speaks of; None for anything else."""
    try:
        document = json.loads(content)
        return Standing(
            str(document["journal_hash"]), str(document["weight_digest"]), int(document["iteration"])
        )
    except (ValueError, KeyError, TypeError):
        return None


def taken(uri: str, what: str) -> ConfigurationError:
    """The error of a place that holds something that no export has written."""
    return ConfigurationError(
        f"export.destination = {uri!r}: {what}, and no exported model; name another path or remove it"
    )
