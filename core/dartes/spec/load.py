"""Loads a job, from a file or as an API server's object: a checked job or every problem at once comes out.

It reads one file at most, and the list of installed tasks. Whether the model and the data set exist is for
those who open them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from dartes.spec.base import RULE_ERROR
from dartes.spec.checks import errors_for, warnings_for
from dartes.spec.dump import JOB_FOLDER
from dartes.spec.job import DartESJob
from dartes.spec.messages import (
    KEY_MARK,
    explain,
    involved_locations,
    location_of,
    refusals,
    without_echoes,
)
from dartes.spec.problems import FieldProblem, InvalidJobError, Location, path_text, show
from dartes.spec.supported import cluster_fields, unsupported
from dartes.spec.yaml_text import YamlDocument, YamlTextError, read_yaml

MOST_BYTES = 1024 * 1024
# Each round uncovers problems that the ones before it hid; rules depend on one another less deeply than this.
_ROUNDS = 4
_MOST_LISTED = 12
_SHARES: tuple[Location, ...] = (("spec", "es", "batchSize"), ("spec", "dataset"))
"""What decides how many problems of a batch each data set has."""


@dataclass(frozen=True)
class LoadedJob:
    """A valid job, what to warn about, and the folder that its relative paths start from."""

    job: DartESJob
    warnings: tuple[str, ...]
    base_dir: Path


def load_job(path: Path | str) -> LoadedJob:
    """Read and check a job file; raises InvalidJobError with all problems."""
    path = Path(path)
    return parse_job_text(_read(path), str(path), path.parent)


def parse_job_text(text: str, source_name: str, base_dir: Path) -> LoadedJob:
    """Check a job given as text; `source_name` begins an error's message, `base_dir` is where paths start."""
    try:
        document = read_yaml(text)
    except YamlTextError as problem:
        raise _file_error(str(problem), source_name, problem.line) from None
    if not isinstance(document.value, dict):
        raise _file_error(
            f"a job is a map that begins with apiVersion: dartes.dev/v1alpha1, not {show(document.value)}",
            source_name,
            document.line_of(()),
        )
    job = _checked(document.value, document, source_name)
    folder = job.metadata.annotations.get(JOB_FOLDER)
    return LoadedJob(
        job,
        (*warnings_for(job.spec), *_ignored_here(document.value)),
        base_dir if folder is None else Path(folder),
    )


def job_from_object(found: Mapping[str, Any]) -> LoadedJob:
    """Check a job as the API server gives it, by the same rules and in the same words as a job file.

    Status and all metadata but name and namespace are set aside. Relative paths start at `/`, for no file is
    opened by whoever asks. A kind of task that is not installed here may be in an image of the job's own.

    Raises
    ------
    InvalidJobError
        All problems at once.
    """
    metadata = found.get("metadata", {})
    kept = {name: metadata[name] for name in ("name", "namespace") if name in metadata}
    value: dict[str, JsonValue] = {
        **{name: found[name] for name in ("apiVersion", "kind", "spec") if name in found},
        "metadata": kept,
    }
    spec = value.get("spec")
    own_images = isinstance(spec, Mapping) and any(
        isinstance(role := spec.get(name), Mapping) and role.get("image")
        for name in ("coordinator", "workers")
    )
    job = _checked(
        value,
        YamlDocument(value, {}, ()),
        f"DartESJob {kept.get('namespace', '')}/{kept.get('name', '')}",
        any_kind=own_images,
    )
    return LoadedJob(job, tuple(warnings_for(job.spec)), Path("/"))


def _checked(
    value: dict[str, JsonValue], document: YamlDocument, source_name: str, *, any_kind: bool = False
) -> DartESJob:
    refused = tuple(unsupported(value, any_kind=any_kind))
    job, found = _validate(value, {location for location, _ in refused})
    for location, message in refused:
        # How to use a field rightly is no help where it can't be used at all.
        found.forget(location)
        found.add(location, message)
    for location, line, first in document.duplicates:
        found.add(location, f"given twice, first in line {first}; keep one of them", line)
    if job is not None and not any(_touches(place, found.removed) for place in _SHARES):
        for problem in errors_for(job.spec):
            found.add(location_of(problem.path), problem.message)
    if job is None or found.messages:
        raise InvalidJobError(_problems(found, document), source_name)
    return job


