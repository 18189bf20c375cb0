"""Writes a job back as YAML with every default filled in, so that a run folder says what was run.

Only honoured fields are written: the others hold defaults that nothing reads.
"""

from functools import cache
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from dartes.spec.fields import ITEM, entry_paths
from dartes.spec.honoured import holds_honoured, is_honoured
from dartes.spec.job import DartESJob
from dartes.spec.source import Scheme, parse_source
from dartes.spec.yaml_text import write_yaml

JOB_FOLDER: Final = "dartes.dev/job-folder"
"""Annotation of a job in a run folder: where its file was, and what belongs to its reward still is."""

_LOCAL_SOURCES = (
    "spec.model.source",
    *(f"spec.dataset{part}.source" for part in ("", ".stages.[]", ".mix.[]")),
    *(f"spec.evaluation.{kind}.[].dataset.source" for kind in ("sets", "holdouts")),
)


def resolved_fields(job: DartESJob, base_dir: Path | None = None) -> dict[str, JsonValue]:
    """Return a job as camelCase data, defaults filled in, fields that are not set or empty left out.

    With `base_dir`, local paths are made absolute, so that the data means the same from any folder.
    """
    served = job.spec.es.model_copy(update={"served_dtype": job.spec.served_type})
    filled = job.model_copy(update={"spec": job.spec.model_copy(update={"es": served})})
    data: dict[str, JsonValue] = filled.model_dump(mode="json", by_alias=True, exclude_none=True)
    kept = _honoured_part(data, (), base_dir)
    assert isinstance(kept, dict)
    if base_dir is not None and _rewards_are_files(job):
        metadata = kept["metadata"]
        assert isinstance(metadata, dict)
        annotations = metadata.get("annotations")
        written = annotations if isinstance(annotations, dict) else {}
        metadata["annotations"] = {**written, JOB_FOLDER: str(base_dir.absolute())}
    return kept


def dump_job(job: DartESJob, base_dir: Path | None = None) -> str:
    """Return the resolved job as YAML text, which loads again as an equal job (see `resolved_fields`)."""
    return write_yaml(resolved_fields(job, base_dir))


def _rewards_are_files(job: DartESJob) -> bool:
    """Whether a task's reward may be looked for in the job file's folder: a function, or a model."""
    spec = job.spec
    tasks = [one.task for sets in spec.training_stages() for one in sets]
    tasks += [spec.task_of(one) for one in spec.evaluation.all_sets]
    return any(task.python is not None or "rewardModel" in task.options for task in tasks)


def _honoured_part(value: JsonValue, path: tuple[str, ...], base_dir: Path | None) -> JsonValue:
    if isinstance(value, list) and (*path, ITEM) in _places_of_items():
        return [_honoured_part(inner, (*path, ITEM), base_dir) for inner in value]
    if isinstance(value, dict) and (not path or path in _places_of_items() or _holds_fields(path)):
        parts = {
            name: _honoured_part(inner, (*path, name), base_dir)
            for name, inner in value.items()
            if is_honoured((*path, name)) or holds_honoured((*path, name))
        }
        # An empty list or map of a job is one that is not set. Inside Kubernetes' own types it is not.
        return {name: part for name, part in parts.items() if part not in ({}, [])}
    if base_dir is not None and ".".join(path) in _LOCAL_SOURCES and isinstance(value, str) and value:
        source = parse_source(value)
        if source.scheme is Scheme.FILE:
            return str(source.path(base_dir).absolute())
    return value


def _holds_fields(path: tuple[str, ...]) -> bool:
    return "properties" in entry_paths()[path].schema


@cache
def _places_of_items() -> frozenset[tuple[str, ...]]:
    """Return the paths of list items that hold fields of their own."""
    return frozenset(path[:-1] for path in entry_paths() if len(path) > 1 and path[-2] == ITEM)
