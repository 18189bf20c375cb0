"""The outer form of an answer: a list, a set, a tuple or interval, a matrix, a union, or one expression.

Taking answers apart here keeps what is handed to computer algebra small, and lists out of its reach.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dartes.tasks.math_latex import number, squeezed
from dartes.tasks.math_words import MULTIPLIERS

DEPTH_LIMIT = 8
PARTS_LIMIT = 64

UNORDERED = frozenset({"list", "union"})


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that belong together.

    Attributes
    ----------
    kind
        "list" (sets too), "union", "matrix", "row", or a pair of brackets such as "[)".
    """

    kind: str
    parts: tuple["Node", ...]


Node: TypeAlias = str | Group
"""A group, or one expression without spaces."""

_MATRIX = re.compile(r"\\begin\{([pbBvV]?matrix|array)\}(?:\{[clr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_ASSIGNED = re.compile(
    r"(?:[A-Za-z](?:_\{[0-9A-Za-z]{1,8}\})?(?:\([A-Za-z,]{1,8}\))?'{0,2}|\([A-Za-z,]{1,16}\))(?:=|\\in ?)"
)
# What a figure's parts are called: they are given a value, and never multiplied out.
_NAMED = re.compile(
    r"(?:m?\\angle ?[A-Z]{1,3}|\\overline ?\{[A-Z]{2}\}|\|?[A-Z]{2,3}\|?"
    r"|\\text\{(?P<words>[A-Za-z ]{2,40})\})="
)
_REALS = "\\mathbb{R}"
_NAMES_IN_ORDER = ("xyz", "abcd")
_OPENING, _CLOSING = "([{", ")]}"
_BRACKETS = frozenset({"()", "[]", "(]", "[)", "{}"})
_BETWEEN = re.compile(r"([^<>=]+?)(<|\\leq ?)[A-Za-z](<|\\leq ?)([^<>=]+)")
_ONE_SIDED = re.compile(r"[A-Za-z](<|>|\\leq ?|\\geq ?)([^<>=]+)")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)


def structure(text: str, depth: int = 0) -> Node:
    """The outer form of a normalised text; beyond the limits it is one expression."""
    bare = squeezed(text.strip())
    if depth >= DEPTH_LIMIT or number(bare) is not None:
        return bare
    parts = _split(bare, {","})
    if parts is None or len(parts) > PARTS_LIMIT:
        return bare
    if len(parts) > 1:
        return _list(parts, depth)
    for separator, kind in (("\\cup", "union"), (";", "list")):
        several = _split(bare, {separator})
        if several is not None and 1 < len(several) <= PARTS_LIMIT:
            return _joined(kind, tuple(structure(part, depth + 1) for part in several))
    if both := _plus_minus(bare):
        return _list(list(both), depth)
    if match := _MATRIX.fullmatch(bare):
        return _matrix(match[1], match[2], depth) or bare
    return _bracketed(bare, depth)


def _joined(kind: str, parts: tuple[Node, ...]) -> Group:
    """A union, or where all its parts are finite sets, their elements, each once."""
    if kind == "list" or not all(isinstance(part, Group) and part.kind == "list" for part in parts):
        return Group(kind, parts)
    elements = [element for part in parts if isinstance(part, Group) for element in part.parts]
    return Group("list", tuple(dict.fromkeys(elements)))


def _list(parts: list[str], depth: int) -> Group:
    nodes: list[Node] = []
    for part in parts:
        node = structure(part, depth + 1)
        two = isinstance(node, Group) and node.kind == "list" and _plus_minus(part)
        nodes += node.parts if isinstance(node, Group) and two else (node,)
    return Group("list", tuple(nodes))


def _bracketed(text: str, depth: int) -> Node:
    """Look into brackets around the whole: braces hold a set; round ones around one thing say nothing."""
    if text.startswith("\\{") and text.endswith("\\}") and _closes_at_end(text[1:-2] + "}"):
        # A set given by a condition is one expression; a set of one element is that element.
        described = not text[2:-2] or "\\mid" in text or "|" in text
        return text if described else structure(text[2:-2], depth + 1)
    if text[:1] not in _OPENING or text[-1:] not in _CLOSING or not text or not _closes_at_end(text):
        return text
    inside = text[1:-1]
    parts = _split(inside, {",", ";"})
    kind = text[0] + text[-1]
    if parts is None or not inside or len(parts) > PARTS_LIMIT or kind not in _BRACKETS:
        return text
    if len(parts) == 1:
        return structure(inside, depth + 1) if kind in {"()", "{}"} else text
    if kind == "{}":
        return _list(parts, depth)
    return Group(kind, tuple(structure(part, depth + 1) for part in parts))


def _closes_at_end(text: str) -> bool:
    """Whether the bracket that the text begins with closes at its very end, and no other is left open."""
    depth = 0
    changes = [change for _, change in _depths(text)]
    for change in changes[:-1]:
        depth += change
        if depth <= 0:
            return False
    return depth + changes[-1] == 0


def _depths(text: str) -> Iterator[tuple[str, int]]:
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in {"\\{", "\\begin"} or (len(token) == 1 and token in _OPENING):
            yield token, 1
        elif token in {"\\}", "\\end"} or (len(token) == 1 and token in _CLOSING):
            yield token, -1
        else:
            yield token, 0


