"""How a batch is shared out among the data sets of a mix: largest remainder, in exact fractions.

Knows numbers only; job files are checked with it and batches are drawn with it.
"""

from collections.abc import Sequence
from fractions import Fraction


def quotas(batch_size: int, weights: Sequence[float]) -> tuple[int, ...]:
    """Problems of every batch from each set: parts of B in proportion to the weights (finite, above 0).

    Each set gets the whole part of B * weight / sum; what is left goes, one each, to the largest remainders,
    to the lower index where two are equal. A set may get 0.
    """
    exact = [Fraction(weight) for weight in weights]
    total = sum(exact, Fraction(0))
    shares = [batch_size * weight / total for weight in exact]
    counts = [int(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda m: (counts[m] - shares[m], m))
    for m in by_remainder[: batch_size - sum(counts)]:
        counts[m] += 1
    return tuple(counts)
