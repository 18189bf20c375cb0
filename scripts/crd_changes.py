"""What a newer CustomResourceDefinition breaks of an older one: stored objects, files, commands in use.

Takes two definitions as data and gives one line for each break. It knows no files and no cluster, and errs on
the side of a break: a rule that was only worded anew is told as well, since nobody can prove it equal.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Node = Mapping[str, Any]

# A bound that may only move this way: -1 down, 1 up. Where it appears, it refuses what was allowed.
_BOUNDS: Final = {
    "minimum": -1,
    "minLength": -1,
    "minItems": -1,
    "minProperties": -1,
    "maximum": 1,
    "maxLength": 1,
    "maxItems": 1,
    "maxProperties": 1,
}
_WORDS: Final = {"description", "title", "example", "externalDocs"}
# What is looked at by a rule of its own below.
_OWN_RULE: Final = {
    *("properties", "items", "additionalProperties", "required", "enum", "default"),
    "x-kubernetes-validations",
}
# Lifting one of these lets more through.
_ONLY_REFUSES: Final = {
    "pattern",
    "format",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "uniqueItems",
}
_SEGMENT: Final = re.compile(r"\.([A-Za-z0-9_-]+)|\['([^']+)'\]")


def breaks(old: Node, new: Node) -> list[str]:
    """Return what of `old` no longer holds in `new`, one line each, in the order of the older definition."""
    return [*_names(old["spec"], new["spec"]), *_versions(old["spec"], new["spec"])]


def _names(old: Node, new: Node) -> Iterator[str]:
    for key in ("group", "scope"):
        if old.get(key) != new.get(key):
            yield f"{key} changed from {old.get(key)} to {new.get(key)}"
    for key in ("kind", "listKind", "plural", "singular"):
        if old["names"].get(key) != new["names"].get(key):
            yield f"names.{key} changed from {old['names'].get(key)} to {new['names'].get(key)}"
    for key in ("shortNames", "categories"):
        for gone in _missing(old["names"].get(key), new["names"].get(key)):
            yield f"names.{key}: {gone} is gone"


def _versions(old: Node, new: Node) -> Iterator[str]:
    present = {version["name"]: version for version in new["versions"]}
    for version in old["versions"]:
        name = version["name"]
        found = present.get(name)
        if found is None:
            yield f"version {name} is gone"
            continue
        if version["served"] and not found["served"]:
            yield f"version {name} is no longer served"
        if version["storage"] and not found["storage"]:
            yield f"version {name} no longer stores objects: those that are stored need a migration"
        yield from _columns(version, found)
        yield from _subresources(version.get("subresources") or {}, found.get("subresources") or {})
        schema = "openAPIV3Schema"
        yield from node_breaks(version["schema"][schema], found["schema"][schema])


def _columns(old: Node, new: Node) -> Iterator[str]:
    present = {column["name"]: column for column in new.get("additionalPrinterColumns") or ()}
    for column in old.get("additionalPrinterColumns") or ():
        found = present.get(column["name"])
        if found is None:
            yield f"column {column['name']} is gone"
        elif (column["jsonPath"], column["type"]) != (found["jsonPath"], found["type"]):
            yield f"column {column['name']} shows something else"
    for field in _missing(old.get("selectableFields"), new.get("selectableFields")):
        yield f"field selector {field['jsonPath']} is gone"


def _subresources(old: Node, new: Node) -> Iterator[str]:
    for name, settings in old.items():
        if name not in new:
            yield f"subresource {name} is gone"
        elif dict(settings) != dict(new[name]):
            yield f"subresource {name} changed from {dict(settings)} to {dict(new[name])}"


def node_breaks(old: Node, new: Node, path: str = "") -> Iterator[str]:
    """Yield the breaks of a schema's node and of all below it.

    Parameters
    ----------
    old, new
        The node as it was, and as it is.
    path
        Its place, such as `spec.es`; empty for the object as a whole.
    """
    where = path or "object"
    yield from _keywords(old, new, where)
    for value in _missing(old.get("enum"), new.get("enum")) if "enum" in new else ():
        yield f"{where}: {value!r} is no longer allowed"
    if "enum" in new and "enum" not in old:
        yield f"{where}: only {', '.join(map(str, new['enum']))} are allowed now"
    if "default" in old and "default" not in new:
        yield f"{where}: the default {old['default']!r} is gone"
    elif old.get("default") != new.get("default"):
        yield f"{where}: the default is {new['default']!r}, and was {old.get('default', 'none')!r}"
    yield from _required(old, new, where)
    yield from _rules(old, new, where)
    properties = new.get("properties") or {}
    for name, child in (old.get("properties") or {}).items():
        inner = f"{path}.{name}" if path else name
        if name in properties:
            yield from node_breaks(child, properties[name], inner)
        elif not new.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{inner} is gone: it is dropped without a word where an object has it"
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(old.get(key), Mapping):
            if isinstance(new.get(key), Mapping):
                yield from node_breaks(old[key], new[key], f"{path}{mark}")
            elif not new.get(key) and not new.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{where}: {key} is gone"


def _keywords(old: Node, new: Node, where: str) -> Iterator[str]:
    for key in sorted((old.keys() | new.keys()) - _WORDS - _OWN_RULE):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if key in _BOUNDS:
            looser = after is None or (before is not None and (after - before) * _BOUNDS[key] > 0)
            if not looser:
                yield f"{where}: {key} is {after}, and was {'not set' if before is None else before}"
        elif key in _ONLY_REFUSES:
            if after:
                yield f"{where}: {key} is {after!r}, and was {'not set' if before is None else repr(before)}"
        elif key in ("nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"):
            if before:
                yield f"{where}: {key} is gone"
        else:
            yield f"{where}: {key} is {after!r}, and was {before!r}"


def _required(old: Node, new: Node, where: str) -> Iterator[str]:
    properties = new.get("properties") or {}
    for name in _missing(new.get("required"), old.get("required")):
        # A default is filled in before an object is judged.
        if "default" not in properties.get(name, {}):
            yield f"{where}: {name} is required now"


def _rules(old: Node, new: Node, where: str) -> Iterator[str]:
    known = {rule["rule"] for rule in old.get("x-kubernetes-validations") or ()}
    for rule in new.get("x-kubernetes-validations") or ():
        if rule["rule"] not in known and _is_known(old, rule.get("fieldPath", "")):
            yield f"{where}: a new rule{_at(rule)} may refuse what was allowed: {rule['rule']}"


def _at(rule: Node) -> str:
    return f" on {rule['fieldPath'].lstrip('.')}" if rule.get("fieldPath") else ""


def _is_known(node: Node, field_path: str) -> bool:
    """Whether the older schema has the field of a rule; a rule on a new field refuses nothing old."""
    for plain, quoted in _SEGMENT.findall(field_path):
        found = (node.get("properties") or {}).get(plain or quoted)
        if found is None:
            return False
        node = found
    return True


def _missing(wanted: Any, present: Any) -> list[Any]:
    return [value for value in wanted or () if value not in (present or ())]
