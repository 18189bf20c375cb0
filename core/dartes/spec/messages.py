"""Turns the errors of pydantic into problems in plain words: the value, what is allowed, and the fix.

It decides nothing about validity; the models did.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from dartes.spec.base import OBJECT_NAME, RULE_ERROR, Refusal
from dartes.spec.fields import allowed_words, element, key_bounds, pattern_path, schema_at
from dartes.spec.problems import Location, show
from dartes.spec.suggest import meant, unknown_field

# How pydantic marks an error in the name of a map's entry rather than in its value.
KEY_MARK = "[key]"

# What to do, where "allowed: ..." alone would leave a reader wondering.
ADVICE = {
    "spec.es.populationSize": "a population of one has no spread to learn from; the default is 30",
    "spec.es.sigma": "without noise all members are the same; the default is 0.001",
    "apiVersion": "write apiVersion: dartes.dev/v1alpha1",
    "kind": "write kind: DartESJob",
    "metadata": "write metadata: {name: my-job}",
    "spec.model.source": "for example hf://org/name, builtin://addition or a folder",
    "spec.dataset.source": "for example builtin://addition or problems.jsonl",
    "spec.task.kind": "for example addition",
}

_NOT_A = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a map",
    "model_type": "a map of fields",
    "model_attributes_type": "a map of fields",
    "int_or_string": "an integer or a text",
    "finite_number": "a finite number",
    "string_unicode": "valid Unicode text",
}
_NAME_WORDS = "allowed: lower-case letters, digits, '-' and '.', with a letter or a digit at both ends"
_BOUNDS = {
    "greater_than": "too small",
    "greater_than_equal": "too small",
    "less_than": "too large",
    "less_than_equal": "too large",
}


def explain(error: ErrorDetails) -> str:
    """Return the message for one pydantic error (not for a broken rule; see `refusals`)."""
    location, kind, value = error["loc"], error["type"], error.get("input")
    if kind == "extra_forbidden":
        return unknown_field(location)
    schema = schema_at(location)
    if location and location[-1] == KEY_MARK:
        low, high = key_bounds(location[:-2])
        return f"the name {show(value)} has {len(str(value))} characters; allowed: {low} to {high}"
    advice = ADVICE.get(".".join(pattern_path(location)), "")
    if kind == "missing":
        return _join("required, but not set", advice or _first_sentence(schema))
    if kind == "quantity":
        return f"{show(value)} is not a quantity; write for example 4, 500m or 20Gi"
    if kind in _NOT_A:
        return _join(f"{show(value)} is not {_NOT_A[kind]}", _allowed(schema), _type_fix(kind, value, schema))
    if kind in _BOUNDS:
        return _join(f"{show(value)} is {_BOUNDS[kind]}", _allowed(schema), advice)
    if kind in ("enum", "literal_error"):
        choices = [str(choice) for choice in schema.get("enum", [schema.get("const", "")])]
        return _join(f"{show(value)} is not one of the choices", _allowed(schema)) + meant(value, choices)
    if kind == "string_pattern_mismatch":
        allowed = _NAME_WORDS if schema.get("pattern") == OBJECT_NAME else _first_sentence(schema)
        return _join(f"{show(value)} is not spelt as it must be", allowed) + _slug_hint(value, schema)
    if kind in ("string_too_long", "string_too_short", "too_long", "too_short"):
        size = len(value) if isinstance(value, str | list | tuple | Mapping) else 0
        unit = "characters" if isinstance(value, str) else "entries"
        word = "long" if kind.endswith("long") else "short"
        return _join(f"{show(value)} is too {word} ({size} {unit})", _length_words(schema, unit))
    return f"{show(value)}: {error['msg']}"


def refusals(error: ErrorDetails) -> Iterator[tuple[Location, Refusal]]:
    """Yield each broken rule of an error with the location of the field that it names."""
    context: Mapping[str, Any] = error.get("ctx", {})
    if error["type"] == RULE_ERROR:
        for refusal in context["refusals"]:
            yield (*error["loc"], *location_of(refusal.field)), refusal


def involved_locations(error: ErrorDetails, refusal: Refusal) -> tuple[Location, ...]:
    """Return the locations of all fields that a rule looked at."""
    return tuple((*error["loc"], *location_of(name)) for name in (refusal.field, *refusal.involved))


def without_echoes(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out that a list is too short where some of its items are wrong: those were not counted."""
    wrong = {error["loc"][:-1] for error in errors if error["loc"] and isinstance(error["loc"][-1], int)}
    return [error for error in errors if error["type"] != "too_short" or error["loc"] not in wrong]


def location_of(field: str) -> Location:
    """Turn `sets[1].name` or `es.batch_size` into a location in the job file's spelling."""
    parts = re.findall(r"[A-Za-z_]+|\[\d+\]", field)
    return tuple(int(part[1:-1]) if part.startswith("[") else to_camel(part) for part in parts)


def _allowed(schema: Mapping[str, Any]) -> str:
    words = allowed_words(schema)
    return f"allowed: {words}" if words else ""


def _length_words(schema: Mapping[str, Any], unit: str) -> str:
    low = schema.get("minLength", schema.get("minItems", schema.get("minProperties")))
    high = schema.get("maxLength", schema.get("maxItems", schema.get("maxProperties")))
    if high is None:
        return f"allowed: at least {low} {unit}" if low is not None else ""
    return f"allowed: {low or 0} to {high} {unit}"


def _type_fix(kind: str, value: object, schema: Mapping[str, Any]) -> str:
    if isinstance(value, str) and kind in ("int_type", "float_type") and _is_number(value):
        return "remove the quotes"
    if isinstance(value, float) and kind == "int_type" and value.is_integer() and abs(value) < 1e18:
        return f"write {int(value)}"
    if isinstance(value, str) and kind == "bool_type":
        words = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
        meaning = words.get(value.strip().lower())
        return f"write {meaning} without quotes" if meaning else ""
    if kind in ("string_type", "int_or_string") and isinstance(value, bool | int | float):
        return "put it in quotes"
    if kind == "tuple_type" and isinstance(value, str | int | float) and "properties" not in element(schema):
        text = show(value)
        return f"write [{text}]" if len(text) < 40 else "put it in brackets"
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _slug_hint(value: object, schema: Mapping[str, Any]) -> str:
    pattern = schema.get("pattern")
    if not isinstance(value, str) or pattern is None:
        return ""
    slug = re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-")[: schema.get("maxLength", 40)].rstrip("-")
    return f"; for example {slug}" if re.fullmatch(pattern, slug) else ""


def _first_sentence(schema: Mapping[str, Any]) -> str:
    return str(schema.get("description", "")).rstrip(".")


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
