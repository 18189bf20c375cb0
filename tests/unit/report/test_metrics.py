"""A line of metrics says what one iteration brought and cost, in numbers that JSON can hold."""

import json
from typing import Any

import numpy as np
import pytest

from dartes.difficulty import (
    AlgorithmSettings,
    Batch,
    DifficultyState,
    Results,
    Scored,
    draw_batch,
    one_stage,
    score,
)
from dartes.ids import Iteration
from dartes.report.metrics import metrics_of
from dartes.state import StoredEvaluation, StoredIteration

BESIDE: dict[str, Any] = {
    "seconds": 2.0,
    "generated_tokens": 300,
    "seconds_by_part": {"generate": 1.5},
    "tail_seconds": 0.5,
    "alone_seconds": 0.25,
    "wire_bytes": 1000,
    "workers": 2,
    "reissued": 1,
    "speculated": 0,
    "nondeterministic_reports": 0,
}
PASSED = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], np.bool_)


def iteration(replayed: list[bool], **values: Any) -> tuple[StoredIteration, Batch, Scored]:
    """The first iteration of a run of 2 members on 4 problems."""
    settings = AlgorithmSettings(population_size=2, batch_size=4, stages=one_stage(iterations=1))
    state = DifficultyState.new(4)
    batch = draw_batch(settings, state, Iteration(0))
    assert batch is not None
    scored = score(settings, state, batch, Results(PASSED))
    stored = StoredIteration(
        iteration=0,
        stage=0,
        epoch=0,
        problems=batch.problems,
        replayed=np.array(replayed),
        passed=PASSED,
        truncated=values.pop("truncated", np.zeros_like(PASSED)),
        scores=None,
        auxiliary=None,
        parent_passed=values.pop("parent_passed", None),
        row=b"",
        row_hash=b"\xab",
        beside={**BESIDE, **values},
    )
    return stored, batch, scored


def test_means_are_over_the_batch_and_over_its_two_sources() -> None:
    stored, batch, scored = iteration([True, False, False, False])
    line = metrics_of(stored, batch, scored, [])
    assert line["pass_rate"] == 3 / 8
    assert line["replay_pass_rate"] == 1.0
    assert line["fresh_pass_rate"] == pytest.approx(1 / 6)
    assert line["raw_mean"] == 3 / 8
    assert (line["iteration"], line["stage"], line["epoch"]) == (0, 0, 0)
    assert line["mean_history"] == 3 / 8
    assert (line["problems"], line["replay_buffer_size"], line["row_hash"]) == (4, scored.buffer_size, "ab")


def test_a_source_without_problems_has_no_mean_and_json_has_no_nan() -> None:
    line = metrics_of(*iteration([False] * 4), [])
    assert line["replay_pass_rate"] is None
    assert json.loads(json.dumps(line, allow_nan=False)) == line


def test_costs_are_those_beside_the_iteration() -> None:
    line = metrics_of(*iteration([False] * 4), [])
    assert line["tokens_per_second"] == 150.0
    for name, value in BESIDE.items():
        assert line[name] == value
    assert metrics_of(*iteration([False] * 4, seconds=0.0), [])["tokens_per_second"] == 0.0


def test_truncations_and_the_parent_are_shares() -> None:
    truncated = np.array([[1, 0, 0, 0], [0, 0, 0, 1]], np.bool_)
    parent = np.array([1, 1, 1, 0], np.bool_)
    line = metrics_of(*iteration([False] * 4, truncated=truncated, parent_passed=parent), [])
    assert (line["truncated_share"], line["parent_pass_rate"]) == (0.25, 0.75)
    assert "parent_pass_rate" not in metrics_of(*iteration([False] * 4), [])


def test_evaluations_are_accuracies_by_set() -> None:
    bits = np.array([1, 0, 0, 0], np.bool_)
    evaluation = StoredEvaluation(0, "held-out", bits, np.zeros_like(bits), {})
    assert metrics_of(*iteration([False] * 4), [evaluation])["evaluations"] == {"held-out": 0.25}
