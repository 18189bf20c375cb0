"""What can be seen of a coordinator from outside while it works; this one looks away.

Callers say what happened and never learn what became of it, so a run is the same watched or not.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dartes.difficulty import Scored

if TYPE_CHECKING:
    from dartes_coordinator.run import Run


class Observer:
    """Hears what happens; all calls come from the event loop's thread."""

    def turned(self, run: "Run") -> None:
        """The main loop has come round; once a second."""

    def committed(self, line: Mapping[str, Any], scored: Scored, seconds: float) -> None:
        """An iteration is committed, which took `seconds`; `line` is its line of metrics.jsonl."""

    def refused(self, code: str) -> None:
        """A call was answered with an error; `code` is gRPC's name of it."""

    def listening(self) -> None:
        """The server takes calls."""
