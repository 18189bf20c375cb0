"""Finds the blocks of a structured answer: think tags, answer tags, boxes. Linear in the answer's length."""

import re
from collections import deque

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"
BOX_OPEN = "\\boxed{"
_BARE_BOX = re.compile(
    r"\\boxed[ \t]{0,4}(-?[0-9]{1,64}(?:\.[0-9]{1,64})?)(?=[\s$*)!;]|[.,](?:\s|\Z)|\Z|\\[)\]])"
)
_BOX = re.compile(r"\\boxed[ \t]{0,4}\{")

FORMAT_EXACT = 1.0
FORMAT_THINK = 0.1
FORMAT_ANSWER = 0.5
"""Format scores: all in its place; else one for a closed think block plus one for an answer anywhere."""


def opened_tag(prompt_text: str) -> str:
    """The think tag that a prompt leaves open for the model to continue, or nothing."""
    return THINK_OPEN if prompt_text.rstrip().endswith(THINK_OPEN) else ""


def after_think_block(text: str) -> str | None:
    """What follows the first closed think block; None where no block closes."""
    start = text.find(THINK_OPEN)
    if start < 0:
        return None
    end = text.find(THINK_CLOSE, start + len(THINK_OPEN))
    return None if end < 0 else text[end + len(THINK_CLOSE) :]


def last_answer(text: str) -> str | None:
    """The inside of the last complete `<answer>` block."""
    end = text.rfind(ANSWER_CLOSE)
    if end < 0:
        return None
    start = text.rfind(ANSWER_OPEN, 0, end)
    if start < 0:
        return None
    inside = start + len(ANSWER_OPEN)
    return text[inside : text.find(ANSWER_CLOSE, inside)]


def last_box_or_number(text: str) -> str | None:
    """As `last_box`, but the last box may also be one number without braces, `\\boxed 5`."""
    bare = deque(_BARE_BOX.finditer(text), maxlen=1)
    if not bare or _BOX.search(text, bare[0].end()):
        return last_box(text)
    return bare[0][1]


def last_box(text: str) -> str | None:
    """The inside of the last `\\boxed{}`, with nested braces; None where it is missing or never closes."""
    openings = deque(_BOX.finditer(text), maxlen=1)
    if not openings:
        return None
    depth = 1
    inside = openings[0].end()
    for position in range(inside, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if depth == 0:
                return text[inside:position]
    return None


def is_think_then(text: str, opening: str, block: str) -> bool:
    """Whether the text is exactly one think block, a newline, and `block`, the only one with its opening."""
    if any(text.count(tag) != 1 for tag in (THINK_OPEN, THINK_CLOSE, opening)):
        return False
    return text.startswith(THINK_OPEN) and after_think_block(text) == "\n" + block
