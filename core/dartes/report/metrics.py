"""One line of `metrics.jsonl` per iteration, from what was stored and what it led to."""

import math
from typing import Any

import numpy as np

from dartes.difficulty import Batch, Scored, sign_flip_share
from dartes.report.evaluations import lacks_base
from dartes.state import StoredEvaluation, StoredIteration


def metrics_of(
    stored: StoredIteration,
    batch: Batch,
    scored: Scored,
    evaluations: list[StoredEvaluation],
) -> dict[str, Any]:
    """The metrics of one iteration as a JSON object.

    `evaluations` are those of the weights that this iteration's members were made from. Seconds by part are
    sums over workers; `seconds` is the wall clock of the iteration. A set without a base model to win over
    has no accuracy, and is left out.
    """
    beside = stored.beside
    seconds = float(beside["seconds"])
    fitness = scored.fitness
    line: dict[str, Any] = {
        "iteration": stored.iteration,
        "stage": stored.stage,
        "epoch": stored.epoch,
        "pass_rate": float(np.mean(scored.pass_rates)),
        "fresh_pass_rate": _mean(scored.pass_rates[~stored.replayed]),
        "replay_pass_rate": _mean(scored.pass_rates[stored.replayed]),
        "problems": batch.size,
        "replayed": batch.replay_count,
        "replay_slots": batch.slots,
        "replay_eligible": batch.eligible_count,
        "replay_buffer_size": scored.buffer_size,
        "mean_history": float(np.mean(scored.history_after)),
        "fitness_mean": math.fsum(fitness) / len(fitness),
        "fitness_std": float(np.std(fitness)),
        "raw_mean": math.fsum(scored.raw) / len(scored.raw),
        "sign_flip_share": sign_flip_share(scored),
        "truncated_share": float(np.mean(stored.truncated)),
        "seconds": seconds,
        "generated_tokens": beside["generated_tokens"],
        "tokens_per_second": beside["generated_tokens"] / seconds if seconds > 0 else 0.0,
        "row_hash": stored.row_hash.hex(),
    }
    if stored.parent_passed is not None:
        line["parent_pass_rate"] = float(np.mean(stored.parent_passed))
    line["evaluations"] = {e.set_name: e.accuracy for e in evaluations if not lacks_base(e)}
    for name in (
        "seconds_by_part",
        "tail_seconds",
        "alone_seconds",
        "wire_bytes",
        "workers",
        "reissued",
        "speculated",
        "nondeterministic_reports",
        "commit_seconds",
    ):
        line[name] = beside.get(name)
    return line


def _mean(values: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    return float(np.mean(values)) if len(values) else None
