"""The built-in addition task: `a+b=` as a raw prompt, and nothing but the sum is right.

Made for the built-in character model (`builtin://addition`), which can add but often refuses.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from dartes.tasks.base import (
    Grade,
    Prompt,
    Row,
    TaskDescription,
    int_column,
    refuse_answer_format,
    refuse_pass_threshold,
    refuse_unknown_options,
)
from dartes.tasks.templates import Template, build_prompt

DEFAULT_PROMPT = "{a}+{b}="


@dataclass(frozen=True, slots=True)
class AdditionTask:
    """Rows hold whole numbers `a` and `b`; the answer must be their sum, white space around it ignored."""

    template: Template
    system: str | None = None

    name: ClassVar[str] = "addition"
    gives_auxiliary: ClassVar[bool] = False

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`; a `system` text makes the prompt a chat."""
        refuse_pass_threshold(cls.name, spec.pass_threshold)
        refuse_unknown_options(cls.name, spec.options, ())
        refuse_answer_format(cls.name, spec.answer_format)
        return cls(Template(spec.prompt or DEFAULT_PROMPT), spec.system)

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        int_column(row, "a")
        int_column(row, "b")
        self.template.check(row)

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`."""
        return build_prompt(self.template, self.system, row, chat=self.system is not None)

    def reference(self, row: Row) -> str:
        """See `Task.reference`."""
        return str(int_column(row, "a") + int_column(row, "b"))

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`; there is no auxiliary score."""
        answer = completion.strip()
        return Grade.of("" if answer == self.reference(row) else "not the sum", answer=answer)
