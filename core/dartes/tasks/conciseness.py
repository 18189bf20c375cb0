"""Brevity as a skill: an answer is scored by how near its length is to the shortest right answer's.

Only lengths are compared, as in the published experiment; whether an answer is right is for another task.
"""

from dataclasses import dataclass
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
from dartes.tasks.templates import Template, build_prompt

DEFAULT_PROMPT = "{question}"
WORST_SCORE = -10_000.0
"""A score is no lower, however long the answer."""

DEFAULT_TOLERANCE = 10
LARGEST_TOLERANCE = 10_000

_TOLERANCE, _LIMIT = "toleranceCharacters", "limitCharacters"


@dataclass(frozen=True, slots=True)
class ConcisenessTask:
    """Rows hold `question` and `answer`, the shortest right answer.

    Attributes
    ----------
    tolerance
        Characters by which a passing answer may be longer than the shortest one.
    limit
        Characters of the longest passing answer, whatever the shortest one; instead of `tolerance`.
    """

    template: Template
    system: str | None = None
    tolerance: int = DEFAULT_TOLERANCE
    limit: int | None = None

    name: ClassVar[str] = "conciseness"
    has_score: ClassVar[bool] = True
    default_auxiliary_weight: ClassVar[float] = 0.0

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`."""
        refuse_pass_threshold(cls.name, spec.pass_threshold)
        refuse_answer_format(cls.name, spec.answer_format)
        refuse_unknown_options(cls.name, spec.options, (_TOLERANCE, _LIMIT))
        if _TOLERANCE in spec.options and _LIMIT in spec.options:
            raise ConfigurationError(f"task.options: set {_TOLERANCE} or {_LIMIT}, not both")
        limit = spec.options.get(_LIMIT)
        return cls(
            Template(spec.prompt or DEFAULT_PROMPT),
            spec.system,
            _characters(_TOLERANCE, spec.options.get(_TOLERANCE, DEFAULT_TOLERANCE), 0),
            None if limit is None else _characters(_LIMIT, limit, 1),
        )

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        self.template.check(row)
        _shortest(row)

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`; always a chat."""
        return build_prompt(self.template, self.system, row, chat=True)

    def reference(self, row: Row) -> str:
        """See `Task.reference`."""
        return _shortest(row)

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`; an empty answer is scored by its length like any other, but does not pass."""
        shortest = len(_shortest(row))
        length = len(completion.strip())
        allowed = shortest + self.tolerance if self.limit is None else self.limit
        reason = "" if length <= allowed else f"{length} characters, {allowed} are allowed"
        if not length:
            reason = "no answer"
        return Grade(not reason, max(WORST_SCORE, 0.0 - abs(length - shortest)), 0.0, reason)


def _characters(name: str, value: JSON, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_TOLERANCE:
        raise ConfigurationError(
            f"task.options.{name}: must be a whole number from {least} to {LARGEST_TOLERANCE}, "
            f"not {shorten(value)}"
        )
    return value


def _shortest(row: Row) -> str:
    answer = str_column(row, "answer").strip()
    if not answer:
        raise UnreadableReferenceError("column 'answer' is empty; it must hold the shortest right answer")
    return answer
