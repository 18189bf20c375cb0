"""What `dartes verify` compares inside an iteration: passes with the scores that they were counted from.

Pure. It looks at data sets whose passes are scores above the unperturbed model's; where the fitness is the
pass itself the members' scores are not kept, and only what is there of the parent can be checked.
"""

from collections.abc import Iterator

import numpy as np

from dartes.difficulty import AlgorithmSettings, DifficultyState
from dartes.state.history import Decision
from dartes.tasks.rules import Fitness


def wrong_passes(settings: AlgorithmSettings, state: DifficultyState, decision: Decision) -> Iterator[str]:
    """A sentence where an iteration's passes are not the scores above its parent's.

    `state` is the one that the iteration's batch was drawn from.
    """
    stage, stored = settings.stages[decision.batch.stage], decision.stored
    where = f"iteration {stored.iteration}"
    if not stage.against_parent:
        if stored.parent_scores is not None:
            yield f"{where}: scores of the parent are stored, and none of its passes is counted against them"
        return
    if stored.parent_scores is None:
        yield f"{where}: the parent's scores are missing, and passes are counted against them"
        return
    rules = [one.rules for one in stage.sets]
    sets = state.sets_of(decision.batch.problems)
    compared = np.array([one.against_parent for one in rules])[sets]
    if stored.parent_passed is None or stored.parent_passed[compared].any():
        yield f"{where}: the parent is stored to have passed against itself, or its passes are missing"
    # In the columns of other sets the stored scores are the passes, which say nothing of what was compared.
    scored = compared & np.array([one.fitness is Fitness.SCORE for one in rules])[sets]
    if stored.scores is None or not scored.any():
        return
    above = stored.scores[:, scored] > stored.parent_scores[scored]
    if not np.array_equal(stored.passed[:, scored], above):
        yield f"{where}: the stored passes are not the scores above the parent's"
