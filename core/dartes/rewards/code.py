"""The grader `sandbox`: runs what a code task asks for, in single-use processes, and lets the task judge it.

An answer that hangs, dies, forks or floods costs itself only. A machine that has no process to give is an
error of the machine, never a wrong answer.
"""

import logging
from collections.abc import Sequence

from dartes.rewards.opening import GraderContext
from dartes.rewards.pool import ANSWER_LIMIT
from dartes.sandbox.sandbox import RunOne, Sandbox
from dartes.tasks.base import Grade, Row, TaskDescription, UnreadableReferenceError
from dartes.tasks.code import CodeTask

logger = logging.getLogger(__name__)


def open_code_grader(task: TaskDescription, context: GraderContext) -> "CodeGrader":
    """See `dartes.rewards.opening`. Its time limit is the task's option `secondsPerTest`.

    Raises
    ------
    ConfigurationError
        Settings that the task does not have, or a machine that cannot confine programs.
    SandboxStartError
        No sandbox process can be started for now.
    """
    code = CodeTask.from_spec(task)
    grader = CodeGrader(code, Sandbox(context.processes))
    try:
        logger.info("the sandbox is ready: %s", grader.sandbox.describe())
    except BaseException:
        grader.close()
        raise
    return grader


class CodeGrader:
    """Grades answers to code problems. Not to be used by two threads at once; owns its sandbox."""

    def __init__(self, task: CodeTask, sandbox: Sandbox) -> None:
        self._task = task
        self.sandbox = sandbox

    def grade(self, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        """Grade `completions[i]`, an answer to `rows[i]`; one grade each, in order."""
        if len(rows) != len(completions):
            raise ValueError(f"{len(rows)} rows for {len(completions)} answers")
        return self.sandbox.each(list(zip(rows, completions, strict=True)), self._grade)

    def close(self) -> None:
        """End the sandbox's processes; may be called twice."""
        self.sandbox.close()

    def _grade(self, asked: tuple[Row, str], run: RunOne) -> Grade:
        row, completion = asked
        try:
            steps = self._task.steps(row, completion[:ANSWER_LIMIT])
        except UnreadableReferenceError as error:
            return Grade.of(f"the tests cannot be read: {error}")
        verdicts = []
        for step in steps:
            verdicts.append(self._task.judge(step, run(step.run)))
            if verdicts[-1].last:
                break
        return self._task.total(steps, verdicts)
