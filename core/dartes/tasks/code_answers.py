"""Finds the program in an answer: its last code block, or the continuation of a function's head.

Linear in the answer's length; runs and parses nothing.
"""

import re

FENCE = "```"
OPENED_FENCE = "```python"


def opened_fence(prompt_text: str) -> str:
    """The code block that a prompt leaves open for the model to continue, or nothing."""
    return OPENED_FENCE + "\n" if prompt_text.rstrip().endswith(OPENED_FENCE) else ""


def last_block(text: str) -> str | None:
    """The last closed code block; one that never closes counts where there is no other. None without any.

    A fence that names a language opens a block, also inside another. A bare one that is never closed, with
    text before it, ends what the prompt began, and is no block.
    """
    closed: str | None = None
    inside: list[str] | None = None
    begun = False  # whether the open block is certain to be one
    blank = True
    for line in text.split("\n"):
        word = line.strip()
        if word.startswith(FENCE) and (inside is None or word.strip("`")):
            inside, begun = [], bool(word.strip("`")) or blank
        elif word.startswith(FENCE) and inside is not None:
            closed, inside = "\n".join(inside), None
        elif inside is not None:
            inside.append(line)
        blank = blank and not word
    if closed is None and inside is not None and begun:
        return "\n".join(inside)
    return closed


def continuation(text: str) -> str:
    """The body of a function whose head stands in the prompt: the lines up to the next one without indent."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if number and line[:1].strip():
            return "\n".join(lines[:number])
    return text


def defines(source: str, name: str) -> bool:
    """Whether some line at the left margin defines a function or binds the name."""
    return (
        re.search(rf"(?m)^(?:async\s+)?(?:def\s+{re.escape(name)}\b|{re.escape(name)}\s*=)", source)
        is not None
    )
