"""A structural schema as an API server applies it: defaults filled in, then checked; no rules in CEL.

It is here to compare schema and models without a server; the rules are tried on a real one.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

Node = dict[str, Any]


def defaulted(node: Node, value: Any) -> Any:
    """The value with nulls dropped and defaults filled in, from the top down."""
    if isinstance(value, dict) and "properties" in node:
        filled = {key: inner for key, inner in value.items() if inner is not None}
        for name, inner in node["properties"].items():
            if name not in filled and "default" in inner:
                filled[name] = deepcopy(inner["default"])
        return {key: defaulted(node["properties"].get(key, {}), inner) for key, inner in filled.items()}
    if isinstance(value, list) and "items" in node:
        return [defaulted(node["items"], inner) for inner in value]
    return value


def complaints(node: Node, value: Any, where: str = "") -> Iterator[str]:
    """What the schema has against a value; unknown fields too, as strict validation has it."""
    if node.get("x-kubernetes-int-or-string"):
        kind = "integer" if isinstance(value, int) else "string"
    else:
        kind = node["type"]
    if not _is_a(kind, value):
        yield f"{where}: {value!r} is not of type {kind}"
        return
    if "enum" in node and value not in node["enum"]:
        yield f"{where}: {value!r} is none of {node['enum']}"
    yield from (f"{where}: {words}" for words in _out_of_bounds(node, kind, value))
    if kind == "array":
        for position, inner in enumerate(value):
            yield from complaints(node["items"], inner, f"{where}[{position}]")
    if kind == "object":
        yield from (f"{where}: {name} is missing" for name in node.get("required", ()) if name not in value)
        for name, inner in value.items():
            here = f"{where}.{name}"
            if name in node.get("properties", {}):
                yield from complaints(node["properties"][name], inner, here)
            elif "additionalProperties" in node:
                yield from complaints(node["additionalProperties"], inner, here)
            elif not node.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{here}: unknown"


def nodes(node: Node, where: str = "") -> Iterator[tuple[str, Node]]:
    """Every node below (and this one) with its path, `[]` for items and `{}` for a map's values."""
    yield where, node
    for name, inner in node.get("properties", {}).items():
        yield from nodes(inner, f"{where}.{name}")
    if "items" in node:
        yield from nodes(node["items"], f"{where}[]")
    if "additionalProperties" in node:
        yield from nodes(node["additionalProperties"], f"{where}{{}}")


def _is_a(kind: str, value: Any) -> bool:
    types: dict[str, type | tuple[type, ...]] = {
        "integer": int,
        "number": (int, float),
        "string": str,
        "boolean": bool,
        "array": list,
        "object": dict,
    }
    return isinstance(value, types[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _out_of_bounds(node: Node, kind: str, value: Any) -> Iterator[str]:
    if kind in ("integer", "number"):
        largest = {"int32": 2**31 - 1, "int64": 2**63 - 1}.get(node.get("format", ""))
        if largest is not None and not -largest - 1 <= value <= largest:
            yield f"{value} does not fit {node['format']}"
        low, high = node.get("minimum"), node.get("maximum")
        if low is not None and (value < low or (value == low and node.get("exclusiveMinimum"))):
            yield f"{value} is too small"
        if high is not None and (value > high or (value == high and node.get("exclusiveMaximum"))):
            yield f"{value} is too large"
    for least, most in (("minLength", "maxLength"), ("minItems", "maxItems"), ("", "maxProperties")):
        if kind not in ("integer", "number", "boolean") and not (
            node.get(least, 0) <= len(value) <= node.get(most, len(value))
        ):
            yield f"a length of {len(value)}"
    if kind == "string" and "pattern" in node and not re.search(node["pattern"], value):
        yield f"{value!r} does not match {node['pattern']}"
