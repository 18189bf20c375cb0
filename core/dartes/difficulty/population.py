"""The members of an iteration: which noise each one carries, and with which sign.

A member is written with sign * sigma, and its row in the journal carries sign * coefficient.
"""

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty.settings import AlgorithmSettings, stream_key
from dartes.ids import Iteration
from dartes.noise.streams import Purpose, words


def member_seeds(settings: AlgorithmSettings, iteration: Iteration, stage: int = 0) -> NDArray[np.uint64]:
    """The noise seed s_i of every member, uint64[N]: word i of the iteration's seed stream.

    With antithetic pairs, members 2i and 2i + 1 share word i.
    """
    key = stream_key(stage)
    if settings.antithetic:
        pairs = settings.population_size // 2
        return np.repeat(words(settings.seed, Purpose.MEMBER_SEED, key, iteration, 0, pairs), 2)
    return words(settings.seed, Purpose.MEMBER_SEED, key, iteration, 0, settings.population_size)


def member_signs(settings: AlgorithmSettings) -> NDArray[np.float32]:
    """+1 for every member, float32[N]; with antithetic pairs +1, -1, +1, -1, ..."""
    signs = np.ones(settings.population_size, dtype=np.float32)
    if settings.antithetic:
        signs[1::2] = -1.0
    return signs
