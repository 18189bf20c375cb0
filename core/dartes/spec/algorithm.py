"""What of a job decides its result: the fields, their digest, and what may differ when a run is resumed.

Where the model, the data and a reward function are found is not part of it: whoever opens them compares their
digests.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from dartes.spec.base import SpecModel
from dartes.spec.evaluation import EvaluationSet
from dartes.spec.job import JobSpec
from dartes.spec.problems import show
from dartes.spec.source import Scheme, parse_source
from dartes.spec.task import TaskSpec
from dartes.tasks.rules import grading_rules

# Length may grow and slices only spread the work: neither decides what an iteration computes.
_NOT_DECIDING = ("es.iterations", "es.epochs", "es.slicesPerMember")
_DECIDING_PARTS = ("generation", "es", "dart")
_DECIDING_DATASET = ("config", "split", "maxProblems", "columns", "filters")
# Of stages and parts of a mix too.
_DECIDING_SHARE = ("iterations", "epochs", "weight")
# Reward functions and models are compared by their digests, wherever they are kept; what a service answers is
# its owner's business, under whatever address.
_PLACES_OF_TASK = ("python.configMap.name", "python.configMap.key")
_PLACES_OF_OPTIONS = ("rewardModel", "costModel", "rewardService", "costService")
_PLACEMENT = (
    ("workers.replicas", "the number of workers changes no answer on one kind of device"),
    ("es.slicesPerMember", "slices change no answer on one kind of device"),
    ("workers.engine", "another engine may give other answers, and so other rewards"),
    ("workers.gpusPerWorker", "another device may give other answers, and so other rewards"),
)


@dataclass(frozen=True)
class FieldDifference:
    """One field that differs: its path in the job file, and both values as JSON (None where not set)."""

    path: str
    old: JsonValue
    new: JsonValue
    message: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: was {_shown(self.old)}, now {_shown(self.new)}"
        return f"{text} ({self.message})" if self.message else text


@dataclass(frozen=True)
class ResumeComparison:
    """How a job differs from the one a run was started with.

    `refused` must be empty to resume; `grown` may be taken over once the caller has checked that the new
    length is not below what is done; `placement` may be taken over, with each message shown as a warning.
    """

    refused: tuple[FieldDifference, ...]
    grown: tuple[FieldDifference, ...]
    placement: tuple[FieldDifference, ...]


def algorithm_fields(spec: JobSpec) -> dict[str, JsonValue]:
    """Return what decides the result, flat, by path without `spec.`; fields that are not set are left out.

    Numbers are as the model holds them, so `1` and `1.0` of a real field are the same. Of a task, fitness and
    weight of the auxiliary score are those in effect; each stage and part of a mix has its own task in full.
    """
    fields: dict[str, JsonValue] = {"model.dtype": spec.model.dtype.value}
    stages = spec.training_stages()
    for one in (one for sets in stages for one in sets):
        dataset = _json(one.dataset)
        deciding = _DECIDING_DATASET if one.path == "dataset" else (*_DECIDING_DATASET, *_DECIDING_SHARE)
        fields.update({f"{one.path}.{name}": dataset[name] for name in deciding if name in dataset})
        fields.update(_task_fields(one.task, "task" if one.path == "dataset" else f"{one.path}.task"))
    for part in _DECIDING_PARTS:
        fields.update(_flat(getattr(spec, part), part))
    for path in _NOT_DECIDING:
        fields.pop(path, None)
    fields["es.servedDtype"] = spec.served_type.value
    fields["workers.threads"] = spec.workers.threads
    return dict(sorted(fields.items()))


def _task_fields(task: TaskSpec, prefix: str) -> dict[str, JsonValue]:
    """The fields of a task that decide, with the rules in effect, whether the job spells them out or not."""
    fields = _flat(task, prefix)
    rules = grading_rules(task)
    fields[f"{prefix}.fitness"] = rules.fitness.value
    fields[f"{prefix}.auxiliaryWeight"] = rules.auxiliary_weight
    for place in _PLACES_OF_TASK:
        fields.pop(f"{prefix}.{place}", None)
    options = {name: value for name, value in task.options.items() if name not in _PLACES_OF_OPTIONS}
    if len(options) < len(task.options):
        fields[f"{prefix}.options"] = dict(options)
    return fields


def algorithm_digest(spec: JobSpec) -> str:
    """Return the SHA-256 (hex) of the algorithm fields as canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(
        algorithm_fields(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def compare_for_resume(old: JobSpec, new: JobSpec) -> ResumeComparison:
    """Compare the job of a run (`old`) with the one it shall go on with (`new`)."""
    before, after = algorithm_fields(old), algorithm_fields(new)
    refused = [
        FieldDifference(f"spec.{path}", before.get(path), after.get(path), "decides the result and is fixed")
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]
    grown = [
        difference
        for path in ("es.iterations", "es.epochs", "evaluation.everyIterations", "evaluation.parent")
        for difference in _difference(old, new, path, "")
    ]
    _compare_sets(old, new, refused, grown)
    placement = [difference for path, why in _PLACEMENT for difference in _difference(old, new, path, why)]
    return ResumeComparison(tuple(refused), tuple(grown), tuple(placement))


def _compare_sets(
    old: JobSpec, new: JobSpec, refused: list[FieldDifference], grown: list[FieldDifference]
) -> None:
    """Sets may come and go; one of the same name must measure the same, or its curve would mean nothing."""
    before = {entry.name: _measures(old, entry) for entry in old.evaluation.all_sets}
    after = {entry.name: _measures(new, entry) for entry in new.evaluation.all_sets}
    holdouts = {entry.name for spec in (old, new) for entry in spec.evaluation.holdouts}
    for name in [*before, *(name for name in after if name not in before)]:
        path = f"spec.evaluation.{'holdouts' if name in holdouts else 'sets'}[{name}]"
        if name not in after or name not in before:
            gone = name not in after
            grown.append(
                FieldDifference(
                    path,
                    "evaluated" if gone else None,
                    None if gone else "evaluated",
                    "no longer evaluated" if gone else "evaluated from here on",
                )
            )
            continue
        why = "a set measures the same throughout; give the new one another name"
        refused.extend(
            FieldDifference(f"{path}.{field}", before[name].get(field), after[name].get(field), why)
            for field in sorted(before[name].keys() | after[name].keys())
            if before[name].get(field) != after[name].get(field)
        )


def _measures(spec: JobSpec, entry: EvaluationSet) -> dict[str, JsonValue]:
    task = _task_fields(spec.task_of(entry), "task")
    dataset = _flat(entry.dataset, "dataset")
    if parse_source(entry.dataset.source).scheme is Scheme.FILE:
        # A file may lie elsewhere after a move; what it holds is compared by its digest.
        dataset["dataset.source"] = "a local file"
    return {"samples": entry.samples, "temperature": entry.temperature, **dataset, **task}


def _difference(old: JobSpec, new: JobSpec, path: str, message: str) -> Iterator[FieldDifference]:
    before, after = _value(_json(old), path), _value(_json(new), path)
    if before != after:
        yield FieldDifference(f"spec.{path}", before, after, message)


def _value(data: Any, path: str) -> JsonValue:
    for name in path.split("."):
        data = data.get(name) if isinstance(data, Mapping) else None
    value: JsonValue = data
    return value


def _json(model: SpecModel) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data


def _flat(model: SpecModel, prefix: str) -> dict[str, JsonValue]:
    """Flatten nested models into dotted paths; maps and lists that the user writes stay whole."""
    data = _json(model)
    flat: dict[str, JsonValue] = {}
    for attribute, field in type(model).model_fields.items():
        name = field.alias or attribute
        if name not in data:
            continue
        inner = getattr(model, attribute)
        if isinstance(inner, SpecModel):
            flat.update(_flat(inner, f"{prefix}.{name}"))
        else:
            flat[f"{prefix}.{name}"] = data[name]
    return flat


def _shown(value: JsonValue) -> str:
    if isinstance(value, dict | list):
        text = json.dumps(value, sort_keys=True, ensure_ascii=True)
        return text if len(text) <= 60 else text[:59] + "…"
    return "not set" if value is None else show(value)
