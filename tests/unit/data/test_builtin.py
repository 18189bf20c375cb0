"""The built-in sets are fixed for good, and their splits share no problem."""

from itertools import islice

import pytest

from dartes.data import DatasetError
from dartes.data.builtin import builtin_names, builtin_rows
from dartes.tasks.base import Row

WHOLE = ("addition", "arithmetic", "arithmetic-sums", "arithmetic-differences", "arithmetic-products")
GENERATED = (
    "choices-sums",
    "countdown",
    "countdown-3",
    "countdown-4",
    "countdown-5",
    "countdown-6",
    "sudoku-4x4",
    "sudoku-9x9",
)


def rows_of(name: str, split: str) -> list[Row]:
    return list(builtin_rows(name, split))


def test_the_addition_set_is_all_pairs_in_two_parts() -> None:
    train, test = rows_of("addition", "train"), rows_of("addition", "test")
    assert (len(train), len(test)) == (7_952, 2_048)
    assert {(row["a"], row["b"]) for row in train + test} == {(a, b) for a in range(100) for b in range(100)}


def test_the_names_are_these() -> None:
    assert builtin_names() == (*WHOLE, *GENERATED, "reasoning-gym-NAME")


@pytest.mark.parametrize("name", ["arithmetic-sums", "choices-sums", "sudoku-4x4"])
def test_a_name_may_have_underscores_for_dashes(name: str) -> None:
    def first(name: str) -> list[Row]:
        return list(islice(builtin_rows(name, "train"), 3))

    assert first(name.replace("-", "_")) == first(name)


@pytest.mark.parametrize("name", WHOLE)
def test_train_and_test_share_no_problem_whatever_the_set(name: str) -> None:
    test_problems = {str(row["question"]) for row in builtin_rows(name, "test")}
    train_problems = {str(row["question"]) for row in builtin_rows(name, "train")}
    assert test_problems
    assert not test_problems & train_problems
    if name != "addition":
        assert test_problems <= {str(row["question"]) for row in builtin_rows("arithmetic", "test")}


def test_the_order_never_changes() -> None:
    def first(name: str, split: str) -> list[object]:
        return [row["question"] for row in islice(builtin_rows(name, split), 3)]

    assert first("addition", "train") == ["65+65", "70+21", "88+49"]
    assert first("addition", "test") == ["47+76", "80+90", "6+76"]
    assert first("arithmetic", "train") == ["13 - 21", "13 + 20", "3 + 0"]


def test_arithmetic_answers_are_right() -> None:
    apply = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
    rows = rows_of("arithmetic", "train") + rows_of("arithmetic", "test")
    assert len(rows) == 31 * 31 * 2 + 13 * 13
    for row in rows:
        a, b, operator = row["a"], row["b"], row["operator"]
        assert isinstance(a, int)
        assert isinstance(b, int)
        assert row["question"] == f"{a} {operator} {b}"
        assert row["answer"] == apply[str(operator)](a, b)


@pytest.mark.parametrize("name", ["addition", "countdown", "reasoning-gym-gcd"])
def test_an_unknown_split_is_refused(name: str) -> None:
    with pytest.raises(DatasetError, match=r"dataset.split: .* has the splits train and test, not 'dev'"):
        builtin_rows(name, "dev")


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        DatasetError, match=r"no built-in data set 'countdown-9' \(there are: addition, .*countdown-3"
    ):
        builtin_rows("countdown-9", "train")
