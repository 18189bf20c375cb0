"""Iterations and evaluations survive the store's columns bit by bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dartes.state import StoredEvaluation, StoredIteration
from dartes.state.columns import evaluation_columns, evaluation_of, iteration_columns, iteration_of

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
