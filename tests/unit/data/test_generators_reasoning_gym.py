"""Problems of reasoning-gym by name: apart by split, the same in every process, or refused."""

import json
import subprocess
import sys
from itertools import islice

import pytest

from dartes.data import DatasetError
from dartes.data.builtin import builtin_rows
from dartes.data.generators.reasoning_gym import NEEDS_SETTINGS, UNSTEADY
from dartes.tasks.puzzle_library import library


def test_rows_hold_question_answer_metadata_and_the_name() -> None:
    rows = list(islice(builtin_rows("reasoning-gym-chain-sum", "train"), 5))
    for row in rows:
        assert set(row) == {"question", "answer", "metadata", "dataset"}
        assert row["dataset"] == "chain_sum"
        assert json.loads(str(row["metadata"]))["source_dataset"] == "chain_sum"
        assert str(row["answer"]).lstrip("-").isdigit()


def test_the_librarys_own_names_work() -> None:
    ours, theirs = (
        list(islice(builtin_rows(name, "test"), 3))
        for name in ("reasoning-gym-chain-sum", "reasoning-gym-chain_sum")
    )
    assert ours == theirs


def test_a_puzzle_that_many_answers_solve_has_none() -> None:
    assert next(iter(builtin_rows("reasoning-gym-graph-color", "train")))["answer"] is None


@pytest.mark.parametrize("name", ["gcd", "letter-counting", "mini-sudoku"])
def test_train_and_test_share_no_question_and_repeat_none(name: str) -> None:
    train, test = (
        [row["question"] for row in islice(builtin_rows(f"reasoning-gym-{name}", split), 150)]
        for split in ("train", "test")
    )
    assert len(set(train) | set(test)) == 300


def test_a_small_set_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    class Same:
        def __getitem__(self, index: int) -> dict[str, object]:
            return {"question": str(index % 10), "answer": "0", "metadata": {}}

    def create(name: str, seed: int, size: int) -> Same:
        del name, seed, size
        return Same()

    monkeypatch.setattr(library(), "create_dataset", create)
    train, test = (
        [row["question"] for row in builtin_rows("reasoning-gym-gcd", s)] for s in ("train", "test")
    )
    assert sorted([*train, *test], key=str) == [str(number) for number in range(10)]


def test_an_unknown_generator_is_refused_with_close_names() -> None:
    with pytest.raises(
        DatasetError, match=r"no generator 'chain_sums' \(close to it: reasoning-gym-chain-sum"
    ):
        builtin_rows("reasoning-gym-chain-sums", "train")


@pytest.mark.parametrize("name", sorted(UNSTEADY))
def test_a_generator_that_differs_from_process_to_process_is_refused(name: str) -> None:
    with pytest.raises(DatasetError, match=r"gives other problems in every process.*\.jsonl file"):
        builtin_rows("reasoning-gym-" + name.replace("_", "-"), "train")


def test_a_mixture_is_refused() -> None:
    with pytest.raises(DatasetError, match="is no generator of its own"):
        builtin_rows("reasoning-gym-composite", "train")


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(DatasetError, match=r"pip install '\.\[tasks\]' in a clone"):
        builtin_rows("reasoning-gym-gcd", "train")


_PRINT_DIGESTS = """
import hashlib, json, sys
from itertools import islice
from dartes.data.builtin import builtin_rows
for name in sys.argv[1:]:
    rows = list(islice(builtin_rows("reasoning-gym-" + name.replace("_", "-"), "train"), 8))
    print(name, hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest())
"""


@pytest.mark.slow
def test_all_others_give_every_process_the_same_problems() -> None:
    slow = {"futoshiki", "puzzle24", "sokoban", "zebra_puzzles", "intermediate_integration"}
    names = sorted(set(library().DATASETS) - UNSTEADY - NEEDS_SETTINGS - slow)
    assert len(names) > 90
    outputs = [
        subprocess.run(
            [sys.executable, "-c", _PRINT_DIGESTS, *names],
            env={"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]
    assert len(outputs[0]) == len(names)
    assert [one for one, other in zip(*outputs, strict=True) if one != other] == []
