"""A run told again from its bits is the run that was; one changed bit is found."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dartes.difficulty import DifficultyState
from dartes.ids import Iteration
from dartes.journal import JournalRow
from dartes.state import RunReader, StoredIteration
from dartes.state.history import DivergenceError, recompute

from ..coordinator.kit import PROBLEMS, expected_hashes, finished_folder, plan

RUN = plan()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[StoredIteration]:
    folder = finished_folder(tmp_path_factory.mktemp("run"), RUN)
    with RunReader.open(folder) as reader:
        return list(reader.iterations())


def retold(iterations: list[StoredIteration]) -> tuple[list[bytes], str]:
    state = DifficultyState.new(PROBLEMS)
    first = expected_hashes(RUN)[0][0]
    hashes = [d.row_hash for d in recompute(RUN.settings, state, iterations, first)]
    return [first, *hashes], state.digest()


def test_a_run_is_retold_to_the_last_bit(stored: list[StoredIteration]) -> None:
    assert retold(stored) == expected_hashes(RUN)


def flipped(bits: np.ndarray[Any, np.dtype[np.bool_]], index: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    changed = bits.copy()
    changed[index] ^= True
    return changed


def changes(it: StoredIteration) -> Iterator[tuple[str, StoredIteration]]:
    for index in np.ndindex(it.passed.shape):
        yield "coefficients|hash", replace(it, passed=flipped(it.passed, index))
    yield "batch", replace(it, problems=it.problems[::-1].copy())
    yield "source", replace(it, replayed=flipped(it.replayed, 0))
    yield "source", replace(it, epoch=it.epoch + 1)
    yield "members", replace(it, passed=it.passed[:-1])
    yield "scores", replace(it, scores=np.full(it.passed.shape, np.nan, np.float32))
    halves = np.where(np.arange(it.passed.size).reshape(it.passed.shape) % 3 == 0, 0.5, 1.0)
    yield "coefficients", replace(it, scores=halves.astype(np.float32))
    yield "row", replace(it, row=b"")
    yield "row hash", replace(it, row=it.row[:8] + b"\x01" + it.row[9:])
    yield "row hash", replace(it, row_hash=bytes(32))
    yield "stage", replace(it, stage=1)
    yield (
        "row hash",
        replace(it, row=JournalRow(Iteration(it.iteration), 1, *JournalRow.decode(it.row).update()).encode()),
    )
    yield "iteration number", replace(it, iteration=9)


def test_every_change_is_found_at_its_iteration(stored: list[StoredIteration]) -> None:
    for what, changed in changes(stored[1]):
        with pytest.raises(DivergenceError, match=what) as caught:
            retold([stored[0], changed, *stored[2:]])
        assert caught.value.iteration == 1, what


def test_a_missing_iteration_is_found(stored: list[StoredIteration]) -> None:
    with pytest.raises(DivergenceError, match="iteration 2: .* iteration number"):
        retold([*stored[:2], *stored[3:]])
