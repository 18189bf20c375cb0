"""What only the loaded data set shows, and settings without effect."""

from collections.abc import Callable
from typing import Any

import pytest

from dartes.spec import JobSpec, errors_for_dataset, warnings_for_dataset
from dartes.spec.checks import replay_slots, warnings_for

Spec = Callable[[dict[str, Any]], JobSpec]


def test_a_batch_larger_than_the_data_set_is_an_error_that_names_both(spec: Spec) -> None:
    (problem,) = errors_for_dataset(spec({}), 150)
    assert problem.path == "spec.es.batchSize"
    assert problem.message == "200 is larger than the data set (150 problems); allowed: at most 150"
    assert errors_for_dataset(spec({}), 200) == []


def test_an_empty_data_set_is_an_error(spec: Spec) -> None:
    (problem,) = errors_for_dataset(spec({}), 0)
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
    assert bool(warnings_for_dataset(spec(changes), count)) == warned


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
    assert replay_slots(spec({"spec.es.batchSize": batch, "spec.dart.replay.ratio": ratio})) == slots
