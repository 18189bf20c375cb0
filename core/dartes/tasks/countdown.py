"""Countdown: reach a target with given numbers, each used exactly once.

The answer is an expression written by a model. It is parsed and bounded, never executed (`expressions`).
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Self

from dartes.errors import ConfigurationError
from dartes.tasks.base import (
    Grade,
    Prompt,
    Row,
    RowError,
    TaskDescription,
    UnreadableReferenceError,
    column,
    refuse_pass_threshold,
    refuse_unknown_options,
    shorten,
)
from dartes.tasks.blocks import (
    ANSWER_CLOSE,
    ANSWER_OPEN,
    BOX_OPEN,
    FORMAT_ANSWER,
    FORMAT_EXACT,
    FORMAT_THINK,
    THINK_OPEN,
    after_think_block,
    is_think_then,
    last_answer,
    last_box,
    opened_tag,
)
from dartes.tasks.expressions import ExpressionError, evaluate
from dartes.tasks.templates import Template, build_prompt

TOLERANCE = Fraction(1, 10**5)
MOST_NUMBERS = 16
LARGEST_NUMBER = 10**9


class AnswerFormat(StrEnum):
    """Where the expression stands (`task.answerFormat`)."""

    TAGS = "Tags"
    BOXED = "Boxed"


_QUESTION = """\
Numbers: {numbers}
Target: {target}

Find an arithmetic expression that equals the target. It may contain +, -, *, / and round brackets, and must
use every number of the list exactly once and no other number. Try things out between <think> and </think>,
then give """
CHAT_PROMPTS = {
    AnswerFormat.TAGS: _QUESTION
    + "only the expression on the next line, for example <answer>(3 + 4) * 2</answer>.\n",
    AnswerFormat.BOXED: _QUESTION
    + "only the expression on the next line, for example \\boxed{(3 + 4) * 2}.\n",
}
DEFAULT_PROMPTS = {kind: text + "\n" + THINK_OPEN for kind, text in CHAT_PROMPTS.items()}


@dataclass(frozen=True, slots=True)
class CountdownTask:
    """Rows hold `numbers` or `nums` (a list of whole numbers) and `target` (a number)."""

    template: Template
    system: str | None = None
    answer_format: AnswerFormat = AnswerFormat.TAGS

    name: ClassVar[str] = "countdown"

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`. Without `system` the prompt is raw and ends with an opened think tag."""
        refuse_pass_threshold(cls.name, spec.pass_threshold)
        refuse_unknown_options(cls.name, spec.options, ())
        word = AnswerFormat.TAGS if spec.answer_format is None else str(spec.answer_format)
        try:
            answer_format = AnswerFormat(word)
        except ValueError:
            raise ConfigurationError(
                f"task.answerFormat: must be Tags or Boxed, not {shorten(word)}"
            ) from None
        default = (DEFAULT_PROMPTS if spec.system is None else CHAT_PROMPTS)[answer_format]
        return cls(Template(spec.prompt or default), spec.system, answer_format)

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        _numbers(row)
        _target(row)
        self.template.check(_named(row))

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`."""
        return build_prompt(self.template, self.system, _named(row), chat=self.system is not None)

    def reference(self, row: Row) -> str:
        """See `Task.reference`: the target, as there are many right expressions."""
        return str(_target(row))

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`; the auxiliary score is the format's, on the prompt's open tag and the answer."""
        opened = "" if self.system is not None else opened_tag(self.template.text)
        answer, reason = self._judged(_numbers(row), _target(row), completion)
        return Grade.of(reason, self.format_score(opened + completion), answer=answer)

    def format_score(self, text: str) -> float:
        """1.0 for exactly think block, newline, answer; else 0.1 for a think block plus 0.5 for an answer."""
        inside = self._expression(text)
        if inside is not None:
            boxed = self.answer_format is AnswerFormat.BOXED
            opening, closing = (BOX_OPEN, "}") if boxed else (ANSWER_OPEN, ANSWER_CLOSE)
            if is_think_then(text, opening, opening + inside + closing):
                return FORMAT_EXACT
        return (0.0 if after_think_block(text) is None else FORMAT_THINK) + (
            0.0 if inside is None else FORMAT_ANSWER
        )

    def _expression(self, text: str) -> str | None:
        return last_box(text) if self.answer_format is AnswerFormat.BOXED else last_answer(text)

    def _judged(self, numbers: list[int], target: Fraction, completion: str) -> tuple[str, str]:
        """The value that the answer reaches by the rules, or nothing, and what is wrong with it."""
        expression = self._expression(completion)
        if expression is None:
            return "", "no answer block"
        try:
            found = evaluate(expression.strip())
        except ExpressionError as error:
            return "", f"not an expression: {error}"
        if sorted(found.numbers) != sorted(numbers):
            return "", "does not use each number exactly once"
        hit = abs(found.value - target) < TOLERANCE
        return str(target if hit else found.value), "" if hit else "misses the target"


def _named(row: Row) -> Row:
    """A row whose numbers are called `numbers`."""
    return {**row, "numbers": row["nums"]} if "numbers" not in row and "nums" in row else row


def _numbers(row: Row) -> list[int]:
    value = column(_named(row), "numbers")
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MOST_NUMBERS:
        raise RowError(
            f"column 'numbers' must be a list of 1 to {MOST_NUMBERS} numbers, not {shorten(value)}"
        )
    numbers = [
        n for n in value if isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= LARGEST_NUMBER
    ]
    if len(numbers) != len(value):
        raise RowError(
            f"column 'numbers' must hold whole numbers from 0 to {LARGEST_NUMBER}, not {shorten(value)}"
        )
    return numbers


def _target(row: Row) -> Fraction:
    value = column(row, "target")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowError(f"column 'target' must be a number up to {LARGEST_NUMBER}, not {shorten(value)}")
    if not abs(value) <= LARGEST_NUMBER:
        raise UnreadableReferenceError(
            f"column 'target' must be a number up to {LARGEST_NUMBER}, not {shorten(value)}"
        )
    return Fraction(str(value))
