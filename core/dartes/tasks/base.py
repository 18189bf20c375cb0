"""What a task is: the rows it reads, the prompt it makes of a row, the grade it gives an answer.

Imported by the grader process, so it stays light: no NumPy, no pydantic, no dartes module but `errors`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self, TypeAlias

from dartes.errors import ConfigurationError

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""Any value that JSON can hold."""

Row: TypeAlias = Mapping[str, JSON]
"""One problem: column name -> value."""


class RowError(ConfigurationError):
    """A problem that the task cannot use; the message names the column and those there are."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat; `role` is what the model's chat template calls it (system, user)."""

    role: str
    content: str


Prompt: TypeAlias = str | tuple[Message, ...]
"""A string is a raw completion prompt; messages go through the model's chat template."""


@dataclass(frozen=True, slots=True)
class Grade:
    """What an answer earned.

    Attributes
    ----------
    passed
        Whether the problem counts as solved: pass rates and history use nothing else.
    score
        The primary score; equal to `passed` for every verifiable task.
    auxiliary
        The auxiliary score (format), 0..1; never weighted by difficulty.
    reason
        Why the answer did not pass, for people; empty when it did.
    """

    passed: bool
    score: float
    auxiliary: float
    reason: str = ""

    @classmethod
    def of(cls, reason: str, auxiliary: float = 0.0) -> Self:
        """A verifiable task's grade: passed exactly when there is no reason against it."""
        return cls(passed=not reason, score=0.0 if reason else 1.0, auxiliary=auxiliary, reason=reason)


class TaskDescription(Protocol):
    """What a task reads of a job's `task` section; `dartes.spec`'s model and `TaskSettings` both fit."""

    @property
    def kind(self) -> str: ...
    @property
    def prompt(self) -> str | None: ...
    @property
    def system(self) -> str | None: ...
    @property
    def answer_format(self) -> str | None: ...
    @property
    def options(self) -> Mapping[str, JSON]: ...


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """A plain copy of a `TaskDescription` that can be sent to the grader process as JSON."""

    kind: str
    prompt: str | None = None
    system: str | None = None
    answer_format: str | None = None
    options: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def of(cls, description: TaskDescription) -> Self:
        """Copy what a task reads, with enums turned into their words."""
        return cls(
            kind=str(description.kind),
            prompt=description.prompt,
            system=description.system,
            answer_format=None if description.answer_format is None else str(description.answer_format),
            options=dict(description.options),
        )


class Task(Protocol):
    """A kind of problem. Implementations are immutable; `grade` is pure and bounded for any string."""

    name: ClassVar[str]

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """Build the task of a job; raises `ConfigurationError` for settings that it does not have."""
        ...

    def check_row(self, row: Row) -> None:
        """Raise `RowError` where `prompt` or `grade` could not use this row."""
        ...

    def prompt(self, row: Row) -> Prompt:
        """The prompt of a checked row."""
        ...

    def grade(self, row: Row, completion: str) -> Grade:
        """Grade one answer to a checked row."""
        ...


def check_rows(task: Task, rows: Iterable[Row], source: str) -> None:
    """Check every row, counted from 1; the first that does not fit raises `RowError` with its number."""
    for number, row in enumerate(rows, start=1):
        try:
            task.check_row(row)
        except RowError as error:
            raise RowError(f"{source}: problem {number}: {error}") from error


def column(row: Row, name: str) -> JSON:
    """The value of a column, or a `RowError` that says which columns there are."""
    try:
        return row[name]
    except KeyError:
        there = ", ".join(sorted(row)) or "none"
        raise RowError(
            f"column '{name}' is missing (there are: {there}); name it with dataset.columns, "
            f"for example columns: {{{name}: {min(row, default='other')}}}"
        ) from None


def int_column(row: Row, name: str) -> int:
    """A column that must hold a whole number; a bool is not one."""
    value = column(row, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise RowError(f"column '{name}' must hold a whole number, not {shorten(value)}")
    return value


def str_column(row: Row, name: str) -> str:
    """A column that must hold text."""
    value = column(row, name)
    if not isinstance(value, str):
        raise RowError(f"column '{name}' must hold text, not {shorten(value)}")
    return value


def shorten(value: object, limit: int = 60) -> str:
    """A value as a person may read it in an error, cut to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def refuse_unknown_options(task: str, options: Mapping[str, JSON], allowed: Iterable[str]) -> None:
    """Raise `ConfigurationError` for the options that a task does not have."""
    known = sorted(allowed)
    for option in sorted(options):
        if option not in known:
            there = ", ".join(known) or "none"
            raise ConfigurationError(
                f"task.options.{option}: task '{task}' has no such option (it has: {there})"
            )


def refuse_answer_format(task: str, answer_format: str | None) -> None:
    """Raise `ConfigurationError` where a task of one answer format is given another."""
    if answer_format is not None:
        raise ConfigurationError(f"task.answerFormat: task '{task}' has one answer format only; leave it out")
