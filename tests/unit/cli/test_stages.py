"""A job of two stages, the second one a file of its own: played, resumed at the border, told and verified."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dartes.cli.journal import journal_lines, journal_objects
from dartes.cli.verify import VerificationError, verify
from dartes.state import RunFolder

from .in_process import changed, play

pytestmark = pytest.mark.slow


def staged(data: Path) -> dict[str, Any]:
    """Three iterations on built-in sums, then an epoch on a file."""
    spec = changed(evaluation=None, checkpoint=None, es__iterations=None)
    spec["dataset"] = {
        "stages": [
            {"source": "builtin://addition", "split": "train", "maxProblems": 16, "iterations": 3},
            {"source": str(data), "epochs": 1, "task": {"kind": "addition", "auxiliaryWeight": 0.0}},
        ]
    }
    return spec


@pytest.fixture(scope="module")
def staged_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stages")
    data = place / "second.jsonl"
    data.write_text("".join(f'{{"a": {a}, "b": 1}}\n' for a in range(20)))
    folder, spec = place / "run", staged(data)
    play(folder, spec, stop_at=3)
    play(folder, spec)
    return folder


@pytest.fixture
def finished(staged_folder: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(staged_folder, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_a_run_resumed_at_the_border_of_a_stage_is_verified(staged_folder: Path) -> None:
    lines = verify(RunFolder(staged_folder))
    assert lines[0].startswith("6 iterations of 2 stages: batches")
    metrics = [json.loads(line) for line in RunFolder(staged_folder).metrics.read_text().splitlines()]
    assert [line["stage"] for line in metrics] == [0, 0, 0, 1, 1, 1]


def test_the_journal_tells_the_stage_of_each_iteration(staged_folder: Path) -> None:
    folder = RunFolder(staged_folder)
    lines = list(journal_lines(folder))
    assert lines[2].startswith("     2  stage 0  epoch 0  4 problems (2 replayed)")
    assert lines[3].startswith("     3  stage 1  epoch 0  8 problems")
    entries = list(journal_objects(folder))
    assert max(problem["index"] for problem in entries[4]["problems"]) < 20
    assert entries[3]["history_before"] == [None] * 8, "a stage begins afresh"
    assert entries[2]["buffer"], "the stage's own, also after its last iteration"
    assert set(entries[3]["buffer"]) <= {problem["index"] for problem in entries[3]["problems"]}


def test_a_forged_stage_number_is_found(finished: RunFolder) -> None:
    with sqlite3.connect(finished.store) as connection:
        connection.execute("UPDATE iterations SET stage = 0 WHERE iteration = 4")
    connection.close()
    with pytest.raises(VerificationError, match="iteration 4: the stored stage differs"):
        verify(finished)


def test_a_changed_set_of_any_stage_is_named(staged_folder: Path, finished: RunFolder) -> None:
    data = finished.path.parent / "second.jsonl"
    original = staged_folder.parent / "second.jsonl"
    data.write_text(original.read_text().replace('"b": 1', '"b": 2'))
    finished.job.write_text(finished.job.read_text().replace(str(original), str(data)))
    with pytest.raises(VerificationError) as caught:
        verify(finished)
    (finding,) = caught.value.findings
    assert finding.startswith(f"training sets builtin://addition, {data}: digest")


def test_a_mix_of_two_tasks_is_played_and_verified(tmp_path: Path) -> None:
    spec = changed(evaluation=None, checkpoint=None, es__iterations=None, es__epochs=1)
    spec["dataset"] = {
        "mix": [
            {"source": "builtin://addition", "maxProblems": 16, "weight": 3.0},
            {"source": "builtin://arithmetic", "maxProblems": 8, "task": {"kind": "arithmetic"}},
        ]
    }
    folder = play(tmp_path / "run", spec)
    assert verify(folder)[-1] == "verified: everything agrees"
    entries = list(journal_objects(folder))
    drawn = [[problem["index"] for problem in entry["problems"]] for entry in entries]
    assert [sum(index < 16 for index in indices) for indices in drawn[:2]] == [6, 6]
    assert {index for indices in drawn for index in indices} == set(range(24))
