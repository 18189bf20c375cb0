"""What a valid job may still get wrong: settings without effect, or that the data set doesn't fit.

Pure functions of the spec and a number of problems; loading the data set is not its business.
"""

from collections.abc import Iterator

from dartes.spec.job import JobSpec
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
    if replays(spec) and replay_slots(spec) == 0:
        yield (
            f"spec.dart.replay.ratio: {spec.dart.replay.ratio} of a batch of {spec.es.batch_size} rounds to "
            "no problem, so replay never fires; raise it or es.batchSize, or set dart.replay.enabled: false"
        )


def replays(spec: JobSpec) -> bool:
    """True where the settings ask for replay."""
    return spec.dart.enabled and spec.dart.replay.enabled


def replay_slots(spec: JobSpec) -> int:
    """Places of a batch offered to replay: round(B x ratio), half to even, at most B - 1."""
    return min(round(spec.es.batch_size * spec.dart.replay.ratio), spec.es.batch_size - 1)


def errors_for_dataset(spec: JobSpec, problem_count: int) -> list[FieldProblem]:
    """Return why the training problems, once loaded, can't be trained on with these settings."""
    if problem_count < 1:
        return [
            FieldProblem("spec.dataset", "0 problems", "the data set holds no problems; give at least one")
        ]
    if spec.es.batch_size > problem_count:
        return [
            FieldProblem(
                "spec.es.batchSize",
                str(spec.es.batch_size),
                f"{spec.es.batch_size} is larger than the data set ({problem_count} problems); "
                f"allowed: at most {problem_count}",
            )
        ]
    return []


def warnings_for_dataset(spec: JobSpec, problem_count: int) -> list[str]:
    """Return what the training problems, once loaded, make pointless.

    The next `B` fresh problems are never replayed; where they are all there are, replay never fires.
    """
    if replays(spec) and replay_slots(spec) > 0 and spec.es.batch_size >= problem_count:
        return [
            f"spec.es.batchSize: a batch of {spec.es.batch_size} holds all {problem_count} problems, so "
            f"replay never fires; lower it below {problem_count}, or set dart.replay.enabled: false"
        ]
    return []
