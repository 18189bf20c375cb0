"""The difficulty state: what the algorithm remembers per problem, and how far the current epoch is.

It holds values and hands out the epoch's order; the rules that read and change it are in `batch`, `score`
and `commit`. A fresh state plus the recorded results of every iteration gives any later state again.
"""

import copy
import hashlib
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dartes.noise.streams import Purpose, shuffled

NEVER = -(1 << 62)
"""`last_replay` of a problem that was never replayed: longer ago than any cooldown."""


@dataclass(eq=False)
class DifficultyState:
    """Per-problem arrays of length P (problem index = position) and the place in the epoch.

    `epoch` and `cursor` stand after the last committed batch: `cursor` problems of `epoch` were visited as
    fresh. At `cursor == P` the next batch opens the next epoch, and only then the replay counts restart.
    """

    history: NDArray[np.float64]
    """pbar_j, the moving average of the pass rate; NaN before the first visit."""
    latest: NDArray[np.float64]
    """p_j of the latest visit; NaN before the first visit. Stands for pbar_j with `history` off."""
    visited: NDArray[np.bool_]
    zero_visits: NDArray[np.int32]
    """Consecutive visits, up to the latest one, that no member passed."""
    in_buffer: NDArray[np.bool_]
    replays: NDArray[np.int32]
    """Replay visits in `epoch`."""
    last_replay: NDArray[np.int64]
    """Iteration of the latest replay visit, in any epoch, or NEVER."""
    epoch: int
    cursor: int
    _order: tuple[tuple[int, int, int], NDArray[np.int64]] | None = field(default=None, repr=False)

    @classmethod
    def new(cls, problem_count: int) -> Self:
        """The state before the first iteration, for P = problem_count problems."""
        if problem_count < 1:
            raise ValueError(f"problem_count = {problem_count}: must be at least 1")
        return cls(
            history=np.full(problem_count, np.nan),
            latest=np.full(problem_count, np.nan),
            visited=np.zeros(problem_count, dtype=np.bool_),
            zero_visits=np.zeros(problem_count, dtype=np.int32),
            in_buffer=np.zeros(problem_count, dtype=np.bool_),
            replays=np.zeros(problem_count, dtype=np.int32),
            last_replay=np.full(problem_count, NEVER, dtype=np.int64),
            epoch=0,
            cursor=0,
        )

    @property
    def problem_count(self) -> int:
        return int(self.history.size)

    @property
    def buffer_size(self) -> int:
        """Problems in the replay buffer now."""
        return int(np.count_nonzero(self.in_buffer))

    def copy(self) -> Self:
        """An independent state with equal values."""
        twin = copy.copy(self)
        for name, array in self._arrays().items():
            setattr(twin, name, array.copy())
        return twin

    def digest(self) -> str:
        """SHA-256 (hex) over every value of the state; equal states have equal digests on any machine."""
        hasher = hashlib.sha256(f"{self.problem_count} {self.epoch} {self.cursor}".encode())
        for name, array in self._arrays().items():
            hasher.update(name.encode())
            hasher.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data)
        return hasher.hexdigest()

    def epoch_order(self, run_seed: int, stage: int, epoch: int) -> NDArray[np.int64]:
        """The order in which `epoch` visits all problems as fresh, int64[P], read-only.

        A pure function of the arguments and P. The latest one is kept: at a million problems the shuffle
        costs a hundred times what the rest of a batch costs.
        """
        key = (run_seed, stage, epoch)
        if self._order is None or self._order[0] != key:
            order = shuffled(run_seed, Purpose.EPOCH_SHUFFLE, stage, epoch, self.problem_count)
            order.setflags(write=False)
            self._order = (key, order)
        return self._order[1]

    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        return {
            "history": self.history,
            "latest": self.latest,
            "visited": self.visited,
            "zero_visits": self.zero_visits,
            "in_buffer": self.in_buffer,
            "replays": self.replays,
            "last_replay": self.last_replay,
        }
