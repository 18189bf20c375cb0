"""What is reported of stored evaluations: one point per set and iteration, and each set's way from the base.

Pure: figures come from `estimators`, and which iteration is the best from the first evaluation set alone, as
`dartes export --iteration Best` has it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dartes.report.estimators import (
    change_interval,
    majority_passes,
    mean_interval,
    pass_at_k,
    sample_counts,
)
from dartes.state import StoredEvaluation


def point_of(evaluation: StoredEvaluation) -> dict[str, Any]:
    """One evaluation as a JSON object.

    `accuracy` is pass@1, the mean over problems and samples (mean@K), with its 95 % interval; `passed` of
    `answers` passed. `pass_at_k` is by k; `maj_at_k` is null where answers have no keys to vote with.
    `mean_length` is in tokens; it, `format_share` and `mean_score` are null where they were not recorded.
    Where passes are wins over a base model and there is none, all shares of passes are null, and `no_base`
    says why.
    """
    passed = by_problem(evaluation)
    majority = None if lacks_base(evaluation) else _majority(evaluation, passed)
    shares = {str(k): float(pass_at_k(passed, k).mean()) for k in sample_counts(evaluation.samples)}
    beside = evaluation.beside
    return {
        **accuracy_of(evaluation),
        "pass_at_k": None if lacks_base(evaluation) else shares,
        "maj_at_k": None if majority is None else float(majority.mean()),
        "maj_interval95": None if majority is None else list(mean_interval(majority.astype(np.float64))),
        "truncated_share": float(evaluation.truncated.mean()),
        "mean_length": beside.get("mean_length"),
        "format_share": beside.get("format_share"),
        "mean_score": beside.get("mean_score"),
    }


def accuracy_of(evaluation: StoredEvaluation) -> dict[str, Any]:
    """The part of a point that is found at once: accuracy and what it is of, else the mean score and why."""
    rates = by_problem(evaluation).mean(axis=1)
    found: dict[str, Any] = {
        "iteration": evaluation.iteration,
        "accuracy": evaluation.accuracy,
        "passed": int(evaluation.passed.sum()),
        "problems": evaluation.problems,
        "samples": evaluation.samples,
        "answers": len(evaluation.passed),
        "interval95": list(mean_interval(rates, evaluation.samples)),
    }
    if lacks_base(evaluation):
        found |= dict.fromkeys(("accuracy", "passed", "interval95"))
        found |= {name: evaluation.beside.get(name) for name in ("mean_score", "no_base")}
    return found


def lacks_base(evaluation: StoredEvaluation) -> bool:
    """Whether passes are wins over the base model and there is none: only the mean score says something."""
    return "no_base" in evaluation.beside


def by_problem(evaluation: StoredEvaluation) -> NDArray[np.bool_]:
    """Pass bits as [problems, samples]."""
    return evaluation.passed.reshape(evaluation.problems, evaluation.samples)


def best_iteration(evaluations: Iterable[StoredEvaluation], first_set: str | None) -> int | None:
    """The iteration with the highest accuracy on `first_set`, of equals the earliest; None without any.

    Evaluations that lack a base model to win over have no accuracy.
    """
    known = [(-e.accuracy, e.iteration) for e in evaluations if e.set_name == first_set and not lacks_base(e)]
    return min(known)[1] if known else None


def evaluation_entries(
    evaluations: Sequence[StoredEvaluation], first_set: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(sets, holdouts) by name: their points at the base, at the last and at the best iteration, and all.

    `change` is what happened since the base model: in points of accuracy (hundredths), with the 95 % interval
    of the difference on the same problems. For a holdout a fall is what was forgotten.
    """
    best = best_iteration(evaluations, first_set)
    by_name: dict[str, list[StoredEvaluation]] = {}
    for evaluation in evaluations:
        by_name.setdefault(evaluation.set_name, []).append(evaluation)
    sets: dict[str, Any] = {}
    holdouts: dict[str, Any] = {}
    for name, own in by_name.items():
        into = holdouts if is_holdout(own[-1]) else sets
        into[name] = _entry(sorted(own, key=lambda e: e.iteration), best)
    return sets, holdouts


def is_holdout(evaluation: StoredEvaluation) -> bool:
    """Whether the set measures what is forgotten, and never chooses the best iteration."""
    return bool(evaluation.beside.get("holdout"))


def change_of(base: StoredEvaluation, later: StoredEvaluation) -> dict[str, Any] | None:
    """Change in points with its 95 % interval; None where the sets are not of the same problems."""
    if lacks_base(later) or (base.problems, base.samples) != (later.problems, later.samples):
        return None
    before, after = by_problem(base).mean(axis=1), by_problem(later).mean(axis=1)
    low, high = change_interval(before, after, base.samples)
    return {"points": 100 * (later.accuracy - base.accuracy), "interval95": [100 * low, 100 * high]}


def _entry(own: list[StoredEvaluation], best: int | None) -> dict[str, Any]:
    points = [point_of(evaluation) for evaluation in own]
    first, last = own[0], own[-1]
    change = change_of(first, last) if first.iteration == 0 and last is not first else None
    return {
        "before": points[0] if first.iteration == 0 else None,
        "after": points[-1],
        "best": next((point for point in points if point["iteration"] == best), None),
        "change": change,
        "against_base": bool(last.beside.get("against_base")),
        "all": points,
    }


def _majority(evaluation: StoredEvaluation, passed: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    if evaluation.keys is None or not evaluation.keys.any():
        return None
    return majority_passes(passed, evaluation.keys.reshape(passed.shape))
