"""What a task is: the rows it reads, the prompt it makes of a row, the grade it gives an answer.

Imported by the grader process, so it stays light: no NumPy, no pydantic, no dartes module but `errors`.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Protocol, Self, TypeAlias

from dartes.errors import ConfigurationError

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""Any value that JSON can hold."""

Row: TypeAlias = Mapping[str, JSON]
"""One problem: column name -> value."""


class RowError(ConfigurationError):
    """A problem that the task cannot use; the message names the column and those there are."""


class MissingColumnError(RowError):
    """A problem without a column that the task needs."""

    def __init__(self, name: str, row: "Row", *, elsewhere: bool = False) -> None:
        """`elsewhere`: other problems of the data set have it, so it is not there under another name."""
        there = ", ".join(sorted(row)) or "none"
        close = difflib.get_close_matches(name, row, 1)
        yours = close[0] if close else "YOUR_COLUMN"
        fix = f"name yours with dataset.columns, as columns: {{{name}: {yours}}}"
        if elsewhere:
            fix = "other problems have it: add it to this one, or remove this one"
        super().__init__(f"column '{name}' is missing (there are: {there}); {fix}")
        self.name = name


class UnreadableReferenceError(RowError):
    """A problem whose reference answer the grader itself cannot read; a few are tolerated, and never pass."""


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
        The primary score, any finite number; 1.0 or 0.0 for a task that knows only right and wrong.
    auxiliary
        The auxiliary score (format), 0..1; never weighted by difficulty.
    reason
        Why the answer did not pass, for people; empty when it did.
    answer
        What was taken as the answer, normalised so that equal answers are equal texts: majority votes count
        it. Empty where none was found, and for tasks whose answers cannot be compared.
    """

    passed: bool
    score: float
    auxiliary: float
    reason: str = ""
    answer: str = ""

    @classmethod
    def of(cls, reason: str, auxiliary: float = 0.0, *, answer: str = "") -> Self:
        """A verifiable task's grade: passed exactly when there is no reason against it."""
        return cls(not reason, 0.0 if reason else 1.0, auxiliary, reason, answer)


