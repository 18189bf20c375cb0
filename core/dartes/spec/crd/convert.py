"""Turns the job model's JSON schema into a structural one, with rules and with defaults that nest.

What pydantic says by reference, by `anyOf` with null, by whole default objects and by `propertyNames` is said
here as CRDs want it. An empty text, list or map stands for "not set" and is never a default.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from dartes.spec.base import CORE_TYPE_KEY, SOURCE_KEY
from dartes.spec.crd.core_types import CORE_TYPES
from dartes.spec.crd.rules import BETWEEN_FIELDS, ITERATION, SOURCE, names_of
from dartes.spec.crd.structural import PRESERVE_KEY, Node, Rule, with_rules
from dartes.spec.fields import job_schema

Schema = Mapping[str, Any]

_KEPT = ("minimum", "maximum", "minLength", "maxLength", "pattern", "maxItems", "minItems", "maxProperties")
_LARGEST_INT32 = 2**31 - 1
_LARGEST_INT64 = 2**63 - 1


def spec_node() -> Node:
    """Return the structural schema of `spec`."""
    return _node(job_schema()["properties"]["spec"])


def _node(schema: Schema) -> Node:
    model, merged = _resolved(schema)
    if CORE_TYPE_KEY in merged:
        return _core(merged)
    if merged.get("x-kubernetes-int-or-string"):
        return _int_or_string(merged)
    node: Node = {}
    if "description" in merged:
        node["description"] = merged["description"]
    kind = merged.get("type")
    assert isinstance(kind, str), f"a field without a type: {merged}"
    node["type"] = kind
    if kind == "object":
        node |= _object(merged)
    elif kind == "array":
        node["items"] = _node(merged["items"])
    elif kind == "integer":
        bound = merged.get("maximum", _LARGEST_INT32 + 1)
        node["format"] = "int32" if bound <= _LARGEST_INT32 else "int64"
    elif kind == "number":
        node["format"] = "double"
    if "enum" in merged:
        node["enum"] = merged["enum"]
    node |= _bounds(merged)
    _set_default(node, merged)
    return with_rules(node, _rules(model, merged))


def _resolved(schema: Schema) -> tuple[str, Schema]:
    """Follow references and drop null; the field's own words win. Returns the model's name beside it."""
    own = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return name, {**job_schema()["$defs"][name], **own}
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:
        model, inner = _resolved(choices[0])
        return model, {**inner, **own}
    return "", schema


def _object(schema: Schema) -> Node:
    if "properties" in schema:
        node: Node = {"properties": {name: _node(inner) for name, inner in schema["properties"].items()}}
        if schema.get("required"):
            node["required"] = sorted(schema["required"])
        return node
    return {"additionalProperties": _node(schema["additionalProperties"])}


def _core(schema: Schema) -> Node:
    core = CORE_TYPES[schema[CORE_TYPE_KEY]]
    words: Node = {"description": schema["description"]}
    if schema["type"] == "array":
        return {**words, "type": "array", "items": core, "maxItems": schema["maxItems"]}
    return {**words, **core}


def _int_or_string(schema: Schema) -> Node:
    node: Node = {}
    if "description" in schema:
        node["description"] = schema["description"]
    node["x-kubernetes-int-or-string"] = True
    texts = any(choice.get("type") == "string" for choice in schema["anyOf"])
    if texts:
        # Bounds of a number bind numbers only and those of a text texts only, so they can stand side by side.
        for choice in schema["anyOf"]:
            node |= {key: choice[key] for key in _KEPT if key in choice}
    _set_default(node, schema)
    return with_rules(node, () if texts else (ITERATION,))


def _bounds(schema: Schema) -> Node:
    bounds: Node = {key: schema[key] for key in _KEPT if key in schema}
    if bounds.get("maximum") == _LARGEST_INT64:
        # What int64 can hold is the bound then; as a floating-point number it would be one too many.
        del bounds["maximum"]
    for name in ("minimum", "maximum"):
        exclusive = f"exclusive{name.capitalize()}"
        if exclusive in schema:
            bounds |= {name: schema[exclusive], exclusive: True}
    return bounds


def _set_default(node: Node, schema: Schema) -> None:
    properties = node.get("properties")
    if isinstance(properties, dict):
        # An empty object, which the API server then fills in field by field. One without defaults inside is
        # made too where it holds the field without a schema: then its fields can be told apart.
        if schema.get("default") is not None and any(
            _asks_for_parent(inner) for inner in properties.values()
        ):
            node["default"] = {}
    elif schema.get("default") not in (None, "", [], {}):
        node["default"] = schema["default"]


def _asks_for_parent(node: JsonValue) -> bool:
    return isinstance(node, dict) and ("default" in node or PRESERVE_KEY in node)


def _rules(model: str, schema: Schema) -> tuple[Rule, ...]:
    rules = BETWEEN_FIELDS.get(model, ())
    if schema.get(SOURCE_KEY):
        rules = (*rules, SOURCE)
    names = schema.get("propertyNames")
    if isinstance(names, Mapping) and "properties" not in schema:
        rules = (*rules, names_of(int(names.get("minLength", 0)), int(names["maxLength"])))
    return rules
