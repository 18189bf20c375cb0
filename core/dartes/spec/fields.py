"""Looks fields up in the JSON schema of the job model: what is allowed there, and what else there is.

Messages, suggestions and the generated reference all read the models through this one view.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import JsonValue

from dartes.spec.base import MUTABILITY_KEY
from dartes.spec.job import DartESJob
from dartes.spec.problems import Location

Schema = Mapping[str, Any]
ITEM = "[]"


@dataclass(frozen=True)
class FieldEntry:
    """A field of the model: `path` with `[]` for list items, its schema, and when it may change."""

    path: tuple[str, ...]
    schema: Schema
    required: bool
    mutability: str

    @property
    def text(self) -> str:
        """The path as `spec.evaluation.sets[].name`."""
        return ".".join(self.path).replace(f".{ITEM}", ITEM)

    @property
    def name(self) -> str:
        """The field's own name."""
        return self.path[-1]

    @property
    def is_object(self) -> bool:
        """True where the field holds fields of its own (directly or as list items)."""
        return "properties" in self.schema or "properties" in element(self.schema)


@cache
def job_schema() -> Schema:
    """Return the JSON schema of `DartESJob`, as pydantic makes it."""
    schema: Schema = DartESJob.model_json_schema(by_alias=True)
    return schema


def resolve(schema: Schema) -> Schema:
    """Follow a reference and drop the null alternative of an optional field; the field's own words win."""
    own = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return resolve({**job_schema()["$defs"][name], **own})
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
        if len(choices) == 1:
            return resolve({**choices[0], **own})
    return schema


def element(schema: Schema) -> Schema:
    """Return the schema of a list's items, or of a map's values; empty where there is neither."""
    inner = schema.get("items") or schema.get("additionalProperties")
    return resolve(inner) if isinstance(inner, Mapping) else {}


def schema_at(location: Location) -> Schema:
    """Return the schema at a concrete location, empty where the model has nothing there."""
    schema = resolve(job_schema())
    for part in location:
        if isinstance(part, str) and part in schema.get("properties", {}):
            schema = resolve(schema["properties"][part])
        else:
            schema = element(schema)
    return schema


def is_default(schema: Schema, value: JsonValue) -> bool:
    """True where a value is what the field holds anyway when it is left out.

    An API server fills such values in; an empty list or map stands for one that is not set.
    """
    if value is None or (value in ([], {}) and schema.get("default") in (None, [], {})):
        return True
    if "properties" in schema and isinstance(value, Mapping):
        known = schema["properties"]
        return all(name in known and is_default(resolve(known[name]), inner) for name, inner in value.items())
    default = schema.get("default")
    return default is not None and value == default and isinstance(value, bool) == isinstance(default, bool)


def key_bounds(location: Location) -> tuple[int, int]:
    """Return the least and most characters that the names of a map's entries may have."""
    names = schema_at(location).get("propertyNames", {})
    return int(names.get("minLength", 0)), int(names.get("maxLength", 0))


def is_known(location: Location) -> bool:
    """True where the model has a field at this location."""
    return pattern_path(location) in entry_paths()


def pattern_path(location: Location) -> tuple[str, ...]:
    """Return a concrete location with `[]` in place of list positions."""
    return tuple(ITEM if isinstance(part, int) else part for part in location)


@cache
def entries() -> tuple[FieldEntry, ...]:
    """Return every field of the model, parents before children, in the order of the models."""
    return tuple(_walk(resolve(job_schema()), (), ""))


@cache
def entry_paths() -> Mapping[tuple[str, ...], FieldEntry]:
    """Return the fields by path."""
    return {entry.path: entry for entry in entries()}


def _walk(schema: Schema, path: tuple[str, ...], inherited: str) -> Iterator[FieldEntry]:
    required = schema.get("required", ())
    for name, raw in schema.get("properties", {}).items():
        inner = resolve(raw)
        mutability = str(inner.get(MUTABILITY_KEY, inherited))
        yield FieldEntry((*path, name), inner, name in required, mutability)
        if "properties" in inner:
            yield from _walk(inner, (*path, name), mutability)
        elif "properties" in element(inner):
            yield from _walk(element(inner), (*path, name, ITEM), mutability)


def allowed_words(schema: Schema) -> str:
    """Say in plain words what a field takes; empty where there is nothing to say."""
    if "enum" in schema:
        return " or ".join(str(choice) for choice in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        return " or ".join(_kind_words(resolve(choice)) for choice in schema["anyOf"])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return _range_words(schema) or _kind_words(schema)
    if kind == "string" and "maxLength" in schema:
        return f"a text of at most {schema['maxLength']} characters"
    if kind == "array":
        inner = _kind_words(element(schema), plural=True)
        return (
            f"a list of at most {schema['maxItems']} {inner}"
            if "maxItems" in schema
            else f"a list of {inner}"
        )
    if kind == "object" and "properties" not in schema and "maxProperties" in schema:
        return f"a map of at most {schema['maxProperties']} entries"
    return _kind_words(schema)


def _kind_words(schema: Schema, *, plural: bool = False) -> str:
    if "enum" in schema:
        return " or ".join(str(choice) for choice in schema["enum"])
    one, many = {
        "integer": ("an integer", "integers"),
        "number": ("a number", "numbers"),
        "string": ("a text", "texts"),
        "boolean": ("true or false", "truth values"),
        "array": ("a list", "lists"),
        "object": ("a map of fields", "maps of fields"),
    }.get(str(schema.get("type")), ("a value", "values"))
    return many if plural else one


def _range_words(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f"{_number(low)} to {_number(high)}"
    words = []
    for bound, word in ((low, "at least"), (above, "above"), (high, "at most"), (below, "below")):
        if bound is not None:
            words.append(f"{word} {_number(bound)}")
    return ", ".join(words)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
