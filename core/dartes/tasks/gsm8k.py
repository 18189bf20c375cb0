"""GSM8K: word problems whose answer is a number after `####`, thought about in think tags.

Answer and format score follow the reference run's rules (design, "Rewards"); the prompt is this project's
own.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Self

from dartes.errors import ConfigurationError
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
    str_column,
)
from dartes.tasks.blocks import (
    FORMAT_ANSWER,
    FORMAT_EXACT,
    FORMAT_THINK,
    THINK_OPEN,
    after_think_block,
    opened_tag,
)
from dartes.tasks.numbers import parse_decimal
from dartes.tasks.templates import Template, build_prompt

MARK = "####"
TOLERANCE = Fraction(1, 10**6)

CHAT_PROMPT = """\
Here is a word problem. Work it out in small steps between <think> and </think>. When you are done, write four
hash signs and the result, a plain number without a unit, on a line of its own, like this: #### 12

Problem: {question}
"""
DEFAULT_PROMPT = CHAT_PROMPT + "\n" + THINK_OPEN

_MARKED_NUMBER = re.compile(r"####\s*[+-]?(?:[0-9]|\.[0-9])")
# What may stand around the number of a lenient answer: currency, emphasis, a box, a tag that closes.
_DRESSED_NUMBER = re.compile(
    r"([+-]?)(?:[$\u20ac\u00a3*_`({]|\\(?:boxed|text|textbf|mathbf)|\\[($]){0,8}"
    r"([+-]?(?:[0-9][0-9,]*|(?=\.))(?:\.[0-9]*)?)(?:[*_`)}$%.!]|\\[)%$]){0,8}(?:</[a-z]{1,10}>.*)?"
)
_WORD_LIMIT = 100


class Accept(StrEnum):
    """Which words behind the mark are a number (`task.options.accept`)."""

    PUBLISHED = "Published"
    """Those that are a number as they stand, commas apart: the rule of the published runs."""

    LENIENT = "Lenient"
    """Also with a currency sign, markup, a percent sign, a full stop or a closing tag."""


_ACCEPT = "accept"


@dataclass(frozen=True, slots=True)
class Gsm8kTask:
    """Rows hold `question` and `answer`: a number, or a worked solution that ends with `#### number`."""

    template: Template
    system: str | None = None
    accept: Accept = Accept.PUBLISHED

    name: ClassVar[str] = "gsm8k"

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`. Without `system` the prompt is raw and ends with an opened think tag."""
        refuse_pass_threshold(cls.name, spec.pass_threshold)
        refuse_unknown_options(cls.name, spec.options, (_ACCEPT,))
        refuse_answer_format(cls.name, spec.answer_format)
        default = DEFAULT_PROMPT if spec.system is None else CHAT_PROMPT
        accept = _accepted(spec.options.get(_ACCEPT, Accept.PUBLISHED))
        return cls(Template(spec.prompt or default), spec.system, accept)

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        self.template.check(row)
        _reference(row)

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`."""
        return build_prompt(self.template, self.system, row, chat=self.system is not None)

    def reference(self, row: Row) -> str:
        """See `Task.reference`."""
        _reference(row)
        return str_column(row, "answer").split()[-1]

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`; the auxiliary score is the format's, on the prompt's open tag and the answer."""
        opened = "" if self.system is not None else opened_tag(self.template.text)
        found, reason = _found(completion, self.accept)
        if found is not None and abs(found - _reference(row)) >= TOLERANCE:
            reason = "another number"
        answer = "" if found is None else str(found)
        return Grade.of(reason, format_score(opened + completion), answer=answer)


def format_score(text: str) -> float:
    """1.0 for a closed think block with `#### number` behind it; else 0.1 for the block, 0.5 for a number."""
    rest = after_think_block(text)
    if rest is not None and _MARKED_NUMBER.search(rest):
        return FORMAT_EXACT
    score = 0.0 if rest is None else FORMAT_THINK
    return score + FORMAT_ANSWER if _MARKED_NUMBER.search(text) else score


def _accepted(value: JSON) -> Accept:
    if value not in tuple(Accept):
        allowed = ", ".join(Accept)
        raise ConfigurationError(f"task.options.{_ACCEPT}: must be one of {allowed}, not {shorten(value)}")
    return Accept(str(value))


def _found(completion: str, accept: Accept) -> tuple[Fraction | None, str]:
    """The number that an answer gives, or why there is none."""
    _, mark, tail = completion.rpartition(MARK)
    words = tail.split(maxsplit=1)
    if not mark or not words:
        return None, f"no word after {MARK}"
    found = parse_decimal(words[0])
    if found is None and accept is Accept.LENIENT:
        found = _dressed(words[0])
    return found, f"not a number after {MARK}" if found is None else ""


def _dressed(word: str) -> Fraction | None:
    match = _DRESSED_NUMBER.fullmatch(word) if len(word) <= _WORD_LIMIT else None
    return None if match is None else parse_decimal(match[1] + match[2])


def _reference(row: Row) -> Fraction:
    text = str_column(row, "answer")
    words = text.rpartition(MARK)[2].split()
    number = parse_decimal(words[0]) if len(words) == 1 else None
    if number is None:
        raise UnreadableReferenceError(
            f"column 'answer' must be a number or end with '{MARK} number', not {shorten(text[-60:])}"
        )
    return number
