"""A run whose evaluation set counts wins over the base model, from its first evaluation to a resumption."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from dartes.destinations.choice import recorded_evaluations
from dartes.evaluation import wrong_wins
from dartes.state import RunFolder, RunReader, StoredEvaluation
from dartes_coordinator.plan import EvaluationSetPlan

from .kit import HELD_OUT, Clock, FakeWorker, expected_hashes, opened, plan, run_until, score_of

PLAN = plan(
    evaluation_sets={"chat": EvaluationSetPlan(HELD_OUT, against_base=True)},
    data_digests={"train": "train-digest", "chat": "chat-digest"},
)


def evaluations_of(folder: RunFolder) -> list[StoredEvaluation]:
    with RunReader.open(folder) as reader:
        return reader.evaluations()


def scores(weights: bytes) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array([score_of(weights, 0, 0.0, f"chat {row}") for row in range(HELD_OUT)], np.float32)


def test_each_evaluation_is_won_where_it_scores_above_the_first_one(tmp_path: Path) -> None:
    folder, clock = RunFolder(tmp_path), Clock()
    coordinator = opened(folder, PLAN, clock)
    worker = FakeWorker("w", PLAN)
    worker.register(coordinator, clock())
    run_until(coordinator, [worker], clock, 3)
    coordinator.close()
    # What is compared with has to come from the store now.
    again = opened(folder, PLAN, clock)
    worker.register(again, clock())
    run_until(again, [worker], clock)
    again.close()
    hashes, _ = expected_hashes(PLAN)
    found = evaluations_of(folder)
    assert [e.iteration for e in found] == [0, 2, 4, 5]
    assert not found[0].passed.any()
    base = scores(hashes[0])
    for evaluation in found[1:]:
        own = scores(hashes[evaluation.iteration])
        assert evaluation.scores is not None
        assert evaluation.scores.tolist() == own.tolist()
        assert evaluation.passed.tolist() == (own > base).tolist()
    assert 0 < sum(int(e.passed.sum()) for e in found) < 3 * HELD_OUT
    assert list(wrong_wins(found)) == []
    flipped = replace(found[2], passed=~found[2].passed)
    (said,) = wrong_wins([*found[:2], flipped, found[3]])
    assert said.startswith("evaluation set 'chat', iteration 4: the stored passes are not the scores above")
    assert len(list(wrong_wins([replace(e, scores=None) for e in found]))) == 4


def test_a_set_that_was_added_later_wins_nothing_and_the_reports_say_why(tmp_path: Path) -> None:
    folder, clock = RunFolder(tmp_path), Clock()
    coordinator = opened(folder, plan(), clock)
    first = FakeWorker("w", plan())
    first.register(coordinator, clock())
    run_until(coordinator, [first], clock, 3)
    coordinator.close()
    more = plan(
        evaluation_sets={"chat": EvaluationSetPlan(HELD_OUT, against_base=True), **plan().evaluation_sets},
        data_digests={**plan().data_digests, "chat": "chat-digest"},
    )
    again, worker = opened(folder, more, clock), FakeWorker("v", more)
    worker.register(again, clock())
    run_until(again, [worker], clock)
    shown = {(e.set_name, e.iteration) for e in again.status().evaluations}
    again.close()
    found = [e for e in evaluations_of(folder) if e.set_name == "chat"]
    assert [e.iteration for e in found] == [4, 5]
    assert not any(e.passed.any() for e in found)
    assert list(wrong_wins(found)) == []
    (said,) = wrong_wins([found[0], replace(found[1], passed=~found[1].passed)])
    assert said.endswith("the base model's (no base: this set was added at iteration 4)")
    summary = json.loads(folder.summary.read_text())
    entry, why = summary["evaluations"]["chat"], "this set was added at iteration 4"
    for point in entry["all"]:
        assert (point["accuracy"], point["passed"], point["no_base"]) == (None, None, why)
        assert point["mean_score"] == found[point["iteration"] - 4].beside["mean_score"]
    assert (entry["before"], entry["change"], summary["best"]) == (None, None, None)
    assert [list(json.loads(line)["evaluations"]) for line in folder.metrics.read_text().splitlines()] == [
        ["held-out"],
        [],
        ["held-out"],
        [],
        ["held-out"],
    ]
    # What chooses the best iteration, and what the operator shows, has no accuracy of it either.
    assert {e.set_name for e in recorded_evaluations(folder)} == {"held-out"}
    assert {name for name, _ in shown} == {"held-out"}
    folder.store.unlink()
    assert {e.set_name for e in recorded_evaluations(folder)} == {"held-out"}
