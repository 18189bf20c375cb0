"""Short sums for instruct models: solved when the answer is the bare number and nothing else.

What such a model lacks at first is manner, not knowledge: it says the number in a sentence. The auxiliary
score is therefore graded, so that members differ even where none passes yet.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Self

from dartes.errors import ConfigurationError
from dartes.tasks.base import (
    JSON,
    Grade,
    Prompt,
    Row,
    TaskDescription,
    int_column,
    refuse_answer_format,
    refuse_unknown_options,
    shorten,
)
from dartes.tasks.templates import Template, build_prompt

DEFAULT_SYSTEM = "Reply with one number and nothing else."
DEFAULT_PROMPT = "{question} ="

# A number that stands by itself: no letter, digit or decimal part touches it. A minus right after a digit is
# a subtraction, not a sign.
_NUMBER_IN_TEXT = re.compile(r"(?<![\w.])-?[0-9]{1,32}(?!\w|[.,][0-9])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Partial:
    """The parts of the auxiliary score, each 0..1; they are added (`task.options`, whole percents there).

    Attributes
    ----------
    number_in_text
        For the right number anywhere in the answer (`numberInTextPercent`).
    bare_number
        For an answer that is one bare number, right or wrong (`bareNumberPercent`).
    brevity
        Times the share of the answer's characters that the right number takes (`brevityPercent`).
    """

    number_in_text: float = 0.4
    bare_number: float = 0.2
    brevity: float = 0.4


_OPTIONS = {
    "numberInTextPercent": "number_in_text",
    "bareNumberPercent": "bare_number",
    "brevityPercent": "brevity",
}


@dataclass(frozen=True, slots=True)
class ArithmeticTask:
    """Rows hold the whole number `answer` and whatever the prompt names, by default `question`."""

    template: Template
    system: str
    partial: Partial = Partial()

    name: ClassVar[str] = "arithmetic"
    default_auxiliary_weight: ClassVar[float] = 0.1

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`; an empty `system` text leaves the system message out."""
        refuse_unknown_options(cls.name, spec.options, _OPTIONS)
        refuse_answer_format(cls.name, spec.answer_format)
        partial = Partial(**{_OPTIONS[name]: _share(name, value) for name, value in spec.options.items()})
        system = DEFAULT_SYSTEM if spec.system is None else spec.system
        return cls(Template(spec.prompt or DEFAULT_PROMPT), system, partial)

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        int_column(row, "answer")
        self.template.check(row)

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`; always a chat."""
        return build_prompt(self.template, self.system or None, row, chat=True)

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`."""
        right = str(int_column(row, "answer"))
        answer = completion.strip()
        if answer == right:
            parts = self.partial
            return Grade.of("", parts.number_in_text + parts.bare_number + parts.brevity)
        auxiliary = 0.0
        reason = "the right number is not there"
        if right in answer and right in _NUMBER_IN_TEXT.findall(answer):
            auxiliary += self.partial.number_in_text + self.partial.brevity * len(right) / len(answer)
            reason = "more than the bare number"
        if _NUMBER_IN_TEXT.fullmatch(answer):
            auxiliary += self.partial.bare_number
            reason = "another number"
        return Grade.of(reason, auxiliary)


def _share(name: str, value: JSON) -> float:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise ConfigurationError(
            f"task.options.{name}: must be a whole number from 0 to 100, not {shorten(value)}"
        )
    return value / 100
