"""From grades to what the algorithm uses: each data set's rules decide what a pass and what a score is.

Runs once, before an iteration is scored; what comes out is stored, so that nothing has to be judged again.
"""

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty.batch import Batch
from dartes.difficulty.score import Results
from dartes.difficulty.settings import AlgorithmSettings
from dartes.difficulty.state import DifficultyState
from dartes.tasks.rules import Fitness


def judge(
    settings: AlgorithmSettings,
    state: DifficultyState,
    batch: Batch,
    grades: Results,
    parent_scores: NDArray[np.float32] | None = None,
) -> Results:
    """The passes a_ij and primary scores r_ij of `grades`, which are as the graders gave them.

    In the columns of a set whose passes are against the parent: a_ij = 1 where the member's score is above
    the unperturbed model's on the same problem (`parent_scores`, float32[B']), else 0. In the columns of a
    set whose fitness is the pass: r_ij = a_ij. The result's `scores` are None where that is every set.

    Raises ValueError where parent scores are needed and not given.
    """
    stage = settings.stages[batch.stage]
    sets = state.sets_of(batch.problems)
    scores = grades.passed.astype(np.float32) if grades.scores is None else grades.scores
    passed = grades.passed
    if stage.against_parent:
        if parent_scores is None:
            raise ValueError(f"iteration {batch.iteration}: passes need the parent's scores")
        compared = np.array([one.rules.against_parent for one in stage.sets])[sets]
        passed = np.where(compared, scores > parent_scores, passed)
    if not stage.scores_decide:
        return Results(passed, None, grades.auxiliary)
    scored = np.array([one.rules.fitness is Fitness.SCORE for one in stage.sets])[sets]
    primary = np.where(scored, scores, passed.astype(np.float32))
    return Results(passed, primary, grades.auxiliary)
