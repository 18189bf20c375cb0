"""IFEval: an answer passes when it follows every instruction of its problem (`ifeval_rules`).

Strict reads the answer as it is; loose tries it without its first line, its last line and its asterisks too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from dartes.errors import ConfigurationError
from dartes.tasks.base import (
    Grade,
    Prompt,
    Row,
    RowError,
    TaskDescription,
    column,
    refuse_answer_format,
    refuse_pass_threshold,
    refuse_unknown_options,
    shorten,
    str_column,
)
from dartes.tasks.blocks import THINK_CLOSE
from dartes.tasks.ifeval_libraries import libraries
from dartes.tasks.ifeval_rules import Check, check_of
from dartes.tasks.templates import Template, build_prompt

LISTED = 5
"""Instructions that a reason names."""


class Accept(StrEnum):
    """What counts as following an instruction (`task.options.accept`)."""

    STRICT = "Strict"
    LOOSE = "Loose"


@dataclass(frozen=True, slots=True)
class IfevalTask:
    """Rows hold `prompt`, `instruction_id_list` and `kwargs` (one mapping per instruction)."""

    template: Template
    system: str | None = None
    accept: Accept = Accept.STRICT

    name: ClassVar[str] = "ifeval"

    @classmethod
    def from_spec(cls, spec: TaskDescription) -> Self:
        """See `Task.from_spec`; the prompt is a chat. Loads the libraries, before any answer is timed."""
        refuse_pass_threshold(cls.name, spec.pass_threshold)
        refuse_answer_format(cls.name, spec.answer_format)
        refuse_unknown_options(cls.name, spec.options, ("accept",))
        word = spec.options.get("accept", Accept.STRICT)
        try:
            accept = Accept(str(word))
        except ValueError:
            raise ConfigurationError(
                f"task.options.accept: must be Strict or Loose, not {shorten(word)}"
            ) from None
        libraries()
        return cls(Template(spec.prompt or "{prompt}"), spec.system, accept)

    def check_row(self, row: Row) -> None:
        """See `Task.check_row`."""
        str_column(row, "prompt")
        self.template.check(row)
        _checks(row)

    def prompt(self, row: Row) -> Prompt:
        """See `Task.prompt`."""
        return build_prompt(self.template, self.system, row, chat=True)

    def reference(self, row: Row) -> str:
        """See `Task.reference`: any answer that follows the instructions is right; it names them."""
        return ", ".join(name for name, _ in _checks(row))

    def grade(self, row: Row, completion: str) -> Grade:
        """See `Task.grade`; the auxiliary score is the share of the instructions that were followed."""
        answer = completion.rpartition(THINK_CLOSE)[2].strip()
        checks = _checks(row)
        if not answer:
            return Grade.of("no answer")
        readings = [answer] if self.accept is Accept.STRICT else loose_readings(answer)
        ignored = [name for name, check in checks if not _any_follows(check, readings)]
        share = 1.0 - len(ignored) / len(checks)
        if not ignored:
            return Grade.of("", share)
        more = f" and {len(ignored) - LISTED} more" if len(ignored) > LISTED else ""
        return Grade.of(f"does not follow {', '.join(ignored[:LISTED])}{more}", share)


def loose_readings(answer: str) -> list[str]:
    """The benchmark's eight readings: with and without first line, last line and asterisks; none twice."""
    lines = answer.split("\n")
    parts = [answer, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return list(dict.fromkeys(reading for part in parts for reading in (part, part.replace("*", ""))))


def _any_follows(check: Check, readings: list[str]) -> bool:
    return any(reading.strip() and check(reading) for reading in readings)


def _checks(row: Row) -> list[tuple[str, Callable[[str], bool]]]:
    names, arguments = column(row, "instruction_id_list"), column(row, "kwargs")
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise RowError(f"column 'instruction_id_list' must be a list of names, not {shorten(names)}")
    if not isinstance(arguments, list | tuple) or len(arguments) != len(names):
        raise RowError(
            f"column 'kwargs' must be a list with one mapping for each of the {len(names)} instructions, "
            f"not {shorten(arguments)}"
        )
    checks = []
    for name, given in zip(names, arguments, strict=True):
        if given is not None and not isinstance(given, Mapping):
            raise RowError(f"column 'kwargs' must hold mappings, not {shorten(given)}")
        checks.append((str(name), check_of(str(name), given or {})))
    return checks
