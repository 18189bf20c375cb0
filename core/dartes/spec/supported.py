"""Refuses, by name, each field and value that the model has and this version doesn't honour.

A field that is accepted and then ignored would be a lie. It knows names only (the table is in `honoured`) and
which tasks are installed, never what honouring a field means.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points

from pydantic import JsonValue

from dartes.spec.fields import is_default, is_known, pattern_path, schema_at
from dartes.spec.honoured import (
    HONOURED_SCHEMES,
    HONOURED_VALUES,
    holds_fields_for_a_cluster,
    holds_honoured,
    is_for_a_cluster,
    is_honoured,
)
from dartes.spec.problems import Location, path_text, show
from dartes.spec.source import Scheme, parse_source
from dartes.spec.suggest import meant
from dartes.spec.task import PYTHON_KIND

TASK_GROUP = "dartes.tasks"
TASK_KINDS = ("spec.task.kind", "spec.evaluation.sets.[].task.kind")
PLANNED_KINDS = ("math", "boolq", "code", "instruction", PYTHON_KIND)
"""Kinds that are part of the design and not offered yet, unless the user has installed one of that name."""


def unsupported(data: JsonValue, *, any_kind: bool = False) -> Iterator[tuple[Location, str]]:
    """Yield each field or value in a job's data that the model has and this version doesn't honour.

    A default that is written out changes nothing, and so is never among them. With `any_kind`, tasks that
    are not installed here are let through, for those who run elsewhere to judge.
    """
    for location, message in _walk(data, ()):
        if not (any_kind and ".".join(pattern_path(location)) in TASK_KINDS):
            yield location, message


def cluster_fields(data: JsonValue) -> Iterator[str]:
    """Yield the path of each field in a job file's data that is set, and that a cluster alone honours."""
    yield from _cluster_fields(data, ())


def _cluster_fields(value: JsonValue, location: Location) -> Iterator[str]:
    path = pattern_path(location)
    if location and is_for_a_cluster(path):
        if not is_default(schema_at(location), value):
            yield path_text(location)
    elif isinstance(value, Mapping) and (not location or holds_fields_for_a_cluster(path)):
        for key, inner in value.items():
            yield from _cluster_fields(inner, (*location, key))


def _walk(value: JsonValue, location: Location) -> Iterator[tuple[Location, str]]:
    path = pattern_path(location)
    if location and is_honoured(path):
        yield from _value_problems(value, location, ".".join(path))
    elif location and not holds_honoured(path):
        if not is_default(schema_at(location), value):
            yield location, "not supported yet by this version; remove it"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if inner is not None and is_known((*location, key)):
                yield from _walk(inner, (*location, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _walk(inner, (*location, position))


def _value_problems(value: JsonValue, location: Location, path: str) -> Iterator[tuple[Location, str]]:
    allowed = HONOURED_VALUES.get(path)
    if allowed is not None and value not in allowed and _is_a_choice(value, location):
        words = " or ".join(str(choice) for choice in allowed)
        yield location, f"{show(value)} is not supported yet by this version; allowed: {words}"
    schemes = HONOURED_SCHEMES.get(path)
    if schemes is not None and isinstance(value, str) and value:
        try:
            source = parse_source(value)
        except ValueError:
            return  # The model has already said that it is not spelt as a source.
        if source.scheme not in schemes:
            places = [f"{scheme.value}://" for scheme in schemes]
            places += ["a local path"] if Scheme.FILE in schemes else []
            *first, last = places
            listed = f"{', '.join(first)} or {last}" if first else last
            yield location, f"{show(value)} is not supported yet by this version; allowed: {listed}"
    if path in TASK_KINDS and isinstance(value, str):
        yield from ((location, message) for message in kind_problems(value))


def _is_a_choice(value: JsonValue, location: Location) -> bool:
    """True where a value has the right type, so that the model itself has nothing to say about it."""
    choices = schema_at(location).get("enum")
    if choices is not None:
        return value in choices
    return isinstance(value, int | float) and not isinstance(value, bool)


def known_kinds() -> tuple[str, ...]:
    """Return the names of all installed tasks, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=TASK_GROUP)}))


def kind_problems(kind: str) -> Iterator[str]:
    """Yield what is wrong with a task's kind: planned and not there yet, or unknown."""
    known = known_kinds()
    if kind in known or not kind:
        return
    listed = ", ".join(known)
    if kind in PLANNED_KINDS:
        yield f"{show(kind)} is not supported yet by this version; allowed: {listed}"
    else:
        hint = meant(kind, known)
        yield f"no task of the name {show(kind)} is installed; allowed: {listed}{hint}"
