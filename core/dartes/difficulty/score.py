"""From graded results to coefficients: pass rates, history, weights, fitness, normalisation.

Legend: N members, B' problems of the batch; index i is a member, j a position in the batch. Every sum is
exactly rounded (`math.fsum`), so neither arrival order nor slices can change a bit. Nothing here changes
the state; `commit.advance` does.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty.batch import Batch
from dartes.difficulty.exponential import exp
from dartes.difficulty.membership import MembershipChange, decide_membership
from dartes.difficulty.settings import AlgorithmSettings
from dartes.difficulty.state import DifficultyState

STD_FLOOR = 1e-8
"""Added to the standard deviation of the fitness before it divides."""


@dataclass(frozen=True, eq=False)
class Results:
    """The graded answers of one iteration, columns in the batch's order.

    Raises ValueError for arrays of different shapes or a score that is not finite.
    """

    passed: NDArray[np.bool_]
    """a_ij, bool[N, B']."""
    scores: NDArray[np.float32] | None = None
    """r_ij, the primary scores, float32[N, B']; None = equal to `passed`. `judge` makes both from grades."""
    auxiliary: NDArray[np.float32] | None = None
    """f_ij, the auxiliary scores, float32[N, B']; None = none are given, which counts as 0."""

    def __post_init__(self) -> None:
        if self.passed.ndim != 2 or self.passed.dtype != np.bool_:
            raise ValueError(f"passed: {_described(self.passed)}, must be bool[N, B']")
        for name, values in (("scores", self.scores), ("auxiliary", self.auxiliary)):
            if values is None:
                continue
            if values.shape != self.passed.shape or values.dtype != np.float32:
                raise ValueError(f"{name}: {_described(values)}, must be float32{list(self.passed.shape)}")
            if not np.all(np.isfinite(values)):
                raise ValueError(f"{name}: every value must be finite")


@dataclass(frozen=True, eq=False)
class Scored:
    """Everything that results decided in one iteration; arrays of length B' are in the batch's order."""

    pass_rates: NDArray[np.float64]
    """p_j, float64[B']."""
    history_before: NDArray[np.float64]
    """pbar_j before this visit, float64[B']; NaN = never visited."""
    history_after: NDArray[np.float64]
    estimates: NDArray[np.float64]
    """What weights and mastery used: `history_after`, or `pass_rates` with `history` off; float64[B']."""
    weights: NDArray[np.float32]
    """w_j, float32[B']; all 1 without reweighting."""
    fitness: NDArray[np.float64]
    """F_i, float64[N]."""
    raw: NDArray[np.float64]
    """R_i, the fitness that plain ES would use, float64[N]."""
    normalised: NDArray[np.float64]
    """z_i, float64[N]; all 0 where every fitness is equal."""
    coefficients: NDArray[np.float32]
    """c_i = alpha / N * z_i, rounded once, float32[N]; a member's sign is not in it."""
    in_buffer_after: NDArray[np.bool_]
    zero_visits_after: NDArray[np.int32]
    changes: tuple[MembershipChange, ...]
    """What the visit did to each problem's place in the replay buffer, length B'."""
    buffer_size: int
    """Problems in the replay buffer after this iteration."""


def score(settings: AlgorithmSettings, state: DifficultyState, batch: Batch, results: Results) -> Scored:
    """What the results of `batch` decide, given the state that the batch was drawn from.

    Raises ValueError where the results are not of N members and B' problems.
    """
    expected = (settings.population_size, batch.size)
    if results.passed.shape != expected:
        raise ValueError(f"results are of shape {results.passed.shape}, this iteration needs {expected}")
    problems = batch.problems
    pass_rates = np.count_nonzero(results.passed, axis=0) / settings.population_size
    history_before = state.history[problems]
    averaged = settings.ema_decay * history_before + (1.0 - settings.ema_decay) * pass_rates
    history_after = np.where(state.visited[problems], averaged, pass_rates)
    estimates = history_after if settings.history else pass_rates
    weights = difficulty_weights(settings, estimates)
    fitness, raw = _fitness(settings, weights, results, _auxiliary_weights(settings, state, problems))
    normalised = normalise(fitness)
    membership = decide_membership(
        settings, state.in_buffer[problems], state.zero_visits[problems], pass_rates, estimates
    )
    entered = membership.changes.count(MembershipChange.ADMITTED)
    unchanged = membership.changes.count(MembershipChange.UNCHANGED)
    return Scored(
        pass_rates=pass_rates,
        history_before=history_before,
        history_after=history_after,
        estimates=estimates,
        weights=weights,
        fitness=fitness,
        raw=raw,
        normalised=normalised,
        coefficients=coefficients_of(settings, normalised),
        in_buffer_after=membership.in_buffer,
        zero_visits_after=membership.zero_visits,
        changes=membership.changes,
        buffer_size=batch.buffer_size + entered - (batch.size - unchanged - entered),
    )


def difficulty_weights(settings: AlgorithmSettings, estimates: NDArray[np.float64]) -> NDArray[np.float32]:
    """w_j = floor + exp(-kappa * pbar_j), float64 rounded once to float32; all 1 without reweighting."""
    if not settings.reweighting:
        return np.ones(estimates.size, dtype=np.float32)
    unrounded = settings.weight_floor + exp(-(settings.weight_exponent * estimates))
    return unrounded.astype(np.float32)


def normalise(fitness: NDArray[np.float64]) -> NDArray[np.float64]:
    """z_i = (F_i - mean F) / (std F + 1e-8), population std; exactly 0 where all F_i are equal.

    Equal values are found by comparing maximum and minimum: their mean may round away from them, which
    leaves a standard deviation that is not 0.
    """
    values: list[float] = fitness.tolist()
    if max(values) == min(values):
        return np.zeros(len(values))
    mean = math.fsum(values) / len(values)
    deviations = [value - mean for value in values]
    variance = math.fsum(deviation * deviation for deviation in deviations) / len(values)
    divisor = math.sqrt(variance) + STD_FLOOR
    return np.array([deviation / divisor for deviation in deviations])


def coefficients_of(settings: AlgorithmSettings, normalised: NDArray[np.float64]) -> NDArray[np.float32]:
    """c_i = (alpha / N) * z_i: a float64 product, rounded once to float32[N]."""
    step = settings.learning_rate / settings.population_size
    return (step * normalised).astype(np.float32)


def sign_flip_share(scored: Scored) -> float:
    """The share of members whose coefficient has the opposite sign of the one plain ES would give.

    Between z(F) and z(R); a member for which either is 0 does not count as flipped.
    """
    return float(np.mean(np.sign(normalise(scored.raw)) * np.sign(scored.normalised) < 0))


def _fitness(
    settings: AlgorithmSettings,
    weights: NDArray[np.float32],
    results: Results,
    auxiliary_weights: Mapping[float, NDArray[np.bool_]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """F_i and R_i, float64[N] each: mean_j(w_j * r_ij) and mean_j(r_ij), plus the auxiliary term.

    A product of two float32 is exact in float64.
    """
    scores = (results.passed if results.scores is None else results.scores).astype(np.float64)
    raw = _row_means(scores)
    fitness = _row_means(scores * weights.astype(np.float64)) if settings.reweighting else raw
    if results.auxiliary is None:
        return fitness, raw
    auxiliary = results.auxiliary.astype(np.float64)
    terms = [weight * _row_means(auxiliary * columns) for weight, columns in auxiliary_weights.items()]
    bonus = np.array([math.fsum(of_member) for of_member in zip(*terms, strict=True)])
    return fitness + bonus, raw + bonus


def _auxiliary_weights(
    settings: AlgorithmSettings, state: DifficultyState, problems: NDArray[np.int64]
) -> dict[float, NDArray[np.bool_]]:
    """Each weight of the auxiliary score in this stage, and the columns that have it, bool[B']."""
    weight_of_set = [one.rules.auxiliary_weight for one in settings.stages[state.stage].sets]
    weight_of_column = np.array(weight_of_set)[state.sets_of(problems)]
    return {weight: weight_of_column == weight for weight in weight_of_set}


def _row_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    count = values.shape[1]
    return np.array([math.fsum(row) / count for row in values.tolist()])


def _described(array: NDArray[Any]) -> str:
    return f"{array.dtype}{list(array.shape)}"
