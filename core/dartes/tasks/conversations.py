"""Chats as rows hold them: a text, or a list of `{"role", "content"}` turns as `datasets` and TRL write them.

Turns columns into messages and says what is wrong with those that are none; it knows no chat template.
"""

from collections.abc import Mapping, Sequence

from dartes.tasks.base import JSON, Message, Prompt, Row, RowError, column, shorten
from dartes.tasks.templates import Template, build_prompt

ROLES = ("system", "developer", "user", "assistant", "tool")
"""Roles that a turn may have; `developer` is what some chat templates call the system message."""

INSTRUCTING = ("system", "developer")

CHAT_COLUMNS = ("prompt", "messages", "question")
"""Columns that may hold what is asked; the first that a row has is taken."""

MOST_TURNS = 256
MOST_CHARACTERS = 1024 * 1024
"""Of all turns of a chat together."""


def conversation_of(row: Row, name: str) -> tuple[Message, ...] | None:
    """The turns up to the one that the model is to write; None where the row has no column `name`.

    A text is one user turn. A trailing assistant turn is left out: it is the reference (`reference_turn`).

    Raises
    ------
    RowError
        The column holds neither a text nor a list of turns, a role is unknown, a content is not text, a
        system turn is not the first, nobody asks anything, or it is too long.
    """
    if row.get(name) is None:
        return None
    turns = _turns(row, name)
    asked = turns[:-1] if turns[-1].role == "assistant" else turns
    if not asked or asked[-1].role not in ("user", "tool"):
        raise RowError(f"column '{name}': a chat must end with a user turn, or one before the assistant's")
    return asked


def reference_turn(row: Row, names: Sequence[str] = ("messages", "prompt")) -> str | None:
    """The assistant's turn that ends a row's chat, else the row's `completion`; None where there is neither.

    Raises RowError as `conversation_of` does.
    """
    for name in names:
        if isinstance(row.get(name), list | tuple):
            last = _turns(row, name)[-1]
            if last.role == "assistant":
                return last.content
    completion = row.get("completion")
    if completion is None:
        return None
    return completion if isinstance(completion, str) else _turns(row, "completion")[-1].content


def chat_prompt(
    row: Row, template: Template | None, system: str | None, names: Sequence[str] = CHAT_COLUMNS
) -> Prompt:
    """What a chat task asks: the filled template where there is one, else the first of the columns `names`.

    The job's `system` message is put first, unless the row's chat starts with its own.

    Raises
    ------
    RowError
        The row has none of the columns (names those there are), or what it has is no chat.
    """
    if template is not None:
        return build_prompt(template, system, row, chat=True)
    for name in names:
        turns = conversation_of(row, name)
        if turns is not None:
            return with_system(turns, system)
    if any(name in row for name in names):
        raise RowError(f"columns {_listed(names)}: there is nothing in them")
    column(row, names[0])  # raises, and names the columns there are
    raise AssertionError("unreachable")


def with_system(turns: tuple[Message, ...], system: str | None) -> tuple[Message, ...]:
    """The turns with the job's system message before them, unless they have their own."""
    if not system or (turns and turns[0].role in INSTRUCTING):
        return turns
    return (Message("system", system), *turns)


def _turns(row: Row, name: str) -> tuple[Message, ...]:
    value = column(row, name)
    if isinstance(value, str):
        if len(value) > MOST_CHARACTERS:
            raise _too_long(name)
        return (Message("user", value),)
    if not isinstance(value, list | tuple):
        raise RowError(f"column '{name}' must hold text or a list of turns, not {shorten(value)}")
    if not 1 <= len(value) <= MOST_TURNS:
        raise RowError(f"column '{name}' has {len(value)} turns; allowed: 1 to {MOST_TURNS}")
    turns = tuple(_turn(turn, f"column '{name}', turn {number}") for number, turn in enumerate(value, 1))
    if sum(len(turn.content) for turn in turns) > MOST_CHARACTERS:
        raise _too_long(name)
    late = [number for number, turn in enumerate(turns[1:], 2) if turn.role in INSTRUCTING]
    if late:
        raise RowError(f"column '{name}', turn {late[0]}: a {turns[late[0] - 1].role} turn must be the first")
    return turns


def _turn(turn: JSON, where: str) -> Message:
    if not isinstance(turn, Mapping):
        raise RowError(f"{where}: must be an object with 'role' and 'content', not {shorten(turn)}")
    role, content = turn.get("role"), turn.get("content")
    if role not in ROLES:
        there = "" if "role" in turn else f" (its keys are: {_listed(sorted(turn)) or 'none'})"
        raise RowError(f"{where}: role is {shorten(role)}; allowed: {_listed(ROLES)}{there}")
    if not isinstance(content, str):
        raise RowError(
            f"{where}: content must be text, not {shorten(content)}; images and parts are not read"
        )
    return Message(str(role), content)


def _too_long(name: str) -> RowError:
    return RowError(f"column '{name}' has more than {MOST_CHARACTERS} characters")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
