"""What a complete round leaves in the store, as values. Pure: writing them is the ledger's business."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty import AlgorithmSettings, Batch, DifficultyState, Results, Scored, judge
from dartes.journal import row_hash
from dartes.state import StoredIteration
from dartes.state.history import journal_row
from dartes_coordinator.round import Round


@dataclass(frozen=True, eq=False)
class Judged:
    """The grades of a complete round by the rules of each data set, columns in the batch's order."""

    members: Results
    parent_passed: NDArray[np.bool_] | None
    """Of the unperturbed model, bool[B'], where it was evaluated; it never passes against itself."""
    parent_scores: NDArray[np.float32] | None
    """float32[B'], where passes are counted against them."""


def judged_round(settings: AlgorithmSettings, state: DifficultyState, round_: Round, batch: Batch) -> Judged:
    """What the grades of a complete round amount to; `state` is the one that the batch was drawn from."""
    parent = round_.parent
    scores = parent.scores[0] if settings.stages[batch.stage].against_parent else None
    return Judged(
        members=judge(settings, state, batch, round_.members.results(), scores),
        parent_passed=(
            judge(settings, state, batch, parent.results(), scores).passed[0] if parent.rows else None
        ),
        parent_scores=scores,
    )


def stored_iteration(
    settings: AlgorithmSettings,
    round_: Round,
    batch: Batch,
    judged: Judged,
    scored: Scored,
    previous_hash: bytes,
    beside: Mapping[str, Any],
) -> StoredIteration:
    """The iteration that a complete round amounts to; `beside` is added to what the round itself counted."""
    row = journal_row(settings, round_.iteration, batch.stage, scored)
    results = judged.members
    return StoredIteration(
        iteration=round_.iteration,
        stage=batch.stage,
        epoch=batch.epoch,
        problems=batch.problems,
        replayed=batch.replayed,
        passed=results.passed,
        truncated=round_.members.truncated,
        scores=results.scores,
        auxiliary=results.auxiliary,
        parent_passed=judged.parent_passed,
        parent_scores=judged.parent_scores,
        row=row.encode(),
        row_hash=row_hash(previous_hash, row),
        beside={
            "seconds_by_part": dict(round_.costs.seconds),
            "tail_seconds": round_.costs.tail_seconds,
            "alone_seconds": round_.costs.alone_seconds,
            "prompt_tokens": round_.costs.prompt_tokens,
            "generated_tokens": round_.costs.generated_tokens,
            "reissued": round_.leases.reissued,
            "speculated": round_.leases.speculated,
            "nondeterministic_reports": round_.leases.nondeterministic,
            **beside,
        },
    )
