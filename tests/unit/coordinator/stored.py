"""Small things to put into a store."""

import sqlite3
from pathlib import Path

import numpy as np

from dartes.state import StoredEvaluation, StoredIteration
from dartes_coordinator.store import Store

BESIDE = {
    "seconds": 1.0,
    "seconds_by_part": {},
    "prompt_tokens": 1,
    "generated_tokens": 2,
    "wire_bytes": 3,
    "nondeterministic_reports": 0,
}


def iteration(number: int, members: int = 2, problems: int = 3) -> StoredIteration:
    """An iteration whose bits are those of its number."""
    generator = np.random.default_rng(number)
    return StoredIteration(
        iteration=number,
        stage=0,
        epoch=0,
        problems=np.arange(problems),
        replayed=generator.random(problems) < 0.5,
        passed=generator.random((members, problems)) < 0.5,
        truncated=generator.random((members, problems)) < 0.5,
        scores=None,
        auxiliary=None,
        parent_passed=None,
        row=b"row %d" % number,
        row_hash=b"hash %d" % number,
        beside=dict(BESIDE),
    )


def evaluation(number: int, name: str = "held-out") -> StoredEvaluation:
    bits = np.array([True, False, number % 2 == 0])
    return StoredEvaluation(number, name, bits, ~bits, {"generated_tokens": 4})


def fill_disk(store: Store) -> None:
    """Let the store's file grow no more, as on a full disk: SQLite itself then says that it is."""
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")


def empty_disk(store: Store) -> None:
    store._connection.execute("PRAGMA max_page_count = 1000000")


def change(path: Path, statement: str, *parameters: object) -> None:
    """Change a store behind everybody's back."""
    connection = sqlite3.connect(path)
    with connection:
        cursor = connection.execute(statement, parameters)
        assert cursor.rowcount == 1, "the statement has changed nothing"
    connection.close()
