"""The grader `python`: scores by the user's own function, a batch at a time, in a process of its own.

A function that hangs or takes its process along is tried once more; what it does wrong otherwise ends the
job with its words, since a made-up score would train on nothing. The function is trusted, answers are not:
it gets them as text, and what it does with them is the user's.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from dartes.errors import ConfigurationError
from dartes.rewards.opening import GraderContext
from dartes.rewards.python_function_process import FunctionLostError, FunctionProcess
from dartes.rewards.python_function_source import FunctionPlace, find_function, reward_digest
from dartes.tasks.base import JSON, Grade, Prompt, Row, TaskDescription
from dartes.tasks.python import TIMEOUT_OPTION, PythonFunctionTask

__all__ = ["PythonFunctionGrader", "open_python_grader", "request_for", "reward_digest"]

log = logging.getLogger(__name__)

OWN_NAMES: Final = ("prompt", "prompts", "completion", "completions", "completion_ids")
"""Columns that are not passed: their names are those of the function's own arguments, as with TRL."""

ATTEMPTS = 2


def open_python_grader(task: TaskDescription, context: GraderContext) -> "PythonFunctionGrader":
    """The grader `python`; see `dartes.rewards.opening`. Imports the function, so that it is known to be one.

    Raises
    ------
    ConfigurationError
        There is no such module, file or function, or it can't be imported.
    """
    return PythonFunctionGrader(
        PythonFunctionTask.from_spec(task), find_function(task.python, context.base_dir)
    )


class PythonFunctionGrader:
    """One reward function in one process, which is started anew when it is lost."""

    def __init__(
        self,
        task: PythonFunctionTask,
        place: FunctionPlace,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._task = task
        self._place = place
        self._clock = clock
        self._process: FunctionProcess | None = None
        self._attempt(lambda _: None)

    def grade(self, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        """Grade `completions[i]`, an answer to `rows[i]`, in one call of the function; see `Grader.grade`."""
        if len(rows) != len(completions):
            raise ValueError(f"{len(rows)} rows for {len(completions)} answers")
        if not rows:
            return []
        request = request_for([self._task.prompt(row) for row in rows], rows, completions)
        scores = self._attempt(lambda process: process.call(request, self._task.timeout_seconds))
        return [self._task.grade_of(score) for score in scores or ()]

    def close(self) -> None:
        """End the function's process; may be called twice."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _attempt(self, use: Callable[[FunctionProcess], list[float] | None]) -> list[float] | None:
        """Use the process, and once more a fresh one where it is lost meanwhile."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return use(self._ready())
            except FunctionLostError as lost:
                self.close()
                if attempt == ATTEMPTS:
                    raise ConfigurationError(
                        f"task.python: {self._place.name} {lost}, {ATTEMPTS} times in a row; make it finish, "
                        f"or raise task.options.{TIMEOUT_OPTION}"
                    ) from lost
                log.warning("task.python: %s %s; calling it once more", self._place.name, lost)
        raise AssertionError("unreachable")

    def _ready(self) -> FunctionProcess:
        if self._process is None:
            self._process = FunctionProcess(self._place, self._clock)
            self._process.load()
        return self._process


def request_for(
    prompts: Sequence[Prompt], rows: Sequence[Row], completions: Sequence[str]
) -> dict[str, JSON]:
    """A batch as the function gets it, in TRL's shapes.

    A prompt that is a chat is a list of turns, and its completion a list of one turn of the assistant; a text
    is a text. Every column of any row is there with one value per row, None where a row lacks it.
    """
    names = dict.fromkeys(name for row in rows for name in row if name not in OWN_NAMES)
    asked: list[JSON] = []
    answers: list[JSON] = []
    for prompt, completion in zip(prompts, completions, strict=True):
        if isinstance(prompt, str):
            asked.append(prompt)
            answers.append(completion)
        else:
            asked.append([{"role": turn.role, "content": turn.content} for turn in prompt])
            answers.append([{"role": "assistant", "content": completion}])
    columns: Mapping[str, JSON] = {name: [row.get(name) for row in rows] for name in names}
    return {"prompts": asked, "completions": answers, "columns": columns}