def _ignored_here(value: JsonValue) -> Iterator[str]:
    """Name, in one line, the fields that only a cluster acts on."""
    paths = list(cluster_fields(value))
    if paths:
        listed = ", ".join(paths[:_MOST_LISTED])
        more = len(paths) - _MOST_LISTED
        yield f"ignored outside a cluster: {listed}" + (f" and {more} more" if more > 0 else "")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise _file_error(f"can't be read: {error.strerror}", str(path)) from None
    if len(raw) > MOST_BYTES:
        raise _file_error(
            f"larger than {MOST_BYTES} bytes (1 MiB); a job file holds settings, no data", str(path)
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _file_error(
            f"byte {error.start} is not UTF-8; save the file as UTF-8", str(path), line
        ) from None


def _file_error(message: str, source_name: str, line: int = 0) -> InvalidJobError:
    return InvalidJobError([FieldProblem("", "", message, line)], source_name)


@dataclass
class _Found:
    """Problems by location, without saying the same thing twice."""

    messages: dict[tuple[Location, str], int] = field(default_factory=dict)
    removed: set[Location] = field(default_factory=set)
    unsupported: set[Location] = field(default_factory=set)

    def add(self, location: Location, message: str, line: int = 0) -> None:
        self.messages.setdefault((location, message), line)

    def forget(self, location: Location) -> None:
        for key in [key for key in self.messages if key[0] == location]:
            del self.messages[key]


def _validate(data: dict[str, JsonValue], unsupported_at: set[Location]) -> tuple[DartESJob | None, _Found]:
    """Validate, set wrong fields aside, and validate again, so that rules between fields are checked too."""
    found = _Found(unsupported=unsupported_at)
    remaining: dict[str, JsonValue] = data
    for _ in range(_ROUNDS):
        try:
            return DartESJob.model_validate(remaining, by_alias=True, by_name=False), found
        except ValidationError as error:
            details = error.errors(include_url=False)
        before = len(found.removed)
        for detail in without_echoes(details):
            _note(detail, found)
        if len(found.removed) == before:
            break
        remaining = {key: _without(value, (key,), found.removed) for key, value in data.items()}
        remaining = {key: value for key, value in remaining.items() if (key,) not in found.removed}
    return None, found


def _note(detail: ErrorDetails, found: _Found) -> None:
    location = detail["loc"]
    if detail["type"] == RULE_ERROR:
        for where, refusal in refusals(detail):
            set_aside = found.removed | found.unsupported
            if not any(_touches(other, set_aside) for other in involved_locations(detail, refusal)):
                found.add(where, refusal.message)
    elif detail["type"] == "missing":
        if not _touches(location, found.removed):
            found.add(location, explain(detail))
    else:
        if location and location[-1] == KEY_MARK:
            location = location[:-1]
        found.add(location, explain(detail))
        # A list with a wrong item is set aside whole, so that positions stay what they are.
        positions = [at for at, part in enumerate(location) if isinstance(part, int)]
        found.removed.add(location[: positions[0]] if positions else location)


def _touches(location: Location, removed: set[Location]) -> bool:
    return any(location[: len(other)] == other or other[: len(location)] == location for other in removed)


def _without(value: JsonValue, location: Location, removed: set[Location]) -> JsonValue:
    if isinstance(value, dict):
        return {
            key: _without(inner, (*location, key), removed)
            for key, inner in value.items()
            if (*location, key) not in removed
        }
    return value


def _problems(found: _Found, document: YamlDocument) -> Sequence[FieldProblem]:
    problems = []
    for (location, message), line in found.messages.items():
        value = _value_at(document.value, location)
        shown = "not set" if value is None else show(value)
        line = line or document.line_of(location)
        problems.append(FieldProblem(path_text(location), shown, message, line))
    return sorted(problems, key=lambda problem: (problem.line, problem.path))


def _value_at(value: JsonValue, location: Location) -> JsonValue:
    for part in location:
        if isinstance(value, Mapping) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value
