"""Refuses, by name, each field and value that the model has and this version doesn't honour.

A field that is accepted and then ignored would be a lie. It knows names only (the table is in `honoured`) and
which tasks are installed, never what honouring a field means.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoints, entry_points

from pydantic import JsonValue

from dartes.spec.fields import is_default, is_known, pattern_path, schema_at
from dartes.spec.honoured import (
    HONOURED_SCHEMES,
    SELECTIONS,
    TASKS,
    holds_fields_for_a_cluster,
    holds_honoured,
    is_for_a_cluster,
    is_honoured,
)
from dartes.spec.problems import Location, path_text, show
from dartes.spec.source import Scheme, Source, parse_source
from dartes.spec.suggest import meant

TASK_GROUP = "dartes.tasks"
TASK_KINDS = tuple(f"{place}.kind" for place in TASKS)
MODEL_SOURCE = "spec.model.source"
DATASET_SOURCES = tuple(f"{place}.source" for place in SELECTIONS)
_HUB_DATASETS = "datasets/"


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
    elif isinstance(value, list) and holds_fields_for_a_cluster(path):
        for position, inner in enumerate(value):
            yield from _cluster_fields(inner, (*location, position))


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
    if isinstance(value, str) and value and (path in HONOURED_SCHEMES or path in DATASET_SOURCES):
        try:
            source = parse_source(value)
        except ValueError:
            return  # The model has already said that it is not spelt as a source.
        yield from ((location, message) for message in _source_problems(value, source, path))
    if path in TASK_KINDS and isinstance(value, str):
        yield from ((location, message) for message in kind_problems(value))


def _source_problems(text: str, source: Source, path: str) -> Iterator[str]:
    schemes = HONOURED_SCHEMES.get(path, tuple(Scheme))
    if source.scheme not in schemes:
        places = [f"{scheme.value}://" for scheme in schemes]
        places += ["a local path"] if Scheme.FILE in schemes else []
        *first, last = places
        listed = f"{', '.join(first)} or {last}" if first else last
        yield f"{show(text)} is not supported yet by this version; allowed: {listed}"
    elif source.scheme is Scheme.HUB:
        names_data = source.rest.startswith(_HUB_DATASETS)
        if path in DATASET_SOURCES and not names_data:
            yield f"{show(text)} names a model on the hub; a data set is written hf://datasets/{source.rest}"
        elif path == MODEL_SOURCE and names_data:
            yield f"{show(text)} names a data set on the hub; a model is written hf://org/name"


def known_kinds() -> tuple[str, ...]:
    """Return the names of all installed tasks, sorted."""
    return _known_kinds(entry_points)


@cache
def _known_kinds(find: Callable[..., EntryPoints]) -> tuple[str, ...]:
    # Python reads the metadata of every installed package each time that it is asked.
    return tuple(sorted({entry.name for entry in find(group=TASK_GROUP)}))


def kind_problems(kind: str) -> Iterator[str]:
    """Yield what is wrong with a task's kind: that none of this name is installed."""
    known = known_kinds()
    if kind and kind not in known:
        yield (
            f"no task of the name {show(kind)} is installed; allowed: {', '.join(known)}{meant(kind, known)}"
        )
