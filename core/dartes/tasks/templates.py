"""Prompt templates: `{column}` is replaced by a row's value, everything else stays as written.

No format specification, attribute or index can be reached from a template. A brace that does not enclose
exactly a name is plain text, so LaTeX and JSON need no escaping; `{{name}}` gives the text `{name}`.
"""

import json
import re
from dataclasses import dataclass

from dartes.tasks.base import JSON, Message, Prompt, Row, column

_PLACEHOLDER = re.compile(r"\{\{(?P<literal>[A-Za-z_][A-Za-z0-9_]*)\}\}|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A text with placeholders; each is filled once, and what is filled in is never read as a template."""

    text: str

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the template needs."""
        return frozenset(match["name"] for match in _PLACEHOLDER.finditer(self.text) if match["name"])

    def check(self, row: Row) -> None:
        """Raise `RowError` for a column that the row does not have."""
        for name in sorted(self.columns):
            column(row, name)

    def fill(self, row: Row) -> str:
        """The text for one row."""

        def replace(match: re.Match[str]) -> str:
            if match["literal"]:
                return "{" + match["literal"] + "}"
            return _as_text(column(row, match["name"]))

        return _PLACEHOLDER.sub(replace, self.text)


def build_prompt(template: Template, system: str | None, row: Row, *, chat: bool) -> Prompt:
    """A chat (with a system message where there is one) or a raw completion prompt."""
    text = template.fill(row)
    if not chat:
        return text
    user = Message("user", text)
    return (Message("system", system), user) if system else (user,)


def _as_text(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
