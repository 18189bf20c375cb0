"""The grader `python`: scores by the user's own function, a batch at a time, in a process of its own.

A function that hangs or takes its process along is tried once more, then answer by answer to name the one
that it is lost in; what it does wrong otherwise ends the job with its words, since a made-up score would
train on nothing. The function is trusted, answers are not: it gets them as text, and what it does with them
is the user's.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from dartes.errors import ConfigurationError
from dartes.rewards.opening import GraderContext
from dartes.rewards.python_function_process import FunctionLostError, FunctionProcess
from dartes.rewards.python_function_source import (
    FunctionPlace,
    file_digest,
    find_function,
    reward_digest,
)
from dartes.tasks.base import JSON, Grade, Prompt, Row, TaskDescription
from dartes.tasks.python import TIMEOUT_OPTION, PythonFunctionTask

__all__ = ["PythonFunctionGrader", "open_python_grader", "request_for", "reward_digest"]

log = logging.getLogger(__name__)

OWN_NAMES: Final = ("prompt", "prompts", "completion", "completions", "completion_ids")
"""Columns that are not passed: their names are those of the function's own arguments, as with TRL."""

ATTEMPTS = 2
SHOWN: Final = 60
"""Characters of an answer and of its prompt that an error message shows."""


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
        self._digest = file_digest(place)
        self._attempt(lambda _: None)

    def grade(self, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        """Grade `completions[i]`, an answer to `rows[i]`, in one call of the function; see `Grader.grade`."""
        if len(rows) != len(completions):
            raise ValueError(f"{len(rows)} rows for {len(completions)} answers")
        if not rows:
            return []
        request = request_for([self._task.prompt(row) for row in rows], rows, completions)
        scores = self._attempt(
            lambda process: process.call(request, self._task.timeout_seconds),
            lambda: self._culprit(rows, completions),
        )
        return [self._task.grade_of(score) for score in scores or ()]

    def check(self, columns: Iterable[str]) -> None:
        """Raise ConfigurationError where the function asks for a column that is not among these.

        The function is not called.
        """
        offered = [name for name in columns if name not in OWN_NAMES]
        self._attempt(lambda process: process.check(offered))

    def close(self) -> None:
        """End the function's process; may be called twice."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _attempt(
        self,
        use: Callable[[FunctionProcess], list[float] | None],
        about_the_loss: Callable[[], str] = lambda: "",
    ) -> list[float] | None:
        """Use the process, and once more a fresh one where it is lost meanwhile."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return use(self._ready())
            except FunctionLostError as lost:
                self.close()
                if attempt == ATTEMPTS:
                    said = f"{lost}, {ATTEMPTS} times in a row{about_the_loss()}"
                    raise ConfigurationError(
                        f"task.python: {self._place.name} {said}; make it finish, or raise "
                        f"task.options.{TIMEOUT_OPTION}"
                    ) from lost
                log.warning("task.python: %s %s; calling it once more", self._place.name, lost)
        raise AssertionError("unreachable")

    def _culprit(self, rows: Sequence[Row], completions: Sequence[str]) -> str:
        """Which answer of a batch the function is lost in by itself, in words; empty where none is found.

        Each is tried alone with the time of a batch, until they have taken as long together.
        """
        end = self._clock() + self._task.timeout_seconds
        for row, completion in zip(rows, completions, strict=True):
            if self._clock() > end:
                return ""
            prompt = self._task.prompt(row)
            try:
                process = self._ready()
            except FunctionLostError:  # in its import, which no answer is to blame for
                self.close()
                return ""
            try:
                process.call(request_for([prompt], [row], [completion]), self._task.timeout_seconds)
            except FunctionLostError:
                self.close()
                asked = prompt if isinstance(prompt, str) else prompt[-1].content
                return (
                    f"; it is lost in the answer {completion[:SHOWN]!a} alone, of {len(completion):,} "
                    f"characters, to {asked[:SHOWN]!a}"
                )
            except ConfigurationError:
                return ""  # it is not made for one answer; the batch is what counts
        return ""

    def _ready(self) -> FunctionProcess:
        if self._process is None:
            if file_digest(self._place) != self._digest:
                raise ConfigurationError(
                    f"task.python: {self._place.file} has changed since this run's workers began, and all of "
                    "them have to score alike. Let it be as it was, or stop the run and start it again to go "
                    "on with the new one"
                )
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
