"""Journal, metrics and summary follow the store; a full disk delays them and spoils nothing."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dartes.errors import TransientError
from dartes.journal import read_journal
from dartes.state import RunFolder, RunReader
from dartes_coordinator import outputs as module
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.store import Store

from .kit import Clock, FakeWorker, opened, plan, run_until
from .stored import change

RUN = plan()


class Running:
    """A run of one worker, moved on by hand."""

    def __init__(self, path: Path) -> None:
        self.folder, self.clock, self.worker = RunFolder(path), Clock(), FakeWorker("w", RUN)
        self.coordinator: Coordinator = opened(self.folder, RUN, self.clock)
        self.worker.register(self.coordinator, self.clock())

    def to(self, iteration: int | None) -> None:
        run_until(self.coordinator, [self.worker], self.clock, iteration)

    def metrics(self) -> list[int]:
        return [json.loads(line)["iteration"] for line in self.folder.metrics.read_text().splitlines()]

    def assert_whole(self, iterations: int) -> None:
        hashes = self.coordinator.run.progress.hashes
        assert len(hashes) == iterations + 1
        assert read_journal(self.folder.journal).last_hash == hashes[-1]
        assert self.metrics() == list(range(iterations))


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path)


@contextmanager
def full(name: str) -> Iterator[None]:
    """A module's function that finds the disk full."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, refuse)
        yield


def test_journal_and_metrics_grow_with_each_commit(running: Running) -> None:
    for iteration in (1, 2, 3):
        running.to(iteration)
        running.assert_whole(iteration)


def test_the_journal_is_extended_without_reading_the_store_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def must_not(*_: Any) -> None:
        raise AssertionError("the store was read")

    outputs = running.coordinator.run.ledger._outputs
    monkeypatch.setattr(outputs, "_journal_from_store", must_not)
    running.to(2)
    running.assert_whole(2)


@pytest.mark.parametrize("name", ["append_row", "write_journal"])
def test_a_journal_that_found_the_disk_full_is_written_whole_at_the_next_commit(
    running: Running, name: str
) -> None:
    running.to(1)
    with full(name):
        running.to(2)
    running.to(3)
    running.assert_whole(3)


def test_a_journal_that_could_not_even_be_started_is_written_later(tmp_path: Path) -> None:
    with full("write_journal"):
        running = Running(tmp_path)
        running.to(1)
    assert not running.folder.journal.exists()
    running.to(2)
    running.assert_whole(2)


def test_metrics_wait_on_a_full_disk_and_no_half_line_is_left(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_half(file: int, data: bytes) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: len(data) - 9])

    write = os.write
    running.to(1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_half)
        running.to(3)
        assert running.metrics() == [0]
    running.to(4)
    running.assert_whole(4)


@pytest.mark.parametrize(
    "damage",
    [lambda p: p.unlink(), lambda p: p.write_bytes(p.read_bytes()[:-3]), lambda p: p.write_bytes(b"")],
)
def test_a_journal_that_somebody_spoilt_is_written_anew(
    running: Running, damage: Callable[[Path], object]
) -> None:
    running.to(2)
    damage(running.folder.journal)
    running.to(3)
    running.assert_whole(3)


def test_an_error_that_is_not_a_full_disk_is_not_swallowed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    running.to(1)
    monkeypatch.setattr(module, "append_row", broken)
    with pytest.raises(OSError, match="Input/output"):
        running.to(2)


def test_a_restart_writes_journal_and_metrics_anew(running: Running) -> None:
    running.to(3)
    running.coordinator.close()
    running.folder.journal.unlink()
    running.folder.metrics.write_text("nonsense\n")
    running.coordinator = opened(running.folder, RUN, running.clock)
    running.assert_whole(3)


def test_the_summary_waits_for_room_before_the_run_is_called_done(running: Running) -> None:
    with full("write_json"):
        for _ in range(300):
            running.worker.step(running.coordinator, running.clock.pass_by(0.1))
            if running.coordinator.run.paused is not None:
                break
        assert "full" in (running.coordinator.run.paused or "")
        assert not running.coordinator.done
        running.coordinator.retry(running.clock())
        assert not running.coordinator.done
    running.coordinator.retry(running.clock())
    assert running.coordinator.done
    summary = json.loads(running.folder.summary.read_text())
    assert (summary["status"], summary["iterations"]) == ("done", 5)
    with RunReader.open(running.folder) as reader:
        assert [reason for _, reason, _ in reader.events()] == ["Completed"]


def test_a_bad_copy_costs_the_backup_and_a_bad_store_ends_the_process(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.to(3)
    ledger = running.coordinator.run.ledger
    outputs, store = ledger._outputs, ledger._store

    def garbled(_: Store, path: Path) -> None:
        path.write_bytes(b"x" * 4096)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "copy_to", garbled)
        outputs.back_up(store, 3, 3)
    assert not list(running.folder.backups.iterdir())
    change(running.folder.store, "UPDATE iterations SET row_hash = zeroblob(32) WHERE iteration = 1")
    with pytest.raises(TransientError, match="falls back"):
        outputs.back_up(store, 3, 3)
