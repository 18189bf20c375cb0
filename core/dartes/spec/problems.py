"""What is wrong with a job: one problem per field, and the error that carries all of them at once.

It holds words and paths only; finding the problems is for `load` and its neighbours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dartes.errors import ConfigurationError

MOST_SHOWN = 50
Location = tuple[str | int, ...]


@dataclass(frozen=True)
class FieldProblem:
    """One mistake: the field's path as job files spell it, the value as shown, why and how to mend it.

    `line` counts from 1 and is 0 where the problem has no line (no file, or a file that can't be read).
    """

    path: str
    value: str
    message: str
    line: int = 0

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class InvalidJobError(ConfigurationError):
    """A job that can't be used, with every problem that was found."""

    def __init__(self, problems: Sequence[FieldProblem], source_name: str) -> None:
        self.problems = tuple(problems)
        self.source_name = source_name
        shown = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        if len(self.problems) > MOST_SHOWN:
            shown.append(f"and {len(self.problems) - MOST_SHOWN} more problems")
        if len(shown) == 1:
            super().__init__(f"{source_name}: {shown[0]}")
        else:
            listed = "".join(f"\n  {line}" for line in shown)
            super().__init__(f"{source_name}: {len(self.problems)} problems{listed}")


def path_text(location: Location) -> str:
    """Return a location as `spec.evaluation.sets[0].name`; keys that are no plain names are shown quoted."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier() and part.isascii() and len(part) <= 63:
            text += f".{part}" if text else part
        else:
            text += f"[{show(part)}]"
    return text


def show(value: object) -> str:
    """Return a value as a message shows it: YAML's words for true, false and null, cut to 60 characters."""
    if value is None:
        text = "null"
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, Mapping):
        text = f"a map of {len(value)} entries" if len(value) != 1 else "a map of 1 entry"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        text = f"a list of {len(value)} items" if len(value) != 1 else "a list of 1 item"
    elif isinstance(value, str):
        text = ascii(value[:80]) if not value[:80].isprintable() else repr(value[:80])
    else:
        text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
