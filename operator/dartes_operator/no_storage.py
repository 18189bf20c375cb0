"""kopf's storages with nothing in them: our handlers ask for no differences and have no progress to keep.

By itself kopf copies each object several times for every event, to find out what has changed since it was
last handled. That was a third of what the operator computed while many jobs started.
"""

from typing import Any

import kopf


class NoDifferences(kopf.DiffBaseStorage):  # type: ignore[misc]
    """Finds nothing in any object, so that there is nothing to compare."""

    def build(self, **_: Any) -> dict[str, Any]:
        """Nothing of the object."""
        return {}

    def fetch(self, **_: Any) -> None:
        """Nothing was stored."""

    def store(self, **_: Any) -> None:
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):  # type: ignore[misc]
    """Keeps nothing of handlers that are to be called again: there are none."""

    def fetch(self, **_: Any) -> None:
        """Nothing was stored."""

    def store(self, **_: Any) -> None:
        """Store nothing."""

    def purge(self, **_: Any) -> None:
        """There is nothing to remove."""

    def touch(self, **_: Any) -> None:
        """Leave the object alone."""

    def clear(self, *, essence: dict[str, Any]) -> dict[str, Any]:
        """There is nothing in it to remove."""
        return essence
