"""What can be asked of the sandbox and what it says: a script with its input, or a checked program.

Plain values; nothing here runs anything.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from dartes.errors import TransientError

MIB = 1024 * 1024


class SandboxStartError(TransientError):
    """No sandbox process could be started, several times in a row."""


class Ending(StrEnum):
    """How a run ended."""

    DONE = "done"
    CPU = "took too much processor time"
    WALL = "timed out"
    DISK = "wrote too much"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use.

    Attributes
    ----------
    seconds
        Processor time of each process.
    memory_mib
        Address space of each process.
    output_bytes
        Bytes of standard output that are kept. What follows is read and dropped.
    disk_mib, files
        What the private temporary folder may hold.
    """

    seconds: int = 6
    memory_mib: int = 1024
    output_bytes: int = MIB
    disk_mib: int = 32
    files: int = 512

    @property
    def wall_seconds(self) -> float:
        """Wall time of a run that waits. One that computes, on a busy machine, has more."""
        return 2.0 * self.seconds + 1.0

    @property
    def longest_seconds(self) -> float:
        """Wall time of any run."""
        return 5.0 * self.wall_seconds


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """A program run as `__main__` with `stdin`; its output is what counts.

    `before` runs in the same namespace first, as a source of its own.
    """

    program: str
    stdin: str = ""
    limits: Limits = field(default_factory=Limits)
    before: str = ""


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """A program whose functions a checker calls from another process.

    Attributes
    ----------
    program
        Source texts run one after the other in one namespace. Untrusted; never sees the checker.
    before
        Source texts run in the checker's namespace.
    names
        Names that the checker takes from the program's namespace; `NAME()` is the method of that name of an
        instance of `Solution` where there is such a class, else the function `NAME`. Bound as the value says.
    values
        Names bound to JSON values in the checker's namespace.
    test
        The checker's source. `with __site__(i):` marks the `i`-th test.
    sites
        Number of tests.
    """

    program: tuple[str, ...]
    test: str
    sites: int
    before: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run went.

    Attributes
    ----------
    ending
        Whether it ended by itself.
    code
        Exit status of its main process (of a checked run: the checker); minus the signal that ended it.
    stdout
        The first `output_bytes` of standard output; `cut` where there was more.
    stderr
        The last bytes of standard error.
    passed
        For each test of a checked run, whether it passed. Empty where the checker never came to its end.
    reason
        Why the checker was not content, for people.
    cpu_seconds
        Processor time of the run's processes.
    """

    ending: Ending
    code: int = 0
    stdout: str = ""
    cut: bool = False
    stderr: str = ""
    passed: tuple[bool, ...] = ()
    reason: str = ""
    cpu_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """A form that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**{**fields, "ending": Ending(fields["ending"]), "passed": tuple(fields["passed"])})
