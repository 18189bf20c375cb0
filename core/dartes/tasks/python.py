"""The user's own reward: any prompts, and a Python function that scores the answers.

This module reads rows and settings. The function itself is run by `dartes.rewards.python_function`, in a
process of its own.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from dartes.errors import ConfigurationError
from dartes.tasks.base import (
    Grade,
    Prompt,
    Row,
    TaskDescription,
    refuse_answer_format,
    refuse_unknown_options,
    shorten,
)
from dartes.tasks.instruction_prompts import PROMPTS_OPTION, PromptSource

TIMEOUT_OPTION = "timeoutSeconds"
DEFAULT_TIMEOUT_SECONDS = 600
DEFAULT_PASS_THRESHOLD = 0.5
"""A function that returns 1.0 for right and 0.0 for wrong needs no `passThreshold`."""


@dataclass(frozen=True, slots=True)
class PythonFunctionTask:
    """Rows hold `prompt`, `messages` or `question`, or whatever `task.prompt` names; scores are the user's.

    Attributes
    ----------
    prompts
        What makes prompts of rows.
    pass_threshold
        Score from which an answer counts as passed.
    timeout_seconds
        Wall time that the function may take for one batch.
    """

    prompts: PromptSource
    pass_threshold: float = DEFAULT_PASS_THRESHOLD
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS

    name: ClassVar[str] = "python"
    gives_auxiliary: ClassVar[bool] = False
    has_score: ClassVar[bool] = True
    grader: ClassVar[str] = "python"

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`. Where the function is, and whether it is there, is not looked at here."""
        refuse_unknown_options(cls.name, spec.options, (PROMPTS_OPTION, TIMEOUT_OPTION))
        refuse_answer_format(cls.name, spec.answer_format)
        return cls(
            PromptSource.of(spec, raw_text=True),
            DEFAULT_PASS_THRESHOLD if spec.pass_threshold is None else spec.pass_threshold,
            whole_seconds(spec, DEFAULT_TIMEOUT_SECONDS),
        )

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`; the columns that the function wants are found missing when it is called."""
        self.prompts.prompt(row)

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`."""
        return self.prompts.prompt(row)

    def reference(self, row: Row) -> str:
        """See `Task.reference`."""
        return self.prompts.reference(row)

    def grade(self, row: Row, completion: str) -> Grade:
        """Not possible here: answers are scored by the grader `python`, a batch at a time."""
        del row, completion
        raise ConfigurationError(
            "task 'python' is graded by its function only: use dartes.rewards.opening.open_grader"
        )

    def grade_of(self, score: float) -> Grade:
        """The grade of an answer that the function gave `score`, a finite number."""
        return threshold_grade(score, self.pass_threshold)


def threshold_grade(score: float, threshold: float) -> Grade:
    """A grade that passes from `threshold` on; the score is kept as it travels, a 32-bit number."""
    passed = score >= threshold
    reason = "" if passed else f"score {score:.6g} is below task.passThreshold {threshold:.6g}"
    return Grade(passed, score, 0.0, reason)


def whole_seconds(spec: TaskDescription, default: int) -> int:
    """Option `timeoutSeconds`, 1 to 86400; raises `ConfigurationError` for anything else."""
    value = spec.options.get(TIMEOUT_OPTION, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 86_400:
        raise ConfigurationError(
            f"task.options.{TIMEOUT_OPTION} = {shorten(value)}: must be a whole number of seconds, 1 to 86400"
        )
    return value
