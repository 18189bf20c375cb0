"""Reads YAML 1.2 text into plain values with line numbers, within bounds; writes such values back.

It knows YAML and nothing of jobs. The text may come from a stranger: depth and size are bounded after aliases
are expanded, and nothing but maps, lists and the scalars of the core schema can come out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from pydantic import JsonValue
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.representer import SafeRepresenter

MOST_NODES = 20_000
MOST_DEPTH = 64

Path = tuple[str | int, ...]

_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_OCTAL = re.compile(r"0o[0-7]{1,40}")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")


class YamlTextError(ValueError):
    """Text that is not one bounded YAML document; `line` counts from 1, 0 where there is none."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message if len(message) <= 300 else message[:299] + "…")
        self.line = line


@dataclass(frozen=True)
class YamlDocument:
    """A document's value, the line of each path in it, and the keys given twice (path, line, first line)."""

    value: JsonValue
    lines: Mapping[Path, int]
    duplicates: tuple[tuple[Path, int, int], ...]

    def line_of(self, path: Path) -> int:
        """Return the line of a path, or of the nearest enclosing path that was written."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)


@dataclass
class _Node:
    line: int
    value: Any = None
    items: list[tuple[int, "_Node"]] | None = None
    entries: dict[str, tuple[int, "_Node"]] | None = None
    duplicates: list[tuple[str, int, int]] = field(default_factory=list)
    size: int = 1
    height: int = 0
    complete: bool = True


def core_scalar(text: str) -> JsonValue:
    """Return what a plain (unquoted) scalar means in YAML 1.2's core schema."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    infinite = _INFINITE.fullmatch(text)
    if infinite:
        return float(infinite[1] + "inf")
    if text in (".nan", ".NaN", ".NAN"):
        return float("nan")
    return text


def read_yaml(text: str) -> YamlDocument:
    """Parse one YAML document; raises YamlTextError with a line number where there is one."""
    try:
        root = _Composer(YAML(typ="safe", pure=True).parse(text)).document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlTextError(f"not valid YAML: {words}", mark.line + 1 if mark else 0) from None
    except YAMLError as error:
        raise YamlTextError(
            f"not valid YAML: {str(error).splitlines()[0]}", _line_of_bad_character(text)
        ) from None
    lines: dict[Path, int] = {}
    duplicates: list[tuple[Path, int, int]] = []
    value = _plain(root, (), lines, duplicates)
    return YamlDocument(value, lines, tuple(duplicates))


def write_yaml(value: Mapping[str, JsonValue], *, dense: bool = False) -> str:
    """Return a map as YAML text, in the order given; `read_yaml` reads the same value back.

    `dense` puts a map or list that holds plain values only on one line, however long.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = None if dense else False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # annotated as None
    yaml.width = 10_000 if dense else 110
    stream = StringIO()
    yaml.dump(value, stream)
    return stream.getvalue()


class _Representer(SafeRepresenter):
    """Quotes a text that the core schema would read as something else; keeps the lines of a long one.

    What is held in several places is written out in each: not every reader knows aliases.
    """

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # the name is the library's
        return True

    def represent_str(self, data: str) -> Any:
        style = None
        if not isinstance(core_scalar(data), str) or not data.replace("\n", "").isprintable():
            style = '"'
        elif "\n" in data:
            style = "|"
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.represent_str)


def _line_of_bad_character(text: str) -> int:
    for number, line in enumerate(text.split("\n"), 1):
        if any(ord(character) < 32 and character not in "\t\r" for character in line):
            return number
    return 0


def _plain(
    node: _Node, path: Path, lines: dict[Path, int], duplicates: list[tuple[Path, int, int]]
) -> JsonValue:
    # Depth is bounded by MOST_DEPTH and the number of calls by MOST_NODES: both hold after expansion.
    lines.setdefault(path, node.line)
    if node.entries is not None:
        duplicates.extend(((*path, key), line, first) for key, line, first in node.duplicates)
        plain: dict[str, JsonValue] = {}
        for key, (line, child) in node.entries.items():
            lines[(*path, key)] = line
            plain[key] = _plain(child, (*path, key), lines, duplicates)
        return plain
    if node.items is not None:
        for at, (line, _) in enumerate(node.items):
            lines[(*path, at)] = line
        return [_plain(child, (*path, at), lines, duplicates) for at, (_, child) in enumerate(node.items)]
    value: JsonValue = node.value
    return value


class _Composer:
    """Builds nodes from parser events; recursion is as deep as the document, so at most MOST_DEPTH."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events: Iterator[Any] = events
        self._anchors: dict[str, _Node] = {}
        self._count = 0

    def document(self) -> _Node:
        root: _Node | None = None
        documents = 0
        for event in self._events:
            line = event.start_mark.line + 1
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise YamlTextError("a second document begins here; keep one job per file", line)
            elif isinstance(event, AliasEvent | ScalarEvent | SequenceStartEvent | MappingStartEvent):
                root = self._node(event, 0)
        if root is None:
            raise YamlTextError("the file is empty")
        return root

    def _node(self, event: Any, depth: int) -> _Node:
        line = event.start_mark.line + 1
        if depth > MOST_DEPTH:
            raise YamlTextError(f"nested deeper than {MOST_DEPTH} levels", line)
        if isinstance(event, AliasEvent):
            return self._alias(event, depth, line)
        self._grow(1, line)
        if event.tag is not None:
            raise YamlTextError(f"the tag {event.tag} is not used in job files; leave it out", line)
        node = _Node(line, complete=False)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if isinstance(event, ScalarEvent):
            node.value = core_scalar(event.value) if event.style is None else event.value
        elif isinstance(event, SequenceStartEvent):
            node.items = []
            while not isinstance(inner := next(self._events), SequenceEndEvent):
                self._adopt(node, child := self._node(inner, depth + 1))
                node.items.append((inner.start_mark.line + 1, child))
        else:
            node.entries = {}
            while not isinstance(inner := next(self._events), MappingEndEvent):
                self._entry(node, inner, depth)
        node.complete = True
        return node

    def _entry(self, node: _Node, key_event: Any, depth: int) -> None:
        line = key_event.start_mark.line + 1
        key_node = self._node(key_event, depth + 1)
        if not isinstance(key_event, ScalarEvent):
            raise YamlTextError("the name of a field must be a simple text", line)
        key = str(key_event.value)
        if key == "<<" and key_event.style is None:
            raise YamlTextError("merge keys (<<) are not part of YAML 1.2; write the fields out", line)
        self._adopt(node, key_node)
        self._adopt(node, child := self._node(next(self._events), depth + 1))
        assert node.entries is not None
        if key in node.entries:
            node.duplicates.append((key, line, node.entries[key][0]))
        else:
            node.entries[key] = (line, child)

    def _alias(self, event: Any, depth: int, line: int) -> _Node:
        target = self._anchors.get(event.anchor)
        if target is None:
            raise YamlTextError(f"the alias *{event.anchor} has no anchor before it", line)
        if not target.complete:
            raise YamlTextError(f"the alias *{event.anchor} contains itself", line)
        if depth + target.height > MOST_DEPTH:
            raise YamlTextError(
                f"nested deeper than {MOST_DEPTH} levels once *{event.anchor} is expanded", line
            )
        self._grow(target.size, line)
        return target

    def _adopt(self, parent: _Node, child: _Node) -> None:
        parent.size += child.size
        parent.height = max(parent.height, child.height + 1)

    def _grow(self, count: int, line: int) -> None:
        self._count += count
        if self._count > MOST_NODES:
            raise YamlTextError(f"more than {MOST_NODES} values once aliases are expanded", line)
