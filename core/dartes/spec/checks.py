"""What a valid job may still get wrong: settings without effect, or that the data set doesn't fit.

Pure functions of the spec and numbers of problems; loading the data set is not its business.
"""

import math
from collections.abc import Iterator, Sequence

from dartes.quotas import quotas
from dartes.spec.engines import engine_errors, engine_warnings
from dartes.spec.job import JobSpec, TrainingSet
from dartes.spec.problems import FieldProblem


def warnings_for(spec: JobSpec) -> list[str]:
    """Return what works but will not do what it seems to say, each with the field's path."""
    return list(_warnings(spec))


def _warnings(spec: JobSpec) -> Iterator[str]:
    leases = spec.es.population_size * spec.es.slices_per_member
    if spec.workers.replicas > leases:
        yield (
            f"spec.workers.replicas: {spec.workers.replicas} workers share {leases} leases per iteration "
            f"(es.populationSize x es.slicesPerMember); more than {leases} help nothing"
        )
    if spec.generation.temperature == 0 and spec.generation.top_p < 1:
        yield (
            f"spec.generation.topP: {spec.generation.top_p} has no effect, because temperature 0 decodes "
            "greedily; set generation.temperature above 0, or leave topP out"
        )
    yield from engine_warnings(spec)
    for one, quota in _quotas(spec):
        if quota > 0 and replays(spec) and replay_slots(spec, quota) == 0:
            share = (
                "a batch" if one.path == "dataset" else f"the {quota} problems of spec.{one.path} in a batch"
            )
            size = f" of {quota}" if one.path == "dataset" else ""
            yield (
                f"spec.dart.replay.ratio: {spec.dart.replay.ratio} of {share}{size} rounds to no problem, so "
                "replay never fires; raise it or es.batchSize, or set dart.replay.enabled: false"
            )


def replays(spec: JobSpec) -> bool:
    """True where the settings ask for replay."""
    return spec.dart.enabled and spec.dart.replay.enabled


def replay_slots(spec: JobSpec, quota: int) -> int:
    """Places offered to replay among a set's `quota` problems of a batch: half to even, at most quota - 1."""
    return min(round(quota * spec.dart.replay.ratio), quota - 1)


def errors_for(spec: JobSpec) -> list[FieldProblem]:
    """Return why a job can't be run, whatever its data sets hold: its engine, parts that get no problem."""
    shares = [
        FieldProblem(
            f"spec.{one.path}.weight",
            str(one.weight),
            f"{one.weight} of {_total_weight(spec)} in all gives this part no problem of a batch of "
            f"{spec.es.batch_size}; raise it or es.batchSize, or leave the part out",
        )
        for one, quota in _quotas(spec)
        if quota == 0
    ]
    return [*engine_errors(spec), *shares]


def errors_for_training(spec: JobSpec, sizes: Sequence[Sequence[int]]) -> list[FieldProblem]:
    """Return why the training problems, once loaded, can't be trained on with these settings.

    `sizes` is their number by stage and set.
    """
    problems = errors_for(spec)
    for (one, quota), size in _with_sizes(spec, sizes):
        plain = one.path == "dataset"
        if size < 1:
            problems.append(
                FieldProblem(
                    f"spec.{one.path}", "0 problems", "the data set holds no problems; give at least one"
                )
            )
        elif quota > size:
            problems.append(
                FieldProblem(
                    "spec.es.batchSize" if plain else f"spec.{one.path}",
                    str(quota),
                    f"{quota} is larger than the data set ({size} problems); allowed: at most {size}"
                    if plain
                    else f"a batch takes {quota} of its problems, and there are {size}; lower es.batchSize "
                    "or its weight",
                )
            )
    return problems


def warnings_for_training(spec: JobSpec, sizes: Sequence[Sequence[int]]) -> list[str]:
    """Return what the training problems, once loaded, make pointless; `sizes` as in `errors_for_training`.

    The next fresh problems of a set are never replayed; where they are all there are, replay never fires.
    """
    return [
        (
            f"spec.es.batchSize: a batch of {quota} holds all {size} problems, so "
            f"replay never fires; lower it below {size}, or set dart.replay.enabled: false"
        )
        if one.path == "dataset"
        else (
            f"spec.{one.path}: a batch takes all {size} of its problems, so replay never fires among them; "
            "lower es.batchSize, or set dart.replay.enabled: false"
        )
        for (one, quota), size in _with_sizes(spec, sizes)
        if quota >= size and replays(spec) and replay_slots(spec, quota) > 0
    ]


def _quotas(spec: JobSpec) -> Iterator[tuple[TrainingSet, int]]:
    """Each data set with its problems in every batch of its stage."""
    for sets in spec.training_stages():
        yield from zip(sets, quotas(spec.es.batch_size, [one.weight for one in sets]), strict=True)


def _with_sizes(
    spec: JobSpec, sizes: Sequence[Sequence[int]]
) -> Iterator[tuple[tuple[TrainingSet, int], int]]:
    return zip(_quotas(spec), (size for of_stage in sizes for size in of_stage), strict=True)


def _total_weight(spec: JobSpec) -> float:
    return math.fsum(part.weight for part in spec.dataset.mix)
