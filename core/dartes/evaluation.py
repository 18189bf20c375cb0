"""What coordinator, workers and commands share about evaluating: blocks, wins over the base, the record.

Pure. A problem with K samples has K answers side by side; who answers what, and when, is decided elsewhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dartes.state import StoredCompletion, StoredEvaluation

EVALUATION_BLOCK = 256
"""Answers to an evaluation set per block: fixed, so that they do not depend on the number of workers."""


def rows_per_block(samples: int) -> int:
    """Problems per block of a set with so many answers to each."""
    return max(1, EVALUATION_BLOCK // samples)


def blocks(size: int, samples: int) -> list[tuple[int, int]]:
    """(first row, rows) of each block of a set of `size` problems."""
    rows = rows_per_block(samples)
    return [(first, min(rows, size - first)) for first in range(0, size, rows)]


def logged_rows(wanted: int, first_row: int, row_count: int) -> int:
    """How many of a block's first rows are among the set's first `wanted`."""
    return max(0, min(row_count, wanted - first_row))


@dataclass(frozen=True)
class Answered:
    """All answers of one model to one set; every array has shape [problems * samples].

    `keys` counts only with several samples; `scores` equal the passes unless `scores_differ`.
    """

    passed: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    scores: NDArray[np.float32]
    auxiliary: NDArray[np.float32]
    keys: NDArray[np.uint64]
    scores_differ: bool
    generated_tokens: int
    completions: tuple[StoredCompletion, ...] = ()


def stored_evaluation(
    answered: Answered,
    *,
    iteration: int,
    name: str,
    samples: int,
    holdout: bool,
    against_base: bool,
    first: StoredEvaluation | None = None,
) -> StoredEvaluation:
    """The record of a set's answers.

    With `against_base` a pass is a score above the base model's on the same problem. `first` is the set's
    earliest evaluation, None at that one itself. Where it is not of the base model nothing passes, and the
    record says why as `no_base`: only the mean score counts then.
    """
    passed, completions, without = answered.passed, answered.completions, None
    if against_base:
        problems = len(passed) // samples
        without = no_base(first, iteration, problems)
        base = None if first is None else base_of(first, iteration, problems)
        passed = wins(answered.scores, base, samples)
        nothing = "the base model itself" if without is None else f"no base: {without}"
        completions = tuple(_judged(c, passed, base, samples, nothing) for c in completions)
    beside = {
        "generated_tokens": answered.generated_tokens,
        "mean_length": answered.generated_tokens / max(1, len(passed)),
        "format_share": _mean(answered.auxiliary),
        "mean_score": _mean(answered.scores),
        "holdout": holdout,
        "against_base": against_base,
        **({} if without is None else {"no_base": without}),
    }
    return StoredEvaluation(
        iteration=iteration,
        set_name=name,
        passed=passed,
        truncated=answered.truncated,
        beside=beside,
        samples=samples,
        keys=answered.keys if samples > 1 else None,
        scores=answered.scores if against_base or answered.scores_differ else None,
        completions=completions,
    )


def base_of(first: StoredEvaluation, iteration: int, problems: int) -> StoredEvaluation | None:
    """What an evaluation after `iteration` updates is compared with; None where there is nothing.

    `first`, the set's earliest evaluation, is that only if it is of the base model and of as many problems:
    trained weights are no measure of what training has won.
    """
    return first if first.iteration == 0 < iteration and first.problems == problems else None


def no_base(first: StoredEvaluation | None, iteration: int, problems: int) -> str | None:
    """Why trained weights have no base model to be compared with, in words; None where they have one.

    Also None at iteration 0, which is the base model itself.
    """
    if iteration == 0:
        return None
    if first is None or first.iteration > 0:
        return f"this set was added at iteration {iteration if first is None else first.iteration}"
    if first.problems != problems:
        return f"this set had {first.problems} problems at iteration 0, and has {problems} now"
    return None


def wins(scores: NDArray[np.float32], base: StoredEvaluation | None, samples: int) -> NDArray[np.bool_]:
    """Which answers score above the base model's mean score on the same problem; `scores` is [R * K].

    None at the base model itself, which does not win against itself, and where there is no base.
    """
    if base is None:
        return np.zeros(len(scores), np.bool_)
    won: NDArray[np.bool_] = scores > np.repeat(base_level(base), samples)
    return won


def base_level(base: StoredEvaluation) -> NDArray[np.float32]:
    """The base model's mean score per problem, [R], in the type in which scores travel."""
    scores = base.passed.astype(np.float32) if base.scores is None else base.scores
    by_problem = scores.reshape(base.problems, base.samples).astype(np.float64)
    level: NDArray[np.float32] = by_problem.mean(axis=1).astype(np.float32)
    return level


def first_evaluations(evaluations: Sequence[StoredEvaluation]) -> dict[str, StoredEvaluation]:
    """The earliest evaluation of each set: wins are counted against it where it is of the base model."""
    return {e.set_name: e for e in sorted(evaluations, key=lambda e: -e.iteration)}


def wrong_wins(evaluations: Sequence[StoredEvaluation]) -> Iterator[str]:
    """A sentence for each evaluation against the base model whose passes its scores do not lead to."""
    first = first_evaluations(evaluations)
    for evaluation in evaluations:
        if not evaluation.beside.get("against_base"):
            continue
        place = (first[evaluation.set_name], evaluation.iteration, evaluation.problems)
        if evaluation.scores is None or not np.array_equal(
            evaluation.passed, wins(evaluation.scores, base_of(*place), evaluation.samples)
        ):
            without = no_base(*place)
            yield (
                f"evaluation set {evaluation.set_name!r}, iteration {evaluation.iteration}: the stored "
                "passes are not the scores above the base model's"
                + ("" if without is None else f" (no base: {without})")
            )


def _judged(
    completion: StoredCompletion,
    passed: NDArray[np.bool_],
    base: StoredEvaluation | None,
    samples: int,
    nothing: str,
) -> StoredCompletion:
    """With whether it won; `nothing` is the reason of one that has nothing to be compared with."""
    won = bool(passed[completion.row * samples + completion.sample])
    if base is None:
        reason = nothing
    elif won:
        reason = ""
    else:
        reason = f"scores {completion.score:.4g}, the base model {base_level(base)[completion.row]:.4g}"
    return replace(completion, passed=won, reason=reason)


def _mean(values: NDArray[np.float32]) -> float:
    return float(values.astype(np.float64).mean()) if len(values) else 0.0
