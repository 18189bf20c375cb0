"""Reading a store: while it is written to, after a kill, and where it is none."""

import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from dartes.errors import ConfigurationError, TransientError
from dartes.state import DamagedStoreError, NoStateError, RunFolder, RunReader
from dartes.state.reader import PAGE_ITERATIONS
from dartes_coordinator.store import Store

from ..coordinator.stored import change, evaluation, iteration


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of forty iterations."""
    folder = RunFolder(tmp_path_factory.mktemp("template"))
    store = Store.open(folder.store)
    for number in range(40):
        store.commit(iteration(number))
    store.close()
    return folder.store


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path)
    shutil.copyfile(template, folder.store)
    return folder


def test_a_folder_without_a_store_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no run here.*dartes run"):
        RunReader.open(RunFolder(tmp_path))


def test_a_store_without_tables_has_no_state(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.store.touch()
    with pytest.raises(NoStateError):
        RunReader.open(folder)


def test_a_file_that_is_no_store_is_damage_and_not_a_traceback(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.store.write_text("nonsense" * 1000)
    with pytest.raises(DamagedStoreError, match=r"state\.sqlite: file is not a database"):
        RunReader.open(folder)


def test_iterations_come_in_order_over_all_pages(folder: RunFolder) -> None:
    with RunReader.open(folder) as reader:
        assert [it.iteration for it in reader.iterations()] == list(range(40))
        assert [it.iteration for it in reader.iterations(3, 3 + PAGE_ITERATIONS)] == list(range(3, 19))
        assert list(reader.iterations(40)) == []
        assert (reader.iteration_count(), reader.last_row_hash(), reader.last_epoch()) == (40, b"hash 39", 0)
        assert [k for k, _, _ in reader.journal_rows(38)] == [38, 39]
        assert reader.journal_rows(0, 1) == [(0, b"row 0", b"hash 0")]


def test_a_reading_under_way_does_not_hold_up_a_commit(folder: RunFolder) -> None:
    with RunReader.open(folder) as reader:
        reading = reader.iterations()
        next(reading)
        own = sqlite3.connect(folder.store, timeout=0)
        with own:
            own.execute("DELETE FROM iterations WHERE iteration = 39")
        own.close()
        assert len(list(reading)) == 38


def test_a_reader_never_changes_a_store(folder: RunFolder) -> None:
    with RunReader.open(folder) as reader, pytest.raises(TransientError):
        reader._query("DELETE FROM iterations")


def test_a_store_that_others_hold_exclusively_can_not_be_read_now(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(
        "dartes.state.reader.sqlite3.connect", lambda *a, **v: connect(*a, **(v | {"timeout": 0}))
    )
    holder = connect(folder.store, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(TransientError, match="locked"):
        RunReader.open(folder)
    holder.close()


def test_a_store_left_in_the_middle_of_a_commit_is_rolled_back_and_read(folder: RunFolder) -> None:
    child = os.fork()
    if child == 0:
        own = sqlite3.connect(folder.store, isolation_level=None)
        own.execute("PRAGMA cache_size = 1")
        own.execute("BEGIN IMMEDIATE")
        own.execute("UPDATE iterations SET beside = hex(zeroblob(2000))")
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    assert folder.store.with_name("state.sqlite-journal").stat().st_size > 0
    with RunReader.open(folder) as reader:
        assert [it.beside["seconds"] for it in reader.iterations()] == [1.0] * 40


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE iterations SET passed = x'0102030405' WHERE iteration = 20",
        "UPDATE iterations SET problems = x'01' WHERE iteration = 20",
        "UPDATE iterations SET problems = x'' WHERE iteration = 20",
        "UPDATE iterations SET scores = x'0102' WHERE iteration = 20",
        "UPDATE iterations SET beside = '[]' WHERE iteration = 20",
        "UPDATE iterations SET beside = CAST(x'ff' AS TEXT) WHERE iteration = 20",
        "UPDATE iterations SET stage = 'x' WHERE iteration = 20",
    ],
)
def test_a_damaged_column_is_found_where_it_is_read(folder: RunFolder, statement: str) -> None:
    change(folder.store, statement)
    with RunReader.open(folder) as reader:
        assert len(list(reader.iterations(0, 16))) == 16
        with pytest.raises(DamagedStoreError):
            list(reader.iterations())


def test_damaged_values_of_the_meta_table_are_found(folder: RunFolder) -> None:
    store = Store.open(folder.store)
    store.put_meta({"text": b"\xff", "json": "{"})
    with RunReader.open(folder) as reader:
        with pytest.raises(DamagedStoreError, match="text is not text"):
            reader.meta_text("text")
        with pytest.raises(DamagedStoreError, match="json is not JSON"):
            reader.meta_json("json")
        assert (reader.meta("nothing"), reader.meta_text("nothing"), reader.meta_json("nothing")) == (
            None,
            None,
            None,
        )


def test_pages_that_are_wrong_are_found(folder: RunFolder) -> None:
    content = bytearray(folder.store.read_bytes())
    content[-4096:] = b"\x55" * 4096
    folder.store.write_bytes(content)
    with RunReader.open(folder) as reader, pytest.raises(DamagedStoreError):
        reader.check_pages()


def test_accuracy_is_the_share_of_problems_passed() -> None:
    assert evaluation(0).accuracy == pytest.approx(2 / 3)
    assert np.count_nonzero(evaluation(1).passed) == 1
