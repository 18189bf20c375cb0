"""The run told again from its stored bits: batches, difficulty state and coefficients of every iteration.

The coordinator starts from it, `dartes journal` prints it and `dartes verify` compares it with what was
recorded. It reads values only; where a run comes from is the caller's business.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty import (
    AlgorithmSettings,
    Batch,
    DifficultyState,
    Results,
    Scored,
    advance,
    draw_batch,
    member_seeds,
    member_signs,
    score,
)
from dartes.ids import Iteration
from dartes.journal import JournalError, JournalRow, row_hash
from dartes.state.columns import StoredIteration
from dartes.state.errors import DamagedStoreError


class DivergenceError(DamagedStoreError):
    """What is stored is not what the stored bits lead to."""

    def __init__(self, iteration: int, what: str) -> None:
        super().__init__(f"iteration {iteration}: the stored {what} differs from the recomputed one")
        self.iteration = iteration
        self.what = what


@dataclass(frozen=True)
class Decision:
    """One iteration as recomputed: what was drawn, what came out and what it led to."""

    stored: StoredIteration
    batch: Batch
    scored: Scored
    row: JournalRow
    row_hash: bytes


def journal_row(settings: AlgorithmSettings, iteration: int, stage: int, scored: Scored) -> JournalRow:
    """The journal's row of a scored iteration: seeds, and coefficients with each member's sign folded in."""
    signs = member_signs(settings)
    coefficients: NDArray[np.float32] = signs * scored.coefficients
    return JournalRow(
        iteration=Iteration(iteration),
        stage=stage,
        seeds=member_seeds(settings, Iteration(iteration), stage),
        coefficients=coefficients,
    )


def recompute(
    settings: AlgorithmSettings,
    state: DifficultyState,
    stored: Iterable[StoredIteration],
    header_hash: bytes,
) -> Iterator[Decision]:
    """Recompute stored iterations 0, 1, ... in order, moving `state` (a new one) along, through all stages.

    Raises
    ------
    DivergenceError
        At the first iteration whose batch, coefficients or hash is not what the bits lead to.
    """
    previous = header_hash
    for expected, it in enumerate(stored):
        if it.iteration != expected:
            raise DivergenceError(expected, "iteration number")
        batch = draw_batch(settings, state, Iteration(it.iteration))
        if batch is not None and batch.stage != it.stage:
            raise DivergenceError(it.iteration, "stage")
        if batch is None or not np.array_equal(batch.problems, it.problems):
            raise DivergenceError(it.iteration, "batch")
        if not np.array_equal(batch.replayed, it.replayed) or batch.epoch != it.epoch:
            raise DivergenceError(it.iteration, "source of the batch (fresh or replay)")
        if it.passed.shape[0] != settings.population_size:
            raise DivergenceError(it.iteration, "number of members")
        try:
            results = Results(passed=it.passed, scores=it.scores, auxiliary=it.auxiliary)
            recorded = JournalRow.decode(it.row)
            scored = score(settings, state, batch, results)
            row = journal_row(settings, it.iteration, it.stage, scored)
        except (JournalError, ValueError) as error:
            raise DivergenceError(it.iteration, f"row or list of scores ({error})") from error
        if not np.array_equal(recorded.seeds, row.seeds):
            raise DivergenceError(it.iteration, "list of seeds")
        if recorded.coefficients.tobytes() != row.coefficients.tobytes():
            raise DivergenceError(it.iteration, "list of coefficients")
        current = row_hash(previous, row)
        if current != it.row_hash or row.encode() != it.row:
            raise DivergenceError(it.iteration, "row hash")
        yield Decision(stored=it, batch=batch, scored=scored, row=row, row_hash=current)
        advance(settings, state, batch, scored)
        previous = current
