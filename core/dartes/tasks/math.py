"""Mathematics with a final answer: the last box of an answer against the reference, as mathematics.

Where the reference stands is `math_columns`'s to know; what is equal, `math_equality`'s.
"""

from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import ClassVar, Self

from dartes.errors import ConfigurationError
from dartes.tasks import math_columns
from dartes.tasks.base import (
    JSON,
    Grade,
    Prompt,
    Row,
    TaskDescription,
    UnreadableReferenceError,
    refuse_answer_format,
    refuse_pass_threshold,
    refuse_unknown_options,
    shorten,
)
from dartes.tasks.blocks import last_box_or_number
from dartes.tasks.math_equality import equal, is_readable, key
from dartes.tasks.math_latex import LENGTH_LIMIT
from dartes.tasks.templates import Template, build_prompt

CPU_SECONDS = 2.0
"""CPU time that comparing one answer may take in a grader process."""

DEFAULT_PROMPT = """\
{problem}

Work this out step by step. Write the final answer, and only that, as \\boxed{...} at the end.
"""


class PromptShape(StrEnum):
    """How the prompt reaches the model (`task.options.promptShape`)."""

    CHAT = "Chat"
    RAW = "Raw"


PROMPT_SHAPE = "promptShape"


def prompt_shape(value: JSON) -> PromptShape:
    """The option's value; raises `ConfigurationError` for another word."""
    if value not in tuple(PromptShape):
        allowed = ", ".join(PromptShape)
        raise ConfigurationError(
            f"task.options.{PROMPT_SHAPE}: must be one of {allowed}, not {shorten(value)}"
        )
    return PromptShape(str(value))


@dataclass(frozen=True, slots=True)
class MathTask:
    """Rows are of the layouts in `math_columns`; a template's `{problem}` is the problem in any of them."""

    template: Template
    system: str | None = None
    shape: PromptShape = PromptShape.CHAT

    name: ClassVar[str] = "math"
    gives_auxiliary: ClassVar[bool] = False
    default_auxiliary_weight: ClassVar[float] = 0.0

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`. The library is looked for here, and loaded in the grader process alone."""
        if find_spec("math_verify") is None:
            raise ConfigurationError(
                "task.kind: task 'math' needs math-verify: pip install '.[tasks]' in a clone"
            )
        refuse_pass_threshold(cls.name, spec.pass_threshold)
        refuse_answer_format(cls.name, spec.answer_format)
        refuse_unknown_options(cls.name, spec.options, (PROMPT_SHAPE,))
        shape = prompt_shape(spec.options.get(PROMPT_SHAPE, PromptShape.CHAT))
        if shape is PromptShape.RAW and spec.system is not None:
            raise ConfigurationError("task.system: a raw prompt has no system message; leave one of them out")
        return cls(Template(spec.prompt or DEFAULT_PROMPT), spec.system, shape)

    @staticmethod
    def prepare() -> None:
        """Called once by a grader process, before the first answer."""
        from dartes.tasks import math_symbolic

        math_symbolic.prepare()
        math_symbolic.seal()

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        self.template.check(_with_problem(row))
        math_columns.tolerance_of(row)
        _readable_reference(row)

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`."""
        return build_prompt(
            self.template, self.system, _with_problem(row), chat=self.shape is PromptShape.CHAT
        )

    def reference(self, row: Row) -> str:
        """See `Task.reference`."""
        return math_columns.reference_of(row)

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`; there is no auxiliary score."""
        reference = _readable_reference(row)
        answer = last_box_or_number(completion)
        if answer is None or not answer.strip():
            return Grade.of("no answer in a box")
        if len(answer) > LENGTH_LIMIT:  # what is kept of past answers is bounded by this
            return Grade.of("the answer is too long")
        try:
            return Grade.of("" if _equal(reference, answer, row) else "another answer", answer=key(answer))
        except RecursionError:
            return Grade.of("too deeply nested")


def _equal(reference: str, answer: str, row: Row) -> bool:
    from dartes.tasks.math_symbolic import OutOfTimeError, time_limit

    try:
        with time_limit(CPU_SECONDS):
            return equal(reference, answer, math_columns.tolerance_of(row))
    except OutOfTimeError:
        return False


def _with_problem(row: Row) -> Row:
    return {**row, "problem": math_columns.problem_of(row)}


def _readable_reference(row: Row) -> str:
    reference = math_columns.reference_of(row)
    if len(reference) > LENGTH_LIMIT or not is_readable(reference):
        raise UnreadableReferenceError(f"the reference answer {shorten(reference)} cannot be read")
    return reference
