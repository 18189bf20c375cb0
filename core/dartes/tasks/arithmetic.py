"""Short sums for instruct models: solved by the bare number, or by a short answer that ends with it.

What such a model lacks at first is manner, not knowledge: it says the number in a sentence. The auxiliary
score is therefore graded, so that members differ even where none passes yet.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
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
    refuse_pass_threshold,
    refuse_unknown_options,
    shorten,
)
from dartes.tasks.templates import Template, build_prompt

DEFAULT_SYSTEM = "Reply with one number and nothing else."
DEFAULT_PROMPT = "{question} ="

# A number that stands by itself: no letter, digit or decimal part touches it. A minus right after a digit is
# a subtraction, not a sign.
_NUMBER_IN_TEXT = re.compile(r"(?<![\w.])-?[0-9]{1,32}(?!\w|[.,][0-9])", re.ASCII)
_NUMBER_AT_END = re.compile(rf"{_NUMBER_IN_TEXT.pattern}[.!]?\Z", re.ASCII)


class Accept(StrEnum):
    """What passes (`task.options.accept`)."""

    BARE_NUMBER = "BareNumber"
    NUMBER_AT_END = "NumberAtEnd"
    """The right number ends the answer; a full stop or an exclamation mark may follow it."""


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
_ACCEPT = "accept"


@dataclass(frozen=True, slots=True)
class ArithmeticTask:
    """Rows hold the whole number `answer` and whatever the prompt names, by default `question`."""

    template: Template
    system: str
    partial: Partial = Partial()
    accept: Accept = Accept.BARE_NUMBER

    name: ClassVar[str] = "arithmetic"
    default_auxiliary_weight: ClassVar[float] = 0.1

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`; an empty `system` text leaves the system message out."""
        refuse_pass_threshold(cls.name, spec.pass_threshold)
        refuse_unknown_options(cls.name, spec.options, (*_OPTIONS, _ACCEPT))
        refuse_answer_format(cls.name, spec.answer_format)
        shares = {name: value for name, value in spec.options.items() if name != _ACCEPT}
        partial = Partial(**{_OPTIONS[name]: _share(name, value) for name, value in shares.items()})
        accept = _accept(spec.options.get(_ACCEPT, Accept.BARE_NUMBER))
        system = DEFAULT_SYSTEM if spec.system is None else spec.system
        return cls(Template(spec.prompt or DEFAULT_PROMPT), system, partial, accept)

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        int_column(row, "answer")
        self.template.check(row)

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`; always a chat."""
        return build_prompt(self.template, self.system or None, row, chat=True)

    def reference(self, row: Row) -> str:
        """See `Task.reference`."""
        return str(int_column(row, "answer"))

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`."""
        right = str(int_column(row, "answer"))
        answer = completion.strip()
        if answer == right:
            parts = self.partial
            auxiliary = parts.number_in_text + parts.bare_number + parts.brevity
            return Grade.of("", auxiliary, answer=answer)
        auxiliary = 0.0
        reason = "the right number is not there"
        if right in answer and right in _NUMBER_IN_TEXT.findall(answer):
            auxiliary += self.partial.number_in_text + self.partial.brevity * len(right) / len(answer)
            reason = "" if self._ends_with(right, answer) else "more than the bare number"
        if _NUMBER_IN_TEXT.fullmatch(answer):
            auxiliary += self.partial.bare_number
            reason = "another number"
        return Grade.of(reason, auxiliary, answer=self._number(answer))

    def _number(self, answer: str) -> str:
        """The number that would pass, were it the right one."""
        if self.accept is Accept.BARE_NUMBER:
            return answer if _NUMBER_IN_TEXT.fullmatch(answer) else ""
        end = _NUMBER_AT_END.search(answer)
        return "" if end is None else end[0].rstrip(".!")

    def _ends_with(self, right: str, answer: str) -> bool:
        return self.accept is Accept.NUMBER_AT_END and self._number(answer) == right


def _share(name: str, value: JSON) -> float:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise ConfigurationError(
            f"task.options.{name}: must be a whole number from 0 to 100, not {shorten(value)}"
        )
    return value / 100


def _accept(value: JSON) -> Accept:
    if value not in tuple(Accept):
        raise ConfigurationError(
            f"task.options.{_ACCEPT}: must be one of {', '.join(Accept)}, not {shorten(value)}"
        )
    return Accept(str(value))
