"""The built-in sets are fixed for good, and their splits share no problem."""

import pytest

from dartes.data import DatasetError
from dartes.data.builtin import builtin_names, builtin_rows


def test_the_addition_set_is_all_pairs_in_two_parts() -> None:
    train, test = builtin_rows("addition", "train"), builtin_rows("addition", "test")
    assert (len(train), len(test)) == (7_952, 2_048)
    assert {(row["a"], row["b"]) for row in train + test} == {(a, b) for a in range(100) for b in range(100)}


@pytest.mark.parametrize("name", builtin_names())
def test_train_and_test_share_no_problem_whatever_the_set(name: str) -> None:
    test_problems = {str(row["question"]) for row in builtin_rows(name, "test")}
    train_problems = {str(row["question"]) for row in builtin_rows(name, "train")}
    assert test_problems
    assert not test_problems & train_problems
    if name != "addition":
        assert test_problems <= {str(row["question"]) for row in builtin_rows("arithmetic", "test")}


def test_the_order_never_changes() -> None:
    assert [row["question"] for row in builtin_rows("addition", "train")[:3]] == ["65+65", "70+21", "88+49"]
    assert [row["question"] for row in builtin_rows("addition", "test")[:3]] == ["47+76", "80+90", "6+76"]
    assert [row["question"] for row in builtin_rows("arithmetic", "train")[:3]] == [
        "13 - 21",
        "13 + 20",
        "3 + 0",
    ]


def test_arithmetic_answers_are_right() -> None:
    apply = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
    rows = builtin_rows("arithmetic", "train") + builtin_rows("arithmetic", "test")
    assert len(rows) == 31 * 31 * 2 + 13 * 13
    for row in rows:
        a, b, operator = row["a"], row["b"], row["operator"]
        assert isinstance(a, int)
        assert isinstance(b, int)
        assert row["question"] == f"{a} {operator} {b}"
        assert row["answer"] == apply[str(operator)](a, b)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(DatasetError, match=r"dataset.split: .* has the splits train and test, not 'dev'"):
        builtin_rows("addition", "dev")
