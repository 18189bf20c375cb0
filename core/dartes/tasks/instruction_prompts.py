"""Prompts of tasks whose answers are scored, not compared: a chat, a text, or a template over any columns.

It knows rows and messages; nothing of what scores the answers.
"""

from dataclasses import dataclass
from typing import Self

from dartes.errors import ConfigurationError
from dartes.tasks.base import Message, Prompt, Row, RowError, TaskDescription, shorten
from dartes.tasks.conversations import CHAT_COLUMNS, chat_prompt, reference_turn
from dartes.tasks.templates import Template, build_prompt

PROMPTS_OPTION = "prompts"

REFERENCE_COLUMNS = ("answer", "reference", "chosen")
"""Columns whose text is shown as the reference where a row's chat does not end with an answer."""


@dataclass(frozen=True, slots=True)
class PromptSource:
    """Where a task's prompts come from: `task.prompt`, or the first chat column that a row has.

    Attributes
    ----------
    template
        The job's `task.prompt`; None = the row's own prompt.
    system
        The job's `task.system`; put first unless a row brings its own.
    raw_text
        Whether text alone is a raw completion prompt, not a chat's user turn. A `system` makes it a chat.
    """

    template: Template | None = None
    system: str | None = None
    raw_text: bool = False

    @classmethod
    def of(cls, spec: TaskDescription, *, raw_text: bool) -> Self:
        """The source that a job's task section describes; `raw_text` is what holds without option `prompts`.

        Raises `ConfigurationError` for a value that the option does not have.
        """
        template = None if spec.prompt is None else Template(spec.prompt)
        wanted = spec.options.get(PROMPTS_OPTION)
        if wanted is None:
            return cls(template, spec.system, raw_text and spec.system is None)
        if wanted not in ("chat", "raw"):
            raise ConfigurationError(
                f"task.options.{PROMPTS_OPTION} = {shorten(wanted)}: must be chat (texts are a user's turn, "
                "put into the model's chat template) or raw (the model continues the text as it stands)"
            )
        if wanted == "raw" and spec.system is not None:
            raise ConfigurationError(
                f"task.options.{PROMPTS_OPTION} = 'raw': task.system makes every prompt a chat; leave one out"
            )
        return cls(template, spec.system, wanted == "raw")

    def prompt(self, row: Row) -> Prompt:
        """The prompt of a row; raises `RowError` where it has none."""
        if not self.raw_text:
            return chat_prompt(row, self.template, self.system)
        if self.template is not None:
            return build_prompt(self.template, None, row, chat=False)
        for name in CHAT_COLUMNS:
            value = row.get(name)
            if isinstance(value, str):
                if not value:
                    raise RowError(f"column '{name}': the prompt is empty")
                return value
            if value is not None:
                return chat_prompt(row, None, None, (name,))
        return chat_prompt(row, None, None)  # raises, and names the columns there are

    def reference(self, row: Row) -> str:
        """What a person may compare an answer with; empty where the row has nothing of the kind."""
        turn = reference_turn(row)
        if turn is not None:
            return turn
        for name in REFERENCE_COLUMNS:
            if row.get(name) is not None:
                value = row[name]
                return value if isinstance(value, str) else shorten(value)
        return ""


def messages_of(prompt: Prompt) -> tuple[Message, ...]:
    """A prompt as turns of a chat; a text is one user turn."""
    return (Message("user", prompt),) if isinstance(prompt, str) else prompt
