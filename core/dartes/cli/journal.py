"""`dartes journal`: everything that decided an iteration, recomputed from the stored bits."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dartes.cli.folder import require_run
from dartes.cli.recompute import retold
from dartes.rpc.encoding import pack_bits
from dartes.spec import load_job
from dartes.state import RunFolder
from dartes.state.history import Decision


def journal_objects(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """One JSON object per iteration, with all numbers at full precision.

    Problem lists are in batch order; pass rows are hex of packed bits, least significant bit first, one row
    per member. `scores` is null where they equal the passes, `auxiliary` where all are 0. Seeds are decimal
    strings: most readers of JSON hold numbers as float64. Problem indices count within the stage. `buffer`
    lists the problems in the replay buffer after the iteration.

    Raises
    ------
    ConfigurationError
        No run here, or its data set can't be read.
    DivergenceError
        After the last iteration that is what the stored bits lead to.
    """
    with retold(folder) as run:
        buffer: set[int] = set()
        stage = 0
        for decision in run.decisions(run.new_state()):
            batch, entered = decision.batch, decision.scored.in_buffer_after
            if batch.stage != stage:
                stage = batch.stage
                buffer.clear()
            buffer.difference_update(batch.problems[~entered].tolist())
            buffer.update(batch.problems[entered].tolist())
            yield _object(decision, sorted(buffer))


def journal_json(folder: RunFolder) -> Iterator[str]:
    """One line of JSON per iteration; a value that JSON does not have would raise ValueError."""
    for entry in journal_objects(folder):
        yield json.dumps(entry, allow_nan=False)


def journal_lines(folder: RunFolder) -> Iterator[str]:
    """One line per iteration for people; the stage stands in it where there are several."""
    require_run(folder)
    several = len(load_job(folder.job).job.spec.dataset.stages) > 1
    for entry in journal_objects(folder):
        replayed = sum(p["source"] == "replay" for p in entry["problems"])
        low, high = min(entry["coefficients"]), max(entry["coefficients"])
        yield "  ".join(
            [
                f"{entry['iteration']:>6}",
                *([f"stage {entry['stage']}"] if several else []),
                f"epoch {entry['epoch']}",
                f"{len(entry['problems'])} problems ({replayed} replayed)",
                f"pass rate {np.mean(entry['pass_rates']):.3f}",
                f"coefficients {low:+.2e}..{high:+.2e}",
                f"buffer {len(entry['buffer'])}",
                f"row {entry['row_hash'][:16]}",
            ]
        )


def _object(decision: Decision, buffer: Sequence[int]) -> dict[str, Any]:
    stored, batch, scored = decision.stored, decision.batch, decision.scored
    rows = zip(batch.problems.tolist(), batch.replayed.tolist(), strict=True)
    return {
        "iteration": stored.iteration,
        "stage": stored.stage,
        "epoch": stored.epoch,
        "problems": [
            {"index": index, "source": "replay" if replayed else "fresh"} for index, replayed in rows
        ],
        "replay_slots": batch.slots,
        "replay_eligible": batch.eligible_count,
        "seeds": [str(seed) for seed in decision.row.seeds.tolist()],
        "passed": [pack_bits(row).hex() for row in stored.passed],
        "scores": None if stored.scores is None else stored.scores.tolist(),
        "auxiliary": None if stored.auxiliary is None else stored.auxiliary.tolist(),
        "pass_rates": scored.pass_rates.tolist(),
        "history_before": _with_null(scored.history_before),
        "history_after": scored.history_after.tolist(),
        "weights": scored.weights.tolist(),
        "raw_fitness": scored.raw.tolist(),
        "weighted_fitness": scored.fitness.tolist(),
        "normalised_fitness": scored.normalised.tolist(),
        "coefficients": decision.row.coefficients.tolist(),
        "membership": [str(change) for change in scored.changes],
        "buffer": list(buffer),
        "row_hash": decision.row_hash.hex(),
    }


def _with_null(values: NDArray[np.float64]) -> list[float | None]:
    """NaN (never visited) as null: JSON has no NaN."""
    return [None if np.isnan(value) else float(value) for value in values]
