"""The difficulty state: what the algorithm remembers per problem, and how far each data set is walked.

It holds values and hands out the epochs' orders; the rules that read and change it are in `batch`, `score`
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
class Walk:
    """How far one data set of a stage is walked; its problems have the indices offset .. offset + count - 1.

    `epoch` and `cursor` stand after the last committed batch: `cursor` problems of `epoch` were visited as
    fresh. At `cursor == count` the set's next share opens its next epoch, and only then its replay counts
    restart.
    """

    offset: int
    count: int
    epoch: int = 0
    cursor: int = 0
    _order: tuple[tuple[int, int, int], NDArray[np.int64]] | None = field(default=None, repr=False)

    @property
    def problems(self) -> slice:
        """Its place in arrays over all problems of the stage."""
        return slice(self.offset, self.offset + self.count)

    @property
    def next_place(self) -> tuple[int, int]:
        """Epoch and cursor of the next share: a walked-through epoch gives way to the next one."""
        return (self.epoch + 1, 0) if self.cursor == self.count else (self.epoch, self.cursor)

    def order(self, run_seed: int, key: int, epoch: int) -> NDArray[np.int64]:
        """The problems in the order in which `epoch` visits them as fresh, int64[count], read-only.

        A pure function of the arguments and the set; `key` is the stage word of its random streams. The
        latest one is kept: at a million problems the shuffle costs a hundred times what the rest of a batch
        costs.
        """
        wanted = (run_seed, key, epoch)
        if self._order is None or self._order[0] != wanted:
            order = shuffled(run_seed, Purpose.EPOCH_SHUFFLE, key, epoch, self.count) + self.offset
            order.setflags(write=False)
            self._order = (wanted, order)
        return self._order[1]


@dataclass(eq=False)
class DifficultyState:
    """What is remembered of the stage under way: per-problem arrays of length P, and a walk per data set.

    A problem's index is its position: the sets of the stage stand one after the other. Each stage begins with
    a fresh state; of earlier ones nothing is kept.
    """

    problem_counts: tuple[tuple[int, ...], ...]
    """Number of problems by stage and set."""
    stage: int = 0
    first_iteration: int = 0
    """The stage's first iteration."""
    history: NDArray[np.float64] = field(init=False)
    """pbar_j, the moving average of the pass rate; NaN before the first visit."""
    latest: NDArray[np.float64] = field(init=False)
    """p_j of the latest visit; NaN before the first visit. Stands for pbar_j with `history` off."""
    visited: NDArray[np.bool_] = field(init=False)
    zero_visits: NDArray[np.int32] = field(init=False)
    """Consecutive visits, up to the latest one, that no member passed."""
    in_buffer: NDArray[np.bool_] = field(init=False)
    replays: NDArray[np.int32] = field(init=False)
    """Replay visits in the present epoch of the problem's set."""
    last_replay: NDArray[np.int64] = field(init=False)
    """Iteration of the latest replay visit, in any epoch, or NEVER."""
    walks: list[Walk] = field(init=False)

    def __post_init__(self) -> None:
        if not self.problem_counts or not all(self.problem_counts):
            raise ValueError(f"problem counts {self.problem_counts}: at least one stage with one set")
        for count in (count for counts in self.problem_counts for count in counts):
            if count < 1:
                raise ValueError(f"problem_count = {count}: must be at least 1")
        self.enter(self.stage, self.first_iteration)

    @classmethod
    def new(cls, problem_count: int) -> Self:
        """The state before the first iteration of a run on one data set of so many problems."""
        return cls(((problem_count,),))

    def enter(self, stage: int, first_iteration: int) -> None:
        """Become the fresh state of a stage that begins with `first_iteration`."""
        self.stage, self.first_iteration = stage, first_iteration
        counts = self.problem_counts[stage]
        total = sum(counts)
        self.history = np.full(total, np.nan)
        self.latest = np.full(total, np.nan)
        self.visited = np.zeros(total, dtype=np.bool_)
        self.zero_visits = np.zeros(total, dtype=np.int32)
        self.in_buffer = np.zeros(total, dtype=np.bool_)
        self.replays = np.zeros(total, dtype=np.int32)
        self.last_replay = np.full(total, NEVER, dtype=np.int64)
        self.walks = []
        for count in counts:
            self.walks.append(Walk(sum(walk.count for walk in self.walks), count))

    @property
    def problem_count(self) -> int:
        """P, the number of problems of the stage."""
        return int(self.history.size)

    @property
    def epoch(self) -> int:
        """The epoch of the set that is least far."""
        return min(walk.epoch for walk in self.walks)

    @property
    def buffer_size(self) -> int:
        """Problems in the replay buffer now."""
        return int(np.count_nonzero(self.in_buffer))

    def sets_of(self, problems: NDArray[np.int64]) -> NDArray[np.int64]:
        """The set that each problem of the stage is in, int64 of the same shape."""
        ends = np.cumsum(self.problem_counts[self.stage])
        return np.searchsorted(ends, problems, side="right")

    def copy(self) -> Self:
        """An independent state with equal values."""
        twin = copy.copy(self)
        for name, array in self._arrays().items():
            setattr(twin, name, array.copy())
        twin.walks = [copy.copy(walk) for walk in self.walks]
        return twin

    def digest(self) -> str:
        """SHA-256 (hex) over every value of the state; equal states have equal digests on any machine."""
        places = "".join(f"{walk.count} {walk.epoch} {walk.cursor}" for walk in self.walks[:1])
        places += "".join(f", {walk.count} {walk.epoch} {walk.cursor}" for walk in self.walks[1:])
        if len(self.problem_counts) > 1:
            places += f", stage {self.stage} from {self.first_iteration}"
        hasher = hashlib.sha256(places.encode())
        for name, array in self._arrays().items():
            hasher.update(name.encode())
            hasher.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data)
        return hasher.hexdigest()

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
