"""The store: one transaction per commit, fenced by the incarnation, whole or not at all."""

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from dartes.errors import ExitCode
from dartes.state import RunFolder, RunReader, StoredCompletion, StoredEvaluation, StoredSnapshot
from dartes_coordinator import store as store_module
from dartes_coordinator.full_disk import StoreFullError
from dartes_coordinator.store import (
    Attestation,
    Event,
    FencedError,
    Store,
    StoreBusyError,
    prepare_copy,
)

from .stored import empty_disk, evaluation, fill_disk, iteration

EVENT = Event(1.0, "Reason", "text")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def committed(folder: RunFolder) -> int:
    with RunReader.open(folder) as reader:
        return reader.iteration_count()


def test_a_commit_is_read_back_as_it_was_made(folder: RunFolder) -> None:
    store = Store.open(folder.store)
    store.commit(
        iteration(0), [evaluation(0)], [Attestation(0, "u", "digest", True)], [EVENT], {"key": b"value"}
    )
    with RunReader.open(folder) as reader:
        assert reader.iteration_count() == 1
        assert next(reader.iterations()).passed.tolist() == iteration(0).passed.tolist()
        assert [e.passed.tolist() for e in reader.evaluations()] == [evaluation(0).passed.tolist()]
        assert reader.attestations() == [(0, "u", "digest", True)]
        assert reader.events() == [(1.0, "Reason", "text")]
        assert reader.meta("key") == b"value"


def test_each_opening_is_a_new_incarnation(folder: RunFolder) -> None:
    assert [Store.open(folder.store).incarnation for _ in range(3)] == [1, 2, 3]
    with RunReader.open(folder) as reader:
        assert reader.meta_text("starts") == "3"


def test_a_second_opening_fences_the_first(folder: RunFolder) -> None:
    first = Store.open(folder.store)
    second = Store.open(folder.store)
    with pytest.raises(FencedError, match="incarnation 1, but incarnation 2") as caught:
        first.commit(iteration(0), [evaluation(0)], [], [EVENT], {"key": "value"})
    assert caught.value.exit_code is ExitCode.DRAINED
    with RunReader.open(folder) as reader:
        assert reader.iteration_count() == 0
        assert (reader.evaluations(), reader.events(), reader.meta("key")) == ([], [], None)
    second.commit(iteration(0))
    assert committed(folder) == 1


@pytest.mark.parametrize("action", ["moved", "deleted", "replaced"])
def test_a_coordinator_whose_store_is_taken_away_is_fenced(folder: RunFolder, action: str) -> None:
    store = Store.open(folder.store)
    store.commit(iteration(0))
    if action == "deleted":
        folder.store.unlink()
    else:
        folder.store.rename(folder.path / "elsewhere")
    if action == "replaced":
        Store.open(folder.store)
    with pytest.raises(FencedError):
        store.commit(iteration(1))


def test_an_exception_inside_the_transaction_leaves_nothing(folder: RunFolder) -> None:
    class StruckError(Exception):
        pass

    def strike() -> None:
        raise StruckError

    store = Store.open(folder.store)
    with pytest.raises(StruckError):
        store.commit(iteration(0), [evaluation(0)], [], [EVENT], {"key": "value"}, before_commit=strike)
    with RunReader.open(folder) as reader:
        assert reader.iteration_count() == 0
        assert (reader.evaluations(), reader.events(), reader.meta("key")) == ([], [], None)
    store.commit(iteration(0))
    assert committed(folder) == 1


def test_a_process_killed_inside_the_transaction_leaves_nothing(folder: RunFolder) -> None:
    store = Store.open(folder.store)
    store.commit(iteration(0))
    child = os.fork()
    if child == 0:
        # The rollback journal reaches the disk before the new pages do: the worst moment to die.
        own = sqlite3.connect(folder.store, isolation_level=None)
        own.execute("PRAGMA cache_size = 1")
        own.execute("BEGIN IMMEDIATE")
        own.executemany("INSERT INTO events VALUES (NULL, 0, 'x', ?)", [("x" * 3000,)] * 50)
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    assert folder.store.with_name("state.sqlite-journal").stat().st_size > 0
    with RunReader.open(folder) as reader:
        reader.check_pages()
        assert (reader.iteration_count(), reader.events()) == (1, [])
    store.commit(iteration(1))
    assert committed(folder) == 2


