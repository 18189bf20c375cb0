"""Errors of a rank as values: raised in another process, they would arrive without their kind.

A rank returns what went wrong, and the worker raises it again; so every rank's answer is taken, whichever
failed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Final, ParamSpec, Self, TypeVar

import torch

from dartes.checkpoint import CheckpointError, SnapshotError
from dartes.errors import ConfigurationError, DartesError, TransientError
from dartes_worker.engines.base import OutOfMemory

P = ParamSpec("P")
R = TypeVar("R")

_KINDS: Final[dict[str, type[DartesError]]] = {
    kind.__name__: kind
    for kind in (CheckpointError, ConfigurationError, DartesError, OutOfMemory, SnapshotError, TransientError)
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error's kind, its text, and for errors of the system their number."""

    kind: str
    text: str
    number: int | None = None

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """What travels of an error."""
        if isinstance(error, OSError):
            return cls("OSError", error.strerror or str(error), error.errno)
        if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
            return cls("OutOfMemory", f"a process of vLLM ran out of memory: {error}")
        known = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KINDS)
        return cls(known, str(error))

    def error(self) -> Exception:
        """The error again."""
        if self.kind == "OSError":
            return OSError(self.number, self.text)
        return _KINDS[self.kind](self.text)


def told(method: Callable[P, R]) -> Callable[P, R | Trouble]:
    """Have a method return what goes wrong for a reason that people can act on; bugs are still raised."""

    @wraps(method)
    def tell(*arguments: P.args, **named: P.kwargs) -> R | Trouble:
        try:
            return method(*arguments, **named)
        except (DartesError, OSError, MemoryError, torch.OutOfMemoryError) as error:
            return Trouble.of(error)

    return tell
