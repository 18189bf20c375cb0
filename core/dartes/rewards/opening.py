"""From a job's task to the thing that grades its answers: parsers, a sandbox, a user's function, a model.

A kind of grader is an entry point of group `dartes.graders`; a task's class names the one it needs. This
module knows none of them.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, TypeAlias

from dartes.errors import ConfigurationError
from dartes.tasks.base import Grade, Row, Task, TaskDescription
from dartes.tasks.registry import task_named

GRADER_GROUP = "dartes.graders"
DEFAULT_GRADER = "parser"

SECONDS_PER_ANSWER = 5.0
"""Wall time that grading one answer may take, unless the task says otherwise."""


def _no_trouble(message: str) -> None:
    del message


@dataclass(frozen=True, slots=True)
class GraderContext:
    """What a grader may use of its process.

    Attributes
    ----------
    base_dir
        Folder of the job file: where relative paths and a local reward function's module are looked for.
    device
        Where an in-process model runs, such as "cpu" or "cuda:0".
    seconds_per_answer
        Wall time that one answer may take.
    processes
        Grader processes that may work side by side.
    on_trouble
        Told why grading cannot go on for now (a service that is down), and "" when it goes on.
    closing
        Set when the process is about to end: who waits for a service gives up, with a DrainedError.
    """

    base_dir: Path = Path()
    device: str = "cpu"
    seconds_per_answer: float = SECONDS_PER_ANSWER
    processes: int = 1
    on_trouble: Callable[[str], None] = field(default=_no_trouble)
    closing: threading.Event = field(default_factory=threading.Event, compare=False)


class Grader(Protocol):
    """Grades the answers of one task. Never called by two threads at once."""

    def grade(self, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        """Grade `completions[i]`, an answer to `rows[i]`; one grade each, in order. Scores are finite.

        Whatever an answer does costs that answer only. Raises ConfigurationError where the job's own reward
        is wrong (a function that raises, a service that answers nonsense for good), never a made-up grade.
        """
        ...

    def close(self) -> None:
        """End its processes; may be called twice."""
        ...


OpenGrader: TypeAlias = Callable[[TaskDescription, GraderContext], Grader]
"""What an entry point of group `dartes.graders` names."""


def grader_name(task: Task | type[Task]) -> str:
    """The entry point that grades a task's answers."""
    return str(getattr(task, "grader", DEFAULT_GRADER))


def open_grader(task: TaskDescription, context: GraderContext) -> Grader:
    """The grader of a job's task.

    Raises
    ------
    ConfigurationError
        Unknown task or grader, or settings that its grader does not have.
    """
    name = grader_name(task_named(task.kind))
    found = tuple(entry_points(group=GRADER_GROUP, name=name))
    if not found:
        there = ", ".join(sorted({point.name for point in entry_points(group=GRADER_GROUP)}))
        raise ConfigurationError(
            f"task.kind: task '{task.kind}' is graded by '{name}', and no such grader is installed "
            f"(there are: {there})"
        )
    module, _, function = found[0].value.partition(":")
    opener: OpenGrader = getattr(import_module(module), function)
    return opener(task, context)
