"""What only the loaded data set shows, and settings without effect."""

from collections.abc import Callable
from typing import Any

import pytest

from dartes.spec import DartESJob, JobSpec, errors_for, errors_for_training, warnings_for_training
from dartes.spec.checks import replay_slots, warnings_for

from .conftest import changed

Spec = Callable[[dict[str, Any]], JobSpec]


def test_a_batch_larger_than_the_data_set_is_an_error_that_names_both(spec: Spec) -> None:
    (problem,) = errors_for_training(spec({}), [[150]])
    assert problem.path == "spec.es.batchSize"
    assert problem.message == "200 is larger than the data set (150 problems); allowed: at most 150"
    assert errors_for_training(spec({}), [[200]]) == []


def test_an_empty_data_set_is_an_error(spec: Spec) -> None:
    (problem,) = errors_for_training(spec({}), [[0]])
    assert problem.path == "spec.dataset"


@pytest.mark.parametrize(
    ("changes", "count", "warned"),
    [
        ({}, 200, True),
        ({}, 201, False),
        ({"spec.dart.replay.enabled": False}, 200, False),
        ({"spec.dart.enabled": False}, 200, False),
        ({"spec.dart.replay.ratio": 0.0}, 200, False),
    ],
)
def test_a_batch_that_holds_every_problem_never_replays(
    spec: Spec, changes: dict[str, Any], count: int, warned: bool
) -> None:
    assert bool(warnings_for_training(spec(changes), [[count]])) == warned


def test_a_ratio_that_rounds_to_nothing_is_warned_about(spec: Spec) -> None:
    (warning,) = warnings_for(spec({"spec.es.batchSize": 2}))
    assert warning.startswith("spec.dart.replay.ratio: 0.2 of a batch of 2 rounds to no problem")


def test_top_p_without_sampling_is_warned_about(spec: Spec) -> None:
    (warning,) = warnings_for(spec({"spec.generation.topP": 0.9}))
    assert warning.startswith("spec.generation.topP: 0.9 has no effect")
    assert warnings_for(spec({"spec.generation.topP": 0.9, "spec.generation.temperature": 1.0})) == []


@pytest.mark.parametrize(("batch", "ratio", "slots"), [(200, 0.2, 40), (5, 0.5, 2), (4, 1.0, 3), (1, 1.0, 0)])
def test_replay_slots_round_half_to_even_and_leave_a_fresh_problem(
    spec: Spec, batch: int, ratio: float, slots: int
) -> None:
    job = spec({"spec.es.batchSize": batch, "spec.dart.replay.ratio": ratio})
    assert replay_slots(job, batch) == slots


MIX = {
    "mix": [
        {"source": "builtin://addition", "weight": 3.0},
        {"source": "builtin://arithmetic", "weight": 1.0, "task": {"kind": "arithmetic"}},
    ]
}
STAGES = {
    "stages": [
        {"source": "builtin://addition", "iterations": 5},
        {"source": "builtin://addition", "maxProblems": 50, "epochs": 2},
    ]
}


def test_a_part_that_gets_no_problem_of_a_batch_is_refused_by_name(spec: Spec) -> None:
    small = DartESJob.model_validate(changed({"spec.dataset": MIX, "spec.es.batchSize": 1})).spec
    (problem,) = errors_for(small)
    assert problem.path == "spec.dataset.mix[1].weight"
    assert "1.0 of 4.0 in all gives this part no problem of a batch of 1" in problem.message
    assert errors_for_training(small, [[100, 100]]) == [problem]
    assert errors_for(spec({"spec.dataset": MIX, "spec.es.batchSize": 3})) == []


def test_each_set_of_a_mix_must_hold_its_part_of_a_batch(spec: Spec) -> None:
    job = spec({"spec.dataset": MIX})
    assert errors_for_training(job, [[150, 50]]) == []
    (problem,) = errors_for_training(job, [[150, 49]])
    assert problem.path == "spec.dataset.mix[1]"
    assert problem.message.startswith("a batch takes 50 of its problems, and there are 49")
    (warning,) = warnings_for_training(job, [[151, 50]])
    assert warning.startswith("spec.dataset.mix[1]: a batch takes all 50 of its problems")


def test_each_stage_must_hold_a_batch(spec: Spec) -> None:
    job = spec({"spec.dataset": STAGES, "spec.es": {}})
    (problem,) = errors_for_training(job, [[300], [50]])
    assert problem.path == "spec.dataset.stages[1]"
    assert (
        errors_for_training(spec({"spec.dataset": STAGES, "spec.es": {"batchSize": 50}}), [[300], [50]]) == []
    )


def test_a_part_whose_share_rounds_to_no_replay_slot_is_warned_about(spec: Spec) -> None:
    (warning,) = warnings_for(spec({"spec.dataset": MIX, "spec.es.batchSize": 8}))
    assert warning.startswith(
        "spec.dart.replay.ratio: 0.2 of the 2 problems of spec.dataset.mix[1] in a batch rounds to no problem"
    )
