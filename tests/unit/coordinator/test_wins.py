"""A run whose evaluation set counts wins over the base model, from its first evaluation to a resumption."""

from dataclasses import replace
from pathlib import Path

import numpy as np

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
