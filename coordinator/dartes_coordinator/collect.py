"""The results of one iteration as they come in: which positions of the batch each member has answered.

Slices of a member must cover the batch exactly once; a report that does not fit is refused whole and
changes nothing.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty import Results
from dartes.rpc.encoding import EncodingError, unpack_bits, unpack_floats
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.errors import ReportError


@dataclass(frozen=True)
class Answers:
    """Decoded results of one lease; every array has shape [len(positions)]."""

    positions: NDArray[np.int64]
    passed: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    scores: NDArray[np.float32]
    auxiliary: NDArray[np.float32]
    scores_differ: bool

    def shifted(self, offset: int) -> "Answers":
        """The same answers at positions moved by `offset`: a block inside a larger set."""
        return replace(self, positions=self.positions + offset)


def decode(result: wire.EvaluateResult, size: int) -> Answers:
    """Decode a report about a batch (or block) of `size` problems.

    Raises
    ------
    ReportError
        Lengths do not fit, a position is outside or named twice, or a score is not finite.
    """
    if result.positions or len(result.passed) == 0:
        positions = np.asarray(result.positions, np.int64)
    else:
        positions = np.arange(size, dtype=np.int64)
    count = len(positions)
    if count and (positions.max() >= size or len(np.unique(positions)) != count):
        raise ReportError(f"positions must be distinct and below {size}")
    try:
        passed = unpack_bits(result.passed, count)
        truncated = unpack_bits(result.truncated, count)
        differ = result.HasField("scores")
        scores = unpack_floats(result.scores, count) if differ else passed.astype(np.float32)
        auxiliary = (
            unpack_floats(result.auxiliary, count)
            if result.HasField("auxiliary")
            else np.zeros(count, np.float32)
        )
    except EncodingError as error:
        raise ReportError(str(error)) from error
    return Answers(positions, passed, truncated, scores, auxiliary, differ)


@dataclass
class Grid:
    """Answers of `rows` models to `size` problems, filled piece by piece."""

    rows: int
    size: int
    scores_differ: bool = False
    passed: NDArray[np.bool_] = field(init=False)
    truncated: NDArray[np.bool_] = field(init=False)
    scores: NDArray[np.float32] = field(init=False)
    auxiliary: NDArray[np.float32] = field(init=False)
    covered: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.rows, self.size)
        self.passed = np.zeros(shape, np.bool_)
        self.truncated = np.zeros(shape, np.bool_)
        self.scores = np.zeros(shape, np.float32)
        self.auxiliary = np.zeros(shape, np.float32)
        self.covered = np.zeros(shape, np.bool_)

    def check(self, row: int, answers: Answers) -> None:
        """Raise ReportError where a position of this row has been answered by another slice."""
        again = answers.positions[self.covered[row, answers.positions]]
        if len(again):
            raise ReportError(
                f"positions {again[:5].tolist()} of row {row} were covered by another slice: "
                "workers cut the batch differently (different tokenizers or token budgets?)"
            )

    def put(self, row: int, answers: Answers) -> None:
        """Store answers that `check` has let pass."""
        at = answers.positions
        self.passed[row, at] = answers.passed
        self.truncated[row, at] = answers.truncated
        self.scores[row, at] = answers.scores
        self.auxiliary[row, at] = answers.auxiliary
        self.covered[row, at] = True
        self.scores_differ = self.scores_differ or answers.scores_differ

    def uncovered(self) -> list[int]:
        """Rows that miss an answer though all their slices are in."""
        rows: list[int] = np.flatnonzero(~self.covered.all(axis=1)).tolist()
        return rows

    def results(self) -> Results:
        """The grid as the algorithm takes it: absent scores and auxiliary terms are None."""
        return Results(
            passed=self.passed,
            scores=self.scores if self.scores_differ else None,
            auxiliary=self.auxiliary if self.auxiliary.any() else None,
        )
