"""`dartes journal` tells, from the bits alone, everything that decided an iteration."""

import json
import math
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dartes.cli.journal import journal_json, journal_lines, journal_objects
from dartes.cli.main import main
from dartes.cli.recompute import retold
from dartes.difficulty import AlgorithmSettings, member_seeds
from dartes.ids import Iteration
from dartes.journal import read_journal
from dartes.spec import load_job
from dartes.state import RunFolder, RunReader
from dartes.state.history import DivergenceError

from .in_process import ITERATIONS, SPEC

MEMBERS, BATCH = SPEC["es"]["populationSize"], SPEC["es"]["batchSize"]
KEYS = {
    "iteration",
    "stage",
    "epoch",
    "problems",
    "replay_slots",
    "replay_eligible",
    "seeds",
    "passed",
    "scores",
    "auxiliary",
    "pass_rates",
    "history_before",
    "history_after",
    "weights",
    "raw_fitness",
    "weighted_fitness",
    "normalised_fitness",
    "coefficients",
    "membership",
    "buffer",
    "row_hash",
}


@pytest.fixture(scope="module")
def entries(finished_folder: Path) -> list[dict[str, Any]]:
    """The finished run, as JSON holds it."""
    return [json.loads(line) for line in journal_json(RunFolder(finished_folder))]


def size_of(entry: dict[str, Any]) -> int:
    """Problems of the batch: an epoch's last one may be short."""
    return len(entry["problems"])


def test_every_iteration_has_every_key(entries: list[dict[str, Any]]) -> None:
    assert [entry["iteration"] for entry in entries] == list(range(ITERATIONS))
    assert all(entry.keys() == KEYS for entry in entries)
    for entry in entries:
        for key in ("problems", "pass_rates", "history_before", "history_after", "weights", "membership"):
            assert len(entry[key]) == size_of(entry)
        for key in ("seeds", "passed", "raw_fitness", "weighted_fitness", "coefficients"):
            assert len(entry[key]) == MEMBERS


def test_json_holds_no_value_that_json_does_not_have(entries: list[dict[str, Any]]) -> None:
    assert entries[0]["history_before"] == [None] * BATCH
    assert all("NaN" not in json.dumps(entry) for entry in entries)


def test_pass_rows_are_hex_of_the_stored_bits(entries: list[dict[str, Any]], finished_folder: Path) -> None:
    with RunReader.open(RunFolder(finished_folder)) as reader:
        for entry, stored in zip(entries, reader.iterations(), strict=True):
            for row, bits in zip(entry["passed"], stored.passed, strict=True):
                value = int.from_bytes(bytes.fromhex(row), "little")
                assert [bool(value >> k & 1) for k in range(size_of(entry))] == bits.tolist()
            assert entry["pass_rates"] == (stored.passed.sum(axis=0) / MEMBERS).tolist()


def test_seeds_and_coefficients_are_those_of_the_journal(
    entries: list[dict[str, Any]], finished_folder: Path
) -> None:
    folder = RunFolder(finished_folder)
    settings = AlgorithmSettings.from_spec(load_job(folder.job).job.spec)
    journal = read_journal(folder.journal)
    for k, (entry, row) in enumerate(zip(entries, journal.rows, strict=True)):
        assert [int(seed) for seed in entry["seeds"]] == member_seeds(settings, Iteration(k)).tolist()
        assert np.array(entry["coefficients"], np.float32).tobytes() == row.coefficients.tobytes()
        assert entry["row_hash"] == journal.hashes[k].hex()


def test_fitness_history_and_buffer_follow_the_formulas(entries: list[dict[str, Any]]) -> None:
    history: dict[int, float] = {}
    for entry in entries:
        before = [history.get(problem["index"]) for problem in entry["problems"]]
        assert entry["history_before"] == before
        for problem, rate, after in zip(
            entry["problems"], entry["pass_rates"], entry["history_after"], strict=True
        ):
            old = history.get(problem["index"])
            assert after == pytest.approx(rate if old is None else 0.7 * old + 0.3 * rate)
            history[problem["index"]] = after
        weights = [0.8 + math.exp(-3.0 * value) for value in entry["history_after"]]
        assert entry["weights"] == pytest.approx(weights)
        for row, raw, weighted in zip(
            entry["passed"], entry["raw_fitness"], entry["weighted_fitness"], strict=True
        ):
            value = int.from_bytes(bytes.fromhex(row), "little")
            passes = [value >> k & 1 for k in range(size_of(entry))]
            assert raw == pytest.approx(sum(passes) / size_of(entry))
            earned = sum(w * p for w, p in zip(weights, passes, strict=True))
            assert weighted == pytest.approx(earned / size_of(entry))


def test_a_replayed_problem_was_in_the_buffer_before(entries: list[dict[str, Any]]) -> None:
    replayed = 0
    for before, entry in pairwise(entries):
        for problem in entry["problems"]:
            if problem["source"] == "replay":
                replayed += 1
                assert problem["index"] in before["buffer"]
    assert replayed, "this run replays"


def test_the_buffer_is_the_states_after_each_iteration(
    entries: list[dict[str, Any]], finished_folder: Path
) -> None:
    with retold(RunFolder(finished_folder)) as run:
        state = run.new_state()
        told = run.decisions(state)
        next(told)
        for before, _ in zip(entries, told, strict=False):  # the state moves as the next one is asked for
            assert before["buffer"] == np.flatnonzero(state.in_buffer).tolist()
        assert entries[-1]["buffer"] == np.flatnonzero(state.in_buffer).tolist()
        assert entries[-1]["buffer"]


def test_people_get_a_line_per_iteration(finished_folder: Path) -> None:
    lines = list(journal_lines(RunFolder(finished_folder)))
    assert len(lines) == ITERATIONS
    assert lines[0].startswith("     0  epoch 0  8 problems (0 replayed)  pass rate 0.")


def test_a_damaged_iteration_ends_the_tale_with_its_name(
    finished: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(finished.store) as connection:
        connection.execute("UPDATE iterations SET epoch = epoch + 1 WHERE iteration = 3")
    connection.close()
    told: list[int] = []
    with pytest.raises(DivergenceError, match="iteration 3"):
        told.extend(entry["iteration"] for entry in journal_objects(finished))
    assert main(["journal", str(finished.path)]) == 64
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 3
    assert "error: iteration 3" in said.err
