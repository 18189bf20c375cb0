"""Building blocks of a structural schema: nodes with a type and bounds, and rules in CEL.

They know the dialect that CRDs accept (OpenAPI v3.0 with a type on every node), and nothing of jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

Node = dict[str, JsonValue]

PRESERVE_KEY = "x-kubernetes-preserve-unknown-fields"
"""Marks the field without a schema."""

NAME = 253
"""Most characters of a Kubernetes name."""

KEY = 317
"""Most characters of a label's or annotation's key: prefix, slash and name."""


@dataclass(frozen=True)
class Rule:
    """A rule in CEL: what must be true, and what to write instead where it is not.

    `field` is the path of the field to name, relative to the node that holds the rule (`es.sigma`); empty for
    the node itself.
    """

    expression: str
    message: str
    field: str = ""

    def node(self) -> Node:
        """The rule as an entry of `x-kubernetes-validations`."""
        node: Node = {"rule": self.expression, "message": self.message}
        if self.field:
            node["fieldPath"] = f".{self.field}"
        return node


def with_rules(node: Node, rules: Sequence[Rule]) -> Node:
    """Return a node that has these rules beside its own."""
    if not rules:
        return node
    own = node.get("x-kubernetes-validations", [])
    assert isinstance(own, list)
    return {**node, "x-kubernetes-validations": [*own, *(rule.node() for rule in rules)]}


def text(most: int = NAME, *, least: int = 0, choices: Sequence[str] = ()) -> Node:
    """A text of bounded length, or one of some choices."""
    if choices:
        return {"type": "string", "enum": list(choices)}
    return {"type": "string", "maxLength": most, **({"minLength": least} if least else {})}


def integer(least: int | None = None, most: int | None = None, *, long: bool = False) -> Node:
    """A whole number; `long` asks for 64 bits."""
    node: Node = {"type": "integer", "format": "int64" if long else "int32"}
    if least is not None:
        node["minimum"] = least
    if most is not None:
        node["maximum"] = most
    return node


def boolean() -> Node:
    """True or false."""
    return {"type": "boolean"}


def moment() -> Node:
    """A time as RFC 3339 text."""
    return {"type": "string", "format": "date-time", "maxLength": 64}


def quantity() -> Node:
    """A Kubernetes quantity, or a number or name of a port: the one union of the dialect."""
    return {"x-kubernetes-int-or-string": True, "maxLength": 256}


def array(items: Node, most: int) -> Node:
    """A list of bounded length."""
    return {"type": "array", "maxItems": most, "items": items}


def texts(most: int, length: int = NAME) -> Node:
    """A list of texts."""
    return array(text(length), most)


def mapping(values: Node, most: int) -> Node:
    """A map from free names to nodes of one shape."""
    return {"type": "object", "maxProperties": most, "additionalProperties": values}


def fields(required: Sequence[str] = (), /, **properties: Node) -> Node:
    """An object of fixed fields; a trailing underscore keeps a field's name from being a Python keyword."""
    named: Mapping[str, Node] = {name.rstrip("_"): node for name, node in properties.items()}
    return {
        "type": "object",
        **({"required": list(required)} if required else {}),
        "properties": dict(named),
    }


def described(node: Node, words: str) -> Node:
    """Return a node with a description in front."""
    return {"description": words, **node}