class SourceDescription(Protocol):
    """A file of Python that the user keeps: in a cluster a key of a ConfigMap, else a file beside the job."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def function(self) -> str: ...


class RewardDescription(Protocol):
    """Where the user's own reward function is: exactly one of an importable `module:function` and a file."""

    @property
    def function(self) -> str | None: ...
    @property
    def config_map(self) -> SourceDescription | None: ...


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A plain `SourceDescription`."""

    name: str
    key: str = "reward.py"
    function: str = "reward"


@dataclass(frozen=True, slots=True)
class RewardSource:
    """A plain `RewardDescription`."""

    function: str | None = None
    config_map: SourceFile | None = None

    @classmethod
    def of(cls, description: RewardDescription) -> Self:
        """Copy a description."""
        file = description.config_map
        return cls(
            description.function, None if file is None else SourceFile(file.name, file.key, file.function)
        )


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
    @property
    def pass_threshold(self) -> float | None: ...
    @property
    def python(self) -> RewardDescription | None: ...


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """A plain copy of a `TaskDescription` that can be sent to the grader process as JSON."""

    kind: str
    prompt: str | None = None
    system: str | None = None
    answer_format: str | None = None
    options: Mapping[str, JSON] = field(default_factory=dict)
    pass_threshold: float | None = None
    python: RewardSource | None = None

    @classmethod
    def of(cls, description: TaskDescription) -> Self:
        """Copy what a task reads, with enums turned into their words."""
        return cls(
            kind=str(description.kind),
            prompt=description.prompt,
            system=description.system,
            answer_format=None if description.answer_format is None else str(description.answer_format),
            options=dict(description.options),
            pass_threshold=description.pass_threshold,
            python=None if description.python is None else RewardSource.of(description.python),
        )


class Task(Protocol):
    """A kind of problem. Implementations are immutable; `grade` is pure and bounded for any string.

    A class may also have these attributes, read by `rules` and `dartes.rewards.opening`:
    `default_auxiliary_weight` (0.1), `has_score` (False; True where the score is more than right or wrong,
    and then the fitness unless the job says otherwise), `compares_with_parent` (False; True where, without a
    `passThreshold`, a pass is a score above the unperturbed model's on the same problem), `gives_auxiliary`
    (True; False where the auxiliary score is always 0), `grader` ("parser"), the entry point of group
    `dartes.graders` that grades its answers, and `prepare`, called once by a grader process before its first
    answer: imports, warm-up, and whatever the process must refuse from then on.
    """

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

    def reference(self, row: Row) -> str:
        """The right answer of a checked row as a person reads it; empty where there is none."""
        ...

    def grade(self, row: Row, completion: str) -> Grade:
        """Grade one answer to a checked row."""
        ...


_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")

TOLERATED_SHARE = 0.01
"""Share of a data set's problems whose reference answer the grader need not be able to read."""

_LISTED = 10
_LOOKED_AT = 10_000
"""Problems after a faulty one that are looked through for a column that it lacks."""


def check_rows(
    task: Task, rows: Iterable[Row], source: str, places: Sequence[str] | None = None
) -> list[str]:
    """Check every row; returns what to warn about.

    `places` says where each row stands in its source; without them rows are counted from 1.

    Raises
    ------
    RowError
        The first row that does not fit, with its place; or more than `TOLERATED_SHARE` of the reference
        answers cannot be read, with the places of the first ones.
    """

    def place(number: int) -> str:
        return f"problem {number}" if places is None else places[number - 1]

    unreadable: list[str] = []
    columns: set[str] = set()
    count = 0
    left = iter(rows)
    for count, row in enumerate(left, start=1):
        try:
            task.check_row(row)
        except UnreadableReferenceError as error:
            unreadable.append(f"{place(count)}: {error}" if len(unreadable) < _LISTED else "")
        except MissingColumnError as error:
            others = error.name in columns or any(error.name in other for other in islice(left, _LOOKED_AT))
            why = MissingColumnError(error.name, row, elsewhere=others)
            raise RowError(f"{source}: {place(count)}: {why}") from error
        except RowError as error:
            raise RowError(f"{source}: {place(count)}: {error}") from error
        columns.update(row)
    if not unreadable:
        return []
    listed = "; ".join(unreadable[:_LISTED])
    more = f"; and {len(unreadable) - _LISTED} more" if len(unreadable) > _LISTED else ""
    said = f"{source}: {len(unreadable)} of {count} reference answers cannot be read: {listed}{more}"
    if len(unreadable) > TOLERATED_SHARE * count:
        raise RowError(f"{said}. At most {TOLERATED_SHARE:.0%} may be so: correct or remove these problems")
    return [f"{said}. No answer to these problems passes"]


def column(row: Row, name: str) -> JSON:
    """The value of a column, or a `RowError` that says which columns there are."""
    try:
        return row[name]
    except KeyError:
        raise MissingColumnError(name, row) from None


def int_column(row: Row, name: str) -> int:
    """A column that must hold a whole number, also as text (all values of a CSV file are text); no bool."""
    value = column(row, name)
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
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


def refuse_pass_threshold(task: str, threshold: float | None) -> None:
    """Raise `ConfigurationError` where a task that knows only right and wrong is given a threshold."""
    if threshold is not None:
        raise ConfigurationError(
            f"task.passThreshold: task '{task}' knows only right and wrong, no scores; leave it out"
        )


def refuse_answer_format(task: str, answer_format: str | None) -> None:
    """Raise `ConfigurationError` where a task of one answer format is given another."""
    if answer_format is not None:
        raise ConfigurationError(f"task.answerFormat: task '{task}' has one answer format only; leave it out")
