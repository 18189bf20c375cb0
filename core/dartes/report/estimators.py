"""What the answers to an evaluation set amount to: pass@k, mean@K, maj@K, and how sure one may be of them.

Pure functions of bits and keys, without randomness: the same answers give the same figures everywhere. Every
interval is one of 95 %, and takes problems, not answers, as what was drawn at random.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""

NO_ANSWER = 0
"""The key of an answer in which nothing was found; it never votes."""


def wilson_interval(passed: float, count: float, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval of a share (Wilson 1927); z = 1.96 gives 95 %.

    `count` may be an effective number of observations, and then neither it nor `passed` is whole.
    """
    if count == 0:
        return 0.0, 1.0
    share = passed / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * ((share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5)
    return max(0.0, centre - half), min(1.0, centre + half)


def sample_counts(samples: int) -> list[int]:
    """The k of the pass@k that K samples give: 1, 2, 4, ... and K itself."""
    powers = [1 << bit for bit in range(samples.bit_length())]
    return powers if powers[-1] == samples else [*powers, samples]


def pass_at_k(passed: NDArray[np.bool_], k: int) -> NDArray[np.float64]:
    """Per problem, the chance that one of k answers drawn from its K passes; `passed` is [R, K], 1 <= k <= K.

    The unbiased estimator 1 - C(K - c, k) / C(K, k) for c passes of K (Chen et al. 2021), from whole numbers.
    """
    samples = passed.shape[1]
    if not 1 <= k <= samples:
        raise ValueError(f"k is {k}; allowed: 1 to {samples}")
    ways = math.comb(samples, k)
    by_count = [float(Fraction(ways - math.comb(samples - c, k), ways)) for c in range(samples + 1)]
    chances: NDArray[np.float64] = np.array(by_count, np.float64)[passed.sum(axis=1)]
    return chances


def majority_passes(passed: NDArray[np.bool_], keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Per problem, whether the answer given most often passes; both are [R, K].

    Of equally frequent answers the earliest one counts; without any vote the problem is not passed.
    """
    won = [_majority(row) for row in keys.tolist()]
    return np.array(
        [at is not None and bool(bits[at]) for at, bits in zip(won, passed, strict=True)], np.bool_
    )


def mean_interval(values: NDArray[np.float64], samples: int = 1) -> tuple[float, float]:
    """95 % interval of the mean of per-problem `values` in 0..1, [R], each from `samples` answers.

    Wilson's interval with the effective number of observations m(1 - m) / (s^2 / R), m the mean and s the
    standard deviation over problems (as for clustered samples: Dean and Pagano 2015). It lies between R (a
    problem's answers are all alike) and R x samples (they are independent); one answer each gives the plain
    Wilson interval.
    """
    count = len(values)
    if count == 0:
        return 0.0, 1.0
    mean = float(np.mean(values))
    effective = float(count)
    if count > 1 and samples > 1:
        variance = float(np.var(values, ddof=1)) / count
        spread = mean * (1 - mean)
        most = float(count * samples)
        if spread > 0:
            effective = most if variance <= spread / most else max(float(count), spread / variance)
    return wilson_interval(mean * effective, effective)


def change_interval(
    before: NDArray[np.float64], after: NDArray[np.float64], samples: int = 1
) -> tuple[float, float]:
    """95 % interval of mean(after) - mean(before), per-problem values in 0..1 of the same problems, [R].

    Newcombe (1998, "Improved confidence intervals for the difference between binomial proportions based on
    paired data", method 10): the two Wilson intervals squared and added, less the part that the correlation
    of the pairs explains, which is corrected for continuity. For several samples the intervals are those of
    `mean_interval` and the correlation is that of the means (Zou and Donner 2008).
    """
    count = len(before)
    if count != len(after):
        raise ValueError(f"{count} problems before and {len(after)} after")
    if count == 0:
        return -1.0, 1.0
    p, q = float(np.mean(before)), float(np.mean(after))
    (p_low, p_high), (q_low, q_high) = mean_interval(before, samples), mean_interval(after, samples)
    correlation = _correlation(before, after)
    down = _hypotenuse(q - q_low, p_high - p, correlation)
    up = _hypotenuse(q_high - q, p - p_low, correlation)
    return max(-1.0, q - p - down), min(1.0, q - p + up)


def _majority(keys: Sequence[int]) -> int | None:
    """Index of the first answer with the most frequent key, or None where nothing votes."""
    first: dict[int, int] = {}
    votes: dict[int, int] = {}
    for position, key in enumerate(keys):
        if key != NO_ANSWER:
            first.setdefault(key, position)
            votes[key] = votes.get(key, 0) + 1
    if not votes:
        return None
    return first[max(votes, key=lambda key: (votes[key], -first[key]))]


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    spread = float(np.std(x)) * float(np.std(y))
    if spread == 0:
        return 0.0
    covariance = float(np.mean(x * y)) - float(np.mean(x)) * float(np.mean(y))
    if covariance > 0:
        covariance = max(0.0, covariance - 1 / (2 * len(x)))
    return max(-1.0, min(1.0, covariance / spread))


def _hypotenuse(a: float, b: float, correlation: float) -> float:
    return math.sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b))
