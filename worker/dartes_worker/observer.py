"""What can be seen of a worker from outside while it works; this one looks away.

Callers say what happened and never learn what became of it, so a worker does the same watched or not.
"""

from collections.abc import Sequence

from dartes.v1 import population_pb2 as wire


class Observer:
    """Hears what happens, from the agent's thread and from that of its presence stream."""

    def registered(self, incarnation: int) -> None:
        """The coordinator of this incarnation has admitted the worker."""

    def attested(self, iteration: int) -> None:
        """The coordinator has taken the digest of the weights after `iteration` updates."""

    def told(self, iteration: int) -> None:
        """The coordinator has spoken of `iteration` as the newest."""

    def evaluated(self, results: Sequence[wire.EvaluateResult]) -> None:
        """Leases were answered."""

    def heard(self) -> None:
        """The coordinator has answered a beat of the presence stream."""

    def parted(self) -> None:
        """The presence stream has ended; a new one is tried."""
