"""The models: defaults of the algorithm's notes, rules between fields, and a schema that a CRD can hold."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from dartes.spec import DartESJob, DatasetSpec, EsSpec, JobSpec, TaskSpec, WeightType
from dartes.spec.checkpoint import CheckpointSpec, ResumeSource, VolumeSpec
from dartes.spec.export import ExportSpec
from dartes.spec.fields import entries, job_schema
from dartes.spec.model import ModelCache
from dartes.spec.roles import WorkersSpec

Spec = Callable[[dict[str, Any]], JobSpec]


def test_defaults_are_the_constants_of_the_reference(spec: Spec) -> None:
    job = spec({})
    es, dart, generation = job.es, job.dart, job.generation
    assert (es.population_size, es.sigma, es.learning_rate, es.batch_size, es.seed) == (
        30,
        0.001,
        0.0005,
        200,
        0,
    )
    assert (es.antithetic, es.slices_per_member) == (False, 1)
    assert (dart.enabled, dart.reweighting, dart.history, dart.replay.enabled) == (True, True, True, True)
    assert (dart.ema_decay, dart.weight_floor, dart.weight_exponent) == (0.7, 0.8, 3.0)
    replay = dart.replay
    assert (replay.ratio, replay.mastery_threshold, replay.zero_pass_patience) == (0.2, 0.5, 2)
    assert (replay.cooldown_iterations, replay.max_visits_per_epoch) == (1, 2)
    assert (generation.max_new_tokens, generation.temperature, generation.top_p) == (1024, 0, 1)
    assert (generation.stop, generation.token_budget) == ((), 16384)
    # A task has its own: see dartes.tasks.rules.
    assert (job.task.auxiliary_weight, job.task.fitness, job.task.pass_threshold) == (None, None, None)
    assert (job.workers.replicas, job.workers.threads, job.workers.gpus_per_worker) == (1, 1, 1)
    assert (job.failure_policy.coordinator_restarts, job.failure_policy.worker_failures) == (6, 32)
    assert job.checkpoint.keep == 3
    assert job.evaluation.every_iterations == 10


def test_members_are_served_in_the_models_type_unless_told_otherwise(spec: Spec) -> None:
    assert spec({}).served_type is WeightType.FLOAT32
    assert spec({"spec.es.servedDtype": "Float16"}).served_type is WeightType.FLOAT16


def test_python_code_uses_attribute_names_and_enums() -> None:
    assert EsSpec(population_size=4, iterations=1, antithetic=True).population_size == 4
    assert DatasetSpec(source="x.jsonl").columns == {}


def test_models_are_frozen() -> None:
    with pytest.raises(ValidationError):
        EsSpec(iterations=1).sigma = 2.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EsSpec(iterations=1, epochs=1), "iterations is set too, and both are the length"),
        (lambda: EsSpec(iterations=1, antithetic=True, population_size=5), "population_size: 5 is odd"),
        (lambda: EsSpec(iterations=1, batch_size=2, slices_per_member=3), "3 slices of a batch of 2"),
        (lambda: WorkersSpec(min_replicas=3, max_replicas=2), "3 is above maxReplicas"),
        (lambda: DatasetSpec(), "source: not set"),
        (
            lambda: TaskSpec.model_validate({"kind": "gsm8k", "python": {"function": "a:b"}}),
            "kind is 'gsm8k'",
        ),
        (lambda: TaskSpec(kind="python"), "needs it"),
        (lambda: ModelCache(), "set exactly one of emptyDir, claimName or image"),
        (lambda: ModelCache(claim_name="a", image="b"), "claimName and image are both set"),
        (lambda: VolumeSpec(claim_name="a", size="1Gi"), "claimName names one"),
        (lambda: ResumeSource(iteration=3), "set exactly one of jobName or claimName"),
    ],
)
def test_rules_between_fields(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        make()


def test_all_broken_rules_of_one_model_are_reported() -> None:
    with pytest.raises(ValidationError) as raised:
        EsSpec(antithetic=True, population_size=5, iterations=1, epochs=1)
    assert "is odd" in str(raised.value)
    assert "remove one of the two" in str(raised.value)


STAGES = ({"source": "a.jsonl", "iterations": 2}, {"source": "b.jsonl", "epochs": 1})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec.es": {}}, "set exactly one of iterations or epochs"),
        ({"spec.dataset": {"stages": list(STAGES)}}, "remove es.iterations and es.epochs"),
        (
            {"spec.dataset": {"stages": list(STAGES)}, "spec.es": {"epochs": 2}},
            "remove es.iterations and es.epochs",
        ),
    ],
)
def test_a_run_has_one_length_and_with_stages_theirs(
    problems: Callable[[dict[str, Any]], dict[str, str]], changes: dict[str, Any], words: str
) -> None:
    assert words in problems(changes)["spec.es"]


def test_stages_need_no_other_length(spec: Spec) -> None:
    assert len(spec({"spec.dataset": {"stages": list(STAGES)}, "spec.es": {}}).dataset.stages) == 2


@pytest.mark.parametrize(
    ("evaluation", "path"),
    [
        ({"sets": ["a", "a"]}, "spec.evaluation.sets[1].name"),
        ({"sets": ["a"], "holdouts": ["b", "a"]}, "spec.evaluation.holdouts[1].name"),
    ],
)
def test_sets_and_holdouts_share_no_name(
    problems: Callable[[dict[str, Any]], dict[str, str]], evaluation: dict[str, list[str]], path: str
) -> None:
    given = {
        kind: [{"name": name, "dataset": {"source": "x.jsonl"}} for name in names]
        for kind, names in evaluation.items()
    }
    assert "give every set its own name" in problems({"spec.evaluation": given})[path]


def test_an_exported_iteration_is_a_word_or_a_number() -> None:
    assert ExportSpec(destination="pvc://a/b", iteration=3).iteration == 3
    assert ExportSpec(destination="pvc://a/b").iteration == "Last"
    for wrong in ("Worst", -1, True, 1.5):
        with pytest.raises(ValidationError):
            ExportSpec.model_validate({"destination": "pvc://a/b", "iteration": wrong})


def test_snapshots_are_off_unless_asked_for() -> None:
    assert CheckpointSpec().weights is None


def _nodes(schema: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        yield schema
        for inner in schema.values():
            yield from _nodes(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _nodes(inner)


def test_every_list_text_and_map_of_the_schema_is_bounded() -> None:
    unbounded = [
        node
        for node in _nodes(job_schema())
        if (node.get("type") == "array" and "maxItems" not in node)
        or (node.get("type") == "string" and not node.keys() & {"maxLength", "enum", "const"})
        or (node.get("type") == "object" and "properties" not in node and "maxProperties" not in node)
    ]
    assert unbounded == []


def test_the_schema_has_no_union_that_a_crd_cannot_hold() -> None:
    for node in _nodes(job_schema()):
        if "anyOf" in node and not node.get("x-kubernetes-int-or-string"):
            assert len([choice for choice in node["anyOf"] if choice.get("type") != "null"]) == 1
        assert not node.keys() & {"oneOf", "allOf", "not", "patternProperties"}


def test_every_field_is_described_and_says_when_it_may_change() -> None:
    for entry in entries():
        assert len(str(entry.schema.get("description", ""))) > 10, entry.text
        if entry.text not in (
            "metadata",
            "spec",
            "spec.es",
            "spec.coordinator",
            "spec.workers",
            "spec.checkpoint",
        ):
            assert entry.mutability in ("I", "S", "M"), entry.text


def test_the_schema_fits_into_a_crd() -> None:
    assert len(DartESJob.model_json_schema().__repr__()) < 150_000


@pytest.mark.parametrize(
    ("path", "mutability"),
    [
        ("spec.suspend", "M"),
        ("spec.queueName", "S"),
        ("spec.model.source", "I"),
        ("spec.model.secretRef.name", "S"),
        ("spec.es.sigma", "I"),
        ("spec.es.iterations", "S"),
        ("spec.es.slicesPerMember", "S"),
        ("spec.dart.replay.ratio", "I"),
        ("spec.evaluation.sets[].dataset.source", "M"),
        ("spec.workers.threads", "I"),
        ("spec.workers.replicas", "M"),
        ("spec.workers.env", "S"),
        ("spec.checkpoint.volume.size", "I"),
        ("spec.checkpoint.keep", "M"),
        ("spec.export.iteration", "M"),
    ],
)
def test_a_field_follows_the_one_that_holds_it_unless_it_says_otherwise(path: str, mutability: str) -> None:
    assert {entry.text: entry.mutability for entry in entries()}[path] == mutability
