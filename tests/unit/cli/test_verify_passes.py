"""`dartes verify` compares passes with the scores that they were counted from, where those are kept."""

import json
import shutil
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dartes.cli.status import status_lines, status_of
from dartes.cli.verify import VerificationError, verify
from dartes.state import RunFolder, RunReader
from dartes.tasks.addition import AdditionTask

from .in_process import changed, play


@pytest.fixture(scope="module")
def compared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose passes are scores above the unperturbed model's; tests must leave it as it is."""
    path = tmp_path_factory.mktemp("compared") / "run"
    with pytest.MonkeyPatch.context() as patch:
        against_parent(patch)
        return play(path, changed(es__iterations=3)).path


@pytest.fixture
def compared(compared_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A copy of it."""
    against_parent(monkeypatch)
    shutil.copytree(compared_folder, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def against_parent(patch: pytest.MonkeyPatch) -> None:
    """Let additions be compared with the parent's, as answers of a reward model are."""
    for name in ("compares_with_parent", "has_score"):
        patch.setattr(AdditionTask, name, True, raising=False)


def alter(folder: RunFolder, statement: str, *parameters: object) -> None:
    with sqlite3.connect(folder.store) as connection:
        assert connection.execute(statement, parameters).rowcount == 1
    connection.close()


def findings_of(folder: RunFolder) -> tuple[str, ...]:
    with pytest.raises(VerificationError) as caught:
        verify(folder)
    return caught.value.findings


def test_an_untouched_run_is_verified(compared: RunFolder) -> None:
    with RunReader.open(compared) as reader:
        assert all(it.scores is not None and it.parent_scores is not None for it in reader.iterations())
    assert verify(compared)[-1] == "verified: everything agrees"


def test_other_scores_of_the_parent_are_found_and_the_iteration_named(compared: RunFolder) -> None:
    lower = np.full(8, -1, "<f4").tobytes()
    alter(compared, "UPDATE iterations SET parent_scores = ? WHERE iteration = 1", zlib.compress(lower))
    assert findings_of(compared) == ("iteration 1: the stored passes are not the scores above the parent's",)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("parent_scores", None, "iteration 2: the parent's scores are missing"),
        ("parent_passed", b"\x01", "iteration 2: the parent is stored to have passed against itself"),
        ("parent_passed", None, "or its passes are missing"),
    ],
)
def test_what_is_stored_of_the_parent_has_to_be_whole(
    compared: RunFolder, column: str, value: Any, words: str
) -> None:
    alter(compared, f"UPDATE iterations SET {column} = ? WHERE iteration = 2", value)
    assert any(words in finding for finding in findings_of(compared))


def test_scores_of_a_parent_that_nothing_is_counted_against_are_found(finished: RunFolder) -> None:
    some = zlib.compress(np.zeros(8, "<f4").tobytes())
    alter(finished, "UPDATE iterations SET parent_scores = ? WHERE iteration = 4", some)
    (finding,) = findings_of(finished)
    assert finding.startswith("iteration 4: scores of the parent are stored")


def test_the_status_says_that_a_set_has_no_base_model_to_win_over(compared: RunFolder) -> None:
    with RunReader.open(compared) as reader:
        (last,) = [e for e in reader.evaluations() if e.iteration == 3]
    beside = json.dumps({**last.beside, "mean_score": 0.25, "no_base": "this set was added at iteration 3"})
    alter(compared, "UPDATE evaluations SET beside = ? WHERE iteration = 3", beside)
    status = status_of(compared)
    assert (status["evaluations"][-1]["accuracy"], status["evaluations"][-1]["mean_score"]) == (None, 0.25)
    assert (
        "  held-out: mean score 0.25 (no base: this set was added at iteration 3) after iteration 3"
        in status_lines(status)
    )