def _split(text: str, separators: set[str]) -> list[str] | None:
    """The text cut at the separators outside all brackets; None where brackets do not match up."""
    parts = [""]
    depth = 0
    pieces: list[str] = []
    for token, change in _depths(text):
        depth += change
        if depth < 0:
            return None
        if depth == 0 and token in separators:
            parts[-1] = "".join(pieces)
            parts.append("")
            pieces = []
        else:
            pieces.append(token)
    parts[-1] = "".join(pieces)
    return None if depth else parts


def _plus_minus(text: str) -> tuple[str, str] | None:
    """The two values of an expression with one plus-minus sign outside all brackets."""
    parts = _split(text, {"\\pm"})
    if parts is None or len(parts) != 2 or not parts[1] or "\\pm" in parts[1]:
        return None
    before, behind = parts[0], parts[1].strip()
    head, equals, rest = before.rpartition("=")
    lead = head + equals
    return f"{lead}{rest}+{behind}" if rest else lead + behind, f"{lead}{rest}-{behind}"


def _matrix(name: str, inside: str, depth: int) -> Group | None:
    rows = _split(inside, {"\\cr"})
    if name in {"vmatrix", "Vmatrix"} or rows is None:
        return None
    while rows and not rows[-1].strip():
        rows.pop()
    cells = [_split(row, {"&"}) for row in rows]
    if not rows or any(row is None or len(row) != len(cells[0] or ()) for row in cells):
        return None
    made = tuple(
        Group("row", tuple(structure(cell, depth + 2) for cell in row)) for row in cells if row is not None
    )
    return Group("matrix", made) if sum(len(row.parts) for row in made) <= PARTS_LIMIT else None


def assigned(text: str) -> tuple[str, str]:
    """What a text gives a value to, and the value: `x=5` is ("x", "5"), `5` is ("", "5")."""
    bare = squeezed(text.strip())
    match = _ASSIGNED.match(bare) or _named(bare)
    if match is None or "=" in bare[match.end() :]:
        return "", bare
    return match[0].rstrip("= ").removesuffix("\\in"), bare[match.end() :]


def _named(text: str) -> re.Match[str] | None:
    match = _NAMED.match(text)
    words = set((match["words"] or "").lower().split()) if match else set()
    return None if words & MULTIPLIERS else match


def in_order(node: Node, names: str = "") -> Node:
    """A list that gives letters their values, each once and in order, as a tuple of these; else the node.

    The letters are x, y, z or a, b, c, d, or those of `names`, such as `(m,n)`.
    """
    if not isinstance(node, Group) or node.kind != "list":
        return node
    pairs = [assigned(part) if isinstance(part, str) else ("", "") for part in node.parts]
    found = "".join(name for name, _ in pairs)
    orders = (names.strip("()").replace(",", ""),) if names else _NAMES_IN_ORDER
    if len(found) != len(pairs) or len(pairs) < 2 or not any(order.startswith(found) for order in orders):
        return node
    return Group("()", tuple(structure(value, DEPTH_LIMIT) for _, value in pairs))


def same(one: Node, other: Node, same_expression: Callable[[str, str], bool]) -> bool:
    """Whether two forms agree part by part; lists, sets and unions in any order, all else in its own."""
    if isinstance(one, str) and isinstance(other, str):
        return same_expression(one, other)
    first = as_interval(one) if isinstance(one, str) else one
    second = as_interval(other) if isinstance(other, str) else other
    if first is None or second is None or len(first.parts) != len(second.parts):
        return False
    if first.kind != second.kind and not {first.kind, second.kind} <= UNORDERED:
        return False
    if first.kind not in UNORDERED:
        return all(same(a, b, same_expression) for a, b in zip(first.parts, second.parts, strict=True))
    left = list(second.parts)
    for part in first.parts:
        found = next((n for n, candidate in enumerate(left) if candidate == part), None)
        if found is None:
            found = next((n for n, it in enumerate(left) if same(part, it, same_expression)), None)
        if found is None:
            return False
        del left[found]
    return True


def as_interval(text: str) -> Group | None:
    """The interval that an inequality in one letter describes; None for any other expression."""
    if text == _REALS:
        return Group("()", ("-\\infty", "\\infty"))
    if match := _BETWEEN.fullmatch(text):
        low, first, second, high = match.groups()
        opening, closing = "[" if "leq" in first else "(", "]" if "leq" in second else ")"
        return Group(opening + closing, (structure(low, DEPTH_LIMIT), structure(high, DEPTH_LIMIT)))
    match = _ONE_SIDED.fullmatch(text)
    if match is None:
        return None
    bound = structure(match[2], DEPTH_LIMIT)
    if "<" in match[1] or "leq" in match[1]:
        return Group("(]" if "leq" in match[1] else "()", ("-\\infty", bound))
    return Group("[)" if "geq" in match[1] else "()", (bound, "\\infty"))


def written(node: Node) -> str:
    """One text for a form, the same for lists and sets in any order."""
    if isinstance(node, str):
        node = assigned(node)[1]
        value = number(node)
        return node if value is None else f"{value.value}{'%' if value.percent else ''}"
    parts = [written(part) for part in node.parts]
    return f"{node.kind}({';'.join(sorted(parts) if node.kind in UNORDERED else parts)})"
