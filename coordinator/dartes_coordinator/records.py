"""What a complete round leaves in the store, as values. Pure: writing them is the ledger's business."""

from collections.abc import Mapping
from typing import Any

from dartes.difficulty import AlgorithmSettings, Batch, Scored
from dartes.journal import row_hash
from dartes.state import StoredEvaluation, StoredIteration
from dartes.state.history import journal_row
from dartes_coordinator.round import Round


def stored_iteration(
    settings: AlgorithmSettings,
    round_: Round,
    batch: Batch,
    scored: Scored,
    previous_hash: bytes,
    beside: Mapping[str, Any],
) -> StoredIteration:
    """The iteration that a complete round amounts to; `beside` is added to what the round itself counted."""
    row = journal_row(settings, round_.iteration, 0, scored)
    results = round_.members.results()
    return StoredIteration(
        iteration=round_.iteration,
        stage=0,
        epoch=batch.epoch,
        problems=batch.problems,
        replayed=batch.replayed,
        passed=results.passed,
        truncated=round_.members.truncated,
        scores=results.scores,
        auxiliary=results.auxiliary,
        parent_passed=round_.parent.passed[0] if round_.parent.rows else None,
        row=row.encode(),
        row_hash=row_hash(previous_hash, row),
        beside={
            "seconds_by_part": dict(round_.costs.seconds),
            "prompt_tokens": round_.costs.prompt_tokens,
            "generated_tokens": round_.costs.generated_tokens,
            "reissued": round_.leases.reissued,
            "speculated": round_.leases.speculated,
            "nondeterministic_reports": round_.leases.nondeterministic,
            **beside,
        },
    )


def stored_evaluations(round_: Round) -> list[StoredEvaluation]:
    """The evaluation sets that a complete round was to answer."""
    return [
        StoredEvaluation(
            iteration=round_.iteration,
            set_name=name,
            passed=grid.passed[0],
            truncated=grid.truncated[0],
            beside={"generated_tokens": round_.evaluation_costs[name].generated_tokens},
        )
        for name, grid in round_.evaluations.items()
    ]
