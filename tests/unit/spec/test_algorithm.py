"""What decides the result, and what may change when a run goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from dartes.spec import JobSpec
from dartes.spec.algorithm import algorithm_digest, algorithm_fields, compare_for_resume

Spec = Callable[[dict[str, Any]], JobSpec]
SETS = [{"name": "held-out", "dataset": {"source": "test.jsonl", "maxProblems": 100}}]


def test_the_fields_are_flat_and_complete(spec: Spec) -> None:
    fields = algorithm_fields(spec({"spec.task.options": {"width": 2}, "spec.dataset.columns": {"a": "b"}}))
    assert fields["es.populationSize"] == 30
    assert fields["dart.replay.ratio"] == 0.2
    assert fields["task.options"] == {"width": 2}
    assert fields["dataset.columns"] == {"a": "b"}
    assert fields["model.dtype"] == "Float32"
    assert fields["es.servedDtype"] == "Float32"
    assert fields["workers.threads"] == 1
    assert list(fields) == sorted(fields)
    for absent in ("es.iterations", "es.epochs", "es.slicesPerMember", "dataset.source", "task.prompt"):
        assert absent not in fields


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.es.populationSize", 31),
        ("spec.es.sigma", 0.002),
        ("spec.es.seed", 1),
        ("spec.es.servedDtype", "Float16"),
        ("spec.model.dtype", "Float16"),
        ("spec.dart.enabled", False),
        ("spec.dart.replay.cooldownIterations", 3),
        ("spec.generation.tokenBudget", 100),
        ("spec.generation.stop", ["x"]),
        ("spec.task.prompt", "{a}+{b}="),
        ("spec.task.options", {"x": 1}),
        ("spec.task.auxiliaryWeight", 0.0),
        ("spec.dataset.split", "test"),
        ("spec.dataset.maxProblems", 500),
        ("spec.dataset.columns", {"a": "b"}),
        ("spec.workers.threads", 2),
    ],
)
def test_what_decides_the_result_changes_the_digest_and_is_refused(
    spec: Spec, path: str, value: object
) -> None:
    old, new = spec({}), spec({path: value})
    assert algorithm_digest(old) != algorithm_digest(new)
    comparison = compare_for_resume(old, new)
    assert path in [difference.path for difference in comparison.refused]
    assert (comparison.grown, comparison.placement) == ((), ())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.es.iterations", 40),
        ("spec.es.slicesPerMember", 4),
        ("spec.workers.replicas", 3),
        ("spec.workers.gpusPerWorker", 0),
        ("spec.evaluation.sets", SETS),
        ("spec.evaluation.everyIterations", 2),
        ("spec.model.source", "other"),
        ("spec.dataset.source", "other.jsonl"),
        ("spec.checkpoint.keep", 9),
        ("spec.es.servedDtype", "Float32"),
        ("spec.es.sigma", 1e-3),
        ("spec.generation.temperature", 0),
    ],
)
def test_what_does_not_decide_the_result_leaves_the_digest(spec: Spec, path: str, value: object) -> None:
    assert algorithm_digest(spec({})) == algorithm_digest(spec({path: value}))
    assert compare_for_resume(spec({}), spec({path: value})).refused == ()


def test_the_digest_is_the_same_in_every_process_and_version(spec: Spec) -> None:
    # A changed digest makes the journals of earlier runs unreadable: change this only on purpose.
    assert algorithm_digest(spec({})) == "cc1a3ed368b824f2163a3ae04b0f15920844b4c5cf562ddb399fb5932573d888"


def test_length_may_grow_and_the_caller_is_told(spec: Spec) -> None:
    comparison = compare_for_resume(spec({}), spec({"spec.es.iterations": 40}))
    (difference,) = comparison.grown
    assert (difference.path, difference.old, difference.new) == ("spec.es.iterations", 20, 40)
    assert str(difference) == "spec.es.iterations: was 20, now 40"
    comparison = compare_for_resume(spec({}), spec({"spec.es": {"epochs": 2}}))
    assert [(d.path, d.old, d.new) for d in comparison.grown] == [
        ("spec.es.iterations", 20, None),
        ("spec.es.epochs", None, 2),
    ]


def test_placement_may_change_with_a_word_on_what_it_may_do(spec: Spec) -> None:
    comparison = compare_for_resume(
        spec({}),
        spec({"spec.workers.replicas": 4, "spec.workers.gpusPerWorker": 0, "spec.es.slicesPerMember": 2}),
    )
    assert [difference.path for difference in comparison.placement] == [
        "spec.workers.replicas",
        "spec.es.slicesPerMember",
        "spec.workers.gpusPerWorker",
    ]
    assert "other answers" in str(comparison.placement[2])
    assert comparison.refused == comparison.grown == ()


def test_evaluation_sets_may_come_and_go(spec: Spec) -> None:
    more = compare_for_resume(spec({}), spec({"spec.evaluation.sets": SETS}))
    assert [str(difference) for difference in more.grown] == [
        "spec.evaluation.sets[held-out]: was not set, now 'evaluated' (evaluated from here on)"
    ]
    less = compare_for_resume(spec({"spec.evaluation.sets": SETS}), spec({}))
    assert [difference.message for difference in less.grown] == ["no longer evaluated"]
    assert more.refused == less.refused == ()


def test_a_set_of_the_same_name_measures_the_same(spec: Spec) -> None:
    def with_dataset(dataset: dict[str, Any]) -> JobSpec:
        return spec({"spec.evaluation.sets": [{"name": "held-out", "dataset": dataset}]})

    old = with_dataset({"source": "test.jsonl", "maxProblems": 100})
    (difference,) = compare_for_resume(
        old, with_dataset({"source": "test.jsonl", "maxProblems": 200})
    ).refused
    assert difference.path == "spec.evaluation.sets[held-out].dataset.maxProblems"
    assert (difference.old, difference.new) == (100, 200)
    moved = compare_for_resume(old, with_dataset({"source": "/elsewhere/test.jsonl", "maxProblems": 100}))
    assert moved.refused == ()
    other = compare_for_resume(old, with_dataset({"source": "builtin://addition", "maxProblems": 100}))
    assert [difference.path for difference in other.refused] == [
        "spec.evaluation.sets[held-out].dataset.source"
    ]


def test_the_same_job_differs_in_nothing(spec: Spec) -> None:
    comparison = compare_for_resume(spec({}), spec({}))
    assert comparison.refused == comparison.grown == comparison.placement == ()


STAGES = {
    "stages": [
        {"source": "a.jsonl", "iterations": 5},
        {"source": "b.jsonl", "epochs": 2, "task": {"kind": "arithmetic", "auxiliaryWeight": 0.0}},
    ]
}
MIX = {"mix": [{"source": "a.jsonl", "weight": 2.0}, {"source": "hf://datasets/o/n", "revision": "main"}]}


def in_stages(changes: dict[str, Any]) -> dict[str, Any]:
    """The small job in two stages; `changes` are of the second one."""
    first, second = STAGES["stages"]
    return {"spec.dataset": {"stages": [first, {**second, **changes}]}, "spec.es": {}}


def test_each_stage_and_part_has_its_own_fields_without_places(spec: Spec) -> None:
    fields = algorithm_fields(spec(in_stages({})))
    assert fields["dataset.stages[0].iterations"] == 5
    assert fields["dataset.stages[0].task.kind"] == "addition"
    assert fields["dataset.stages[0].task.auxiliaryWeight"] == 0.1
    assert fields["dataset.stages[1].epochs"] == 2
    assert fields["dataset.stages[1].task.auxiliaryWeight"] == 0.0
    assert fields["dataset.stages[1].task.fitness"] == "Pass"
    mix = algorithm_fields(spec({"spec.dataset": MIX}))
    assert (mix["dataset.mix[0].weight"], mix["dataset.mix[1].weight"]) == (2.0, 1.0)
    for absent in ("source", "revision", "secretRef"):
        assert not [path for path in (*fields, *mix) if path.startswith("dataset") and path.endswith(absent)]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"epochs": 3}, "epochs"),
        ({"maxProblems": 9}, "maxProblems"),
        ({"task": {"kind": "arithmetic"}}, "task.auxiliaryWeight"),
        ({"task": {"kind": "arithmetic", "auxiliaryWeight": 0.0, "fitness": "Score"}}, "task.fitness"),
        ({"columns": {"a": "x"}}, "columns"),
    ],
)
def test_what_decides_a_stage_is_refused_by_its_place(spec: Spec, changes: dict[str, Any], path: str) -> None:
    refused = compare_for_resume(spec(in_stages({})), spec(in_stages(changes))).refused
    assert f"spec.dataset.stages[1].{path}" in [difference.path for difference in refused]


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "/elsewhere/b.jsonl"},
        {"secretRef": {"name": "token"}},
        {"task": {"kind": "arithmetic", "auxiliaryWeight": 0.0, "fitness": "Pass"}},
    ],
)
def test_where_a_stage_is_found_and_rules_that_are_spelt_out_decide_nothing(
    spec: Spec, changes: dict[str, Any]
) -> None:
    old, new = spec(in_stages({})), spec(in_stages(changes))
    assert algorithm_digest(old) == algorithm_digest(new)
    assert compare_for_resume(old, new).refused == ()


def test_rules_in_effect_are_the_same_whether_the_job_spells_them_out(spec: Spec) -> None:
    spelt = spec({"spec.task": {"kind": "addition", "fitness": "Pass", "auxiliaryWeight": 0.1}})
    assert algorithm_digest(spec({})) == algorithm_digest(spelt)
    assert algorithm_digest(spec({})) != algorithm_digest(spec({"spec.task.fitness": "Score"}))


def test_a_holdout_measures_the_same_throughout(spec: Spec) -> None:
    def holding(most: int) -> JobSpec:
        held = {"name": "kept", "dataset": {"source": "test.jsonl", "maxProblems": most}}
        return spec({"spec.evaluation.holdouts": [held]})

    (difference,) = compare_for_resume(holding(10), holding(20)).refused
    assert difference.path == "spec.evaluation.holdouts[kept].dataset.maxProblems"
