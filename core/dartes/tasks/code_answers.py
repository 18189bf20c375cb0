"""Finds the program in an answer: one of its code blocks, or the continuation of a function's head.

Linear in the answer's length; runs and parses nothing.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

OPENED_FENCE = "```python"

_FENCE = re.compile(r"(?P<indent>\s*)(?P<marks>`{3,}|~{3,})(?P<info>.*)")
_PYTHON = re.compile(r"(?i)[{.]*(?:python|py)[\d.]*(?![\w+#-])")
_CODE_INDENT = 4
"""A fence indented this much more than the one that opened its block is a line in it, as in Markdown."""

_WRITES = re.compile(r"\b(?:print|write|writelines)\b")
_DEFINED = re.compile(r"(?m)^(?:async\s+def|def|class)\s+(\w+)")
_CALLED = re.compile(r"(?<![\w.])(\w+)\(")


@dataclass(slots=True)
class _Block:
    """A code block while it is read; `certain` where it is one even if it never closes."""

    indent: int
    marks: str
    info: str
    certain: bool
    lines: list[str] = field(default_factory=list)

    @property
    def python(self) -> bool:
        return not self.info or _PYTHON.match(self.info) is not None

    @property
    def source(self) -> str:
        """Its lines, without the indent of its fence."""
        return "\n".join(line[: self.indent].lstrip() + line[self.indent :] for line in self.lines)

    def ended_by(self, fence: re.Match[str]) -> bool:
        return not fence["info"].strip() and self._matched_by(fence)

    def given_up_for(self, fence: re.Match[str]) -> bool:
        """Whether a fence that names a language begins another block inside this one, which never closed."""
        named_python = self.python and bool(self.info)
        return bool(fence["info"].strip()) and (not named_python or self._matched_by(fence))

    def _matched_by(self, fence: re.Match[str]) -> bool:
        return fence["marks"].startswith(self.marks)

    def holds(self, fence: re.Match[str]) -> bool:
        """Whether a fence is so far to the right that it is a line of this block, say of a docstring."""
        return len(fence["indent"]) >= self.indent + _CODE_INDENT


def opened_fence(prompt_text: str) -> str:
    """The code block that a prompt leaves open for the model to continue, or nothing."""
    return OPENED_FENCE + "\n" if prompt_text.rstrip().endswith(OPENED_FENCE) else ""


def last_block(text: str, rank: Callable[[str], int] | None = None) -> str | None:
    """Of an answer's code blocks in Python the last of those that `rank` puts highest; None without any.

    A block is in Python where its fence says so or says nothing. One that never closes comes behind closed
    ones of the same rank, and counts only where it names its language or stands at the beginning: a bare
    fence behind other text ends what the prompt began.
    """
    closed, unclosed = _blocks(text)
    best: tuple[int, int] | None = None
    found: str | None = None
    for number, block in enumerate([*closed, *unclosed]):
        standing = (0 if rank is None else rank(block), number if number < len(closed) else -1)
        if best is None or standing > best:
            best, found = standing, block
    return found


def last_script(text: str) -> str | None:
    """The last code block that can be a whole program with output; else the last one; None without any.

    Not a whole program: one that prints nothing, as an output or a fragment, and one that calls what only an
    earlier block defines, as an example does.
    """
    defined: set[str] = set()

    def is_whole(block: str) -> int:
        own = set(_DEFINED.findall(block))
        borrowed = defined.intersection(_CALLED.findall(block)) - own
        defined.update(own)
        return int(not borrowed and _WRITES.search(block) is not None)

    return last_block(text, is_whole)


def continuation(text: str) -> str:
    """The body of a function whose head stands in the prompt: the lines up to the next one without indent."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if number and line[:1].strip():
            return "\n".join(lines[:number])
    return text


def begins_as_continuation(text: str) -> bool:
    """Whether an answer begins with an indented line, as the body of a function does."""
    first = text.lstrip().partition("\n")[0]
    before = text[: len(text) - len(text.lstrip())].rpartition("\n")[2]
    return before.startswith(("\t", "  ")) and _fence(first) is None


def defines(source: str, name: str) -> bool:
    """Whether some line at the left margin defines a function or class or binds the name."""
    named = re.escape(name)
    pattern = rf"(?m)^(?:(?:async\s+def|def|class)\s+{named}\b|{named}\s*(?:=(?!=)|:[^=\n]*=))"
    return re.search(pattern, source) is not None


def definitions(source: str, names: Iterable[str]) -> int:
    """How many of the names some code defines at the left margin."""
    return sum(defines(source, name) for name in names)


def _blocks(text: str) -> tuple[list[str], list[str]]:
    """The closed Python blocks in order, and the last one if it never closes but is certain to be a block."""
    closed: list[str] = []
    current: _Block | None = None
    blank = True
    for line in text.split("\n"):
        fence = _fence(line)
        if fence is not None and (current is None or not current.holds(fence)):
            if current is None or current.given_up_for(fence):
                info = fence["info"].strip()
                current = _Block(len(fence["indent"]), fence["marks"], info, bool(info) or blank)
                blank = False
                continue
            if current.ended_by(fence):
                if current.python:
                    closed.append(current.source)
                current = None
                continue
        if current is not None:
            current.lines.append(line)
        blank = blank and not line.strip()
    if current is not None and current.certain and current.python:
        return closed, [current.source]
    return closed, []


def _fence(line: str) -> re.Match[str] | None:
    """A line that opens or closes a block; code between backticks on one line does not."""
    fence = _FENCE.fullmatch(line.rstrip())
    return None if fence is None or (fence["marks"][0] == "`" and "`" in fence["info"]) else fence
