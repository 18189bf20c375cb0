"""Iterations and evaluations survive the store's columns bit by bit."""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.state import DamagedStoreError, StoredCompletion, StoredEvaluation, StoredIteration
from dartes.state.columns import (
    MOST_TEXT_BYTES,
    completion_columns,
    completion_of,
    cut_text,
    evaluation_columns,
    evaluation_of,
    iteration_columns,
    iteration_of,
)

from ..coordinator.stored import BESIDE


@st.composite
def iterations(draw: st.DrawFn) -> StoredIteration:
    members, problems = draw(st.integers(1, 5)), draw(st.integers(1, 20))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (members, problems)

    def scores() -> "np.ndarray[tuple[int, int], np.dtype[np.float32]] | None":
        return generator.standard_normal(shape, np.float32) if draw(st.booleans()) else None

    return StoredIteration(
        iteration=draw(st.integers(0, 2**40)),
        stage=draw(st.integers(0, 3)),
        epoch=draw(st.integers(0, 100)),
        problems=generator.integers(0, 2**32, problems),
        replayed=generator.random(problems) < 0.5,
        passed=generator.random(shape) < 0.5,
        truncated=generator.random(shape) < 0.5,
        scores=scores(),
        auxiliary=scores(),
        parent_passed=generator.random(problems) < 0.5 if draw(st.booleans()) else None,
        row=generator.bytes(20),
        row_hash=generator.bytes(32),
        beside=BESIDE | {"text": draw(st.text())},
        parent_scores=generator.standard_normal(problems, np.float32) if draw(st.booleans()) else None,
    )


def assert_same(one: object, other: object) -> None:
    assert type(one) is type(other)
    for name, value in vars(one).items():
        again = getattr(other, name)
        if isinstance(value, np.ndarray):
            assert (again.dtype, again.shape, again.tobytes()) == (value.dtype, value.shape, value.tobytes())
        else:
            assert again == value


@given(iterations())
def test_an_iteration_comes_back_as_it_was(it: StoredIteration) -> None:
    assert_same(it, iteration_of(iteration_columns(it)))


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_an_evaluation_comes_back_as_it_was(bits: list[bool]) -> None:
    passed = np.array(bits)
    evaluation = StoredEvaluation(3, "set", passed, ~passed, {"generated_tokens": 1})
    assert_same(evaluation, evaluation_of(evaluation_columns(evaluation)))


def test_several_samples_come_back_with_their_keys_and_scores() -> None:
    bits = np.array([True, False, True, True, False, False])
    keys = np.array([0, 1, 2**64 - 1, 3, 3, 0], np.uint64)
    scores = np.array([0.5, -1, 2, 3, 4, 5], np.float32)
    evaluation = StoredEvaluation(3, "set", bits, ~bits, {}, samples=3, keys=keys, scores=scores)
    again = evaluation_of(evaluation_columns(evaluation))
    assert_same(evaluation, again)
    assert (again.problems, again.accuracy) == (2, 0.5)


@pytest.mark.parametrize(
    ("column", "value"),
    [(2, 0), (3, 0), (3, 2), (6, zlib.compress(bytes(8))), (6, b"x"), (7, zlib.compress(bytes(4)))],
)
def test_a_damaged_evaluation_is_found_where_it_is_read(column: int, value: object) -> None:
    bits = np.ones(10, np.bool_)
    columns = list(evaluation_columns(StoredEvaluation(3, "set", bits, bits, {})))
    columns[column] = value
    with pytest.raises(DamagedStoreError, match="evaluation of 'set' at iteration 3: damaged"):
        evaluation_of(columns)


def test_an_answer_comes_back_and_what_is_long_loses_its_middle() -> None:
    short = StoredCompletion(4, 1, "why?", "because", True, 0.5, "")
    assert completion_of(completion_columns(2, "set", short)) == short
    long = completion_of(completion_columns(2, "set", replace(short, text="a" * 9000 + "\u00e9" * 9000)))
    assert long.text.startswith("aaa")
    assert long.text.endswith("\u00e9")
    assert "bytes left out" in long.text
    assert len(long.text.encode()) < MOST_TEXT_BYTES + 60


def test_text_that_no_file_can_hold_is_replaced() -> None:
    assert cut_text("a\ud800b") == "a?b"
    assert cut_text("é" * 10, 7) == "é [... 14 bytes left out ...] é"