def test_a_full_disk_refuses_the_commit_and_keeps_what_is_committed(folder: RunFolder) -> None:
    store = Store.open(folder.store)
    store.commit(iteration(0))
    fill_disk(store)
    large = iteration(1, members=200, problems=500)
    with pytest.raises(StoreFullError, match="full") as caught:
        store.commit(large)
    assert caught.value.exit_code is ExitCode.TRANSIENT
    assert committed(folder) == 1
    empty_disk(store)
    store.commit(large)
    assert committed(folder) == 2


def test_a_store_that_others_hold_is_busy_and_not_broken(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dartes_coordinator.store.BUSY_SECONDS", 0.0)
    store = Store.open(folder.store)
    holder = sqlite3.connect(folder.store, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusyError):
        store.commit(iteration(0))
    with pytest.raises(StoreBusyError):
        Store.open(folder.store)
    holder.execute("ROLLBACK")
    store.commit(iteration(0))
    assert committed(folder) == 1


def test_a_later_evaluation_of_the_same_weights_replaces_the_earlier_one(folder: RunFolder) -> None:
    store = Store.open(folder.store)
    store.commit(None, [evaluation(4)])
    again = evaluation(4)
    again.passed[:] = False
    store.commit(None, [again])
    with RunReader.open(folder) as reader:
        assert [e.accuracy for e in reader.evaluations()] == [0.0]


def test_snapshots_come_and_go_in_one_transaction(folder: RunFolder) -> None:
    store = Store.open(folder.store)
    for number in range(3):
        store.keep_snapshot(StoredSnapshot(number, b"hash", "digest", f"file {number}"), [number - 2])
    with RunReader.open(folder) as reader:
        assert [s.file for s in reader.snapshots()] == ["file 1", "file 2"]


def test_a_copy_holds_what_is_committed(folder: RunFolder) -> None:
    store = Store.open(folder.store)
    store.commit(iteration(0))
    copy = folder.path / "copy"
    store.copy_to(copy)
    with RunReader.open(folder, copy) as reader:
        assert reader.iteration_count() == 1


def test_incarnations_can_be_skipped_but_never_set_back(folder: RunFolder) -> None:
    Store.open(folder.store).close()
    prepare_copy(folder.store, 50, {})
    assert Store.open(folder.store).incarnation == 51
    prepare_copy(folder.store, 3, {})
    assert Store.open(folder.store).incarnation == 52


def with_texts(number: int, count: int = 1, size: int = 1) -> StoredEvaluation:
    texts = [StoredCompletion(row, 0, "why", "x" * size, True, 1.0, "") for row in range(count)]
    return replace(evaluation(number), completions=tuple(texts))


def test_answers_as_text_are_kept_with_their_evaluation_and_replaced_with_it(folder: RunFolder) -> None:
    store = Store.open(folder.store)
    store.commit(None, [with_texts(2, count=3)])
    store.commit(None, [with_texts(2, count=2, size=5)])
    with RunReader.open(folder) as reader:
        assert [(c.row, c.text) for c in reader.completions(2, "held-out")] == [(0, "xxxxx"), (1, "xxxxx")]
        assert reader.iterations_with_completions("held-out") == [2]
        assert reader.completions(1, "held-out") == []


def test_answers_of_the_oldest_evaluations_go_where_all_take_too_much(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MOST_COMPLETION_BYTES", 2 * 103)
    store = Store.open(folder.store)
    for number in range(4):
        store.commit(None, [with_texts(number, size=100)])
    with RunReader.open(folder) as reader:
        assert reader.iterations_with_completions("held-out") == [2, 3]
        assert len(reader.evaluations()) == 4
    store.commit(None, [with_texts(4, size=5000)])
    with RunReader.open(folder) as reader:
        assert reader.iterations_with_completions("held-out") == [4]
