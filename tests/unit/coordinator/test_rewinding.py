"""Going back to an older iteration: once, without a trace in what follows, and with nothing thrown away."""

import os
import sqlite3
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dartes.difficulty import StageSettings
from dartes.errors import ConfigurationError
from dartes.state import RunFolder, RunReader
from dartes_coordinator import rewinding
from dartes_coordinator.backups import check_store, make_backup
from dartes_coordinator.full_disk import StoreFullError
from dartes_coordinator.loading import load_run
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.rewinding import Rewind
from dartes_coordinator.start import open_plan
from dartes_coordinator.store import Store

from .kit import Clock, FakeWorker, expected_hashes, finished_folder, opened, plan, run_until, settings
from .stored import change

RUN = plan(snapshot_every=2)
ITERATIONS = 5


class KilledError(Exception):
    """Stands for the end of the process."""


def killed(*_: object) -> NoReturn:
    raise KilledError


def go_on(folder: RunFolder, run: RunPlan, rewind: Rewind | None, upto: int | None = None) -> int:
    """Open with a request and work until `upto` iterations are there; returns how many were kept."""
    clock, worker = Clock(), FakeWorker("late", run)
    coordinator = open_plan(folder, run, clock, rewind=rewind)
    assert coordinator is not None
    kept = coordinator.run.progress.iteration
    worker.register(coordinator, clock())
    run_until(coordinator, [worker], clock, upto)
    coordinator.close()
    return kept


def answers(folder: RunFolder) -> list[tuple[int, str, bytes]]:
    with RunReader.open(folder) as reader:
        return [(e.iteration, e.set_name, e.passed.tobytes()) for e in reader.evaluations()]


def content(folder: RunFolder) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder.path)): path.read_bytes()
        for path in folder.path.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("iteration", range(ITERATIONS + 1))
def test_a_finished_run_that_goes_back_comes_to_the_same_end_again(tmp_path: Path, iteration: int) -> None:
    folder, twin = finished_folder(tmp_path / "run", RUN), finished_folder(tmp_path / "twin", RUN)
    if iteration < ITERATIONS:
        assert go_on(folder, RUN, Rewind(iteration, "job")) == iteration
    else:
        assert open_plan(folder, RUN, Clock(), rewind=Rewind(iteration, "job")) is None, "nothing to go back"
    assert load_run(folder, RUN).progress.hashes == expected_hashes(RUN)[0]
    assert answers(folder) == answers(twin)
    assert folder.journal.read_bytes() == twin.journal.read_bytes()
    assert len(folder.metrics.read_text().splitlines()) == ITERATIONS


@pytest.mark.parametrize("iteration", range(6))
def test_a_run_goes_back_across_the_border_of_a_stage(tmp_path: Path, iteration: int) -> None:
    run = plan(
        settings(stages=(StageSettings(iterations=3), StageSettings(iterations=3))),
        problem_counts=((24,), (12,)),
    )
    folder = finished_folder(tmp_path, run)
    assert go_on(folder, run, Rewind(iteration, "job")) == iteration
    progress = load_run(folder, run).progress
    assert (progress.hashes, progress.state.digest()) == expected_hashes(run)


def test_a_request_is_carried_out_once_however_often_the_coordinator_starts(tmp_path: Path) -> None:
    folder, request = finished_folder(tmp_path, RUN), Rewind(1, "job")
    assert go_on(folder, RUN, request, upto=3) == 1
    assert go_on(folder, RUN, request, upto=4) == 3
    assert go_on(folder, RUN, Rewind(1, "another job"), upto=3) == 1
    assert go_on(folder, RUN, None) == 3
    with RunReader.open(folder) as reader:
        texts = [text for _, reason, text in reader.events() if reason == "Rewound"]
    assert ["4 later iterations" in texts[0], "3 later iterations" in texts[1]] == [True, True]
    assert len(texts) == 2


def test_the_state_as_it_was_is_kept_and_can_be_put_back(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, RUN)
    go_on(folder, RUN, Rewind(2, "job"), upto=3)
    assert not folder.summary.exists(), "the run is no longer finished"
    kept = folder.rewound / "state-00000005-job.sqlite"
    assert check_store(folder, kept) == ITERATIONS
    kept.replace(folder.store)
    assert open_plan(folder, RUN, Clock()) is None, "the finished run is back"
    assert load_run(folder, RUN).progress.hashes == expected_hashes(RUN)[0]


def test_snapshots_of_forgotten_weights_go_with_them(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, RUN)
    folder.snapshots.mkdir()
    for iteration in (2, 4):
        (folder.snapshots / f"iteration-{iteration}.safetensors").touch()
    coordinator = open_plan(folder, RUN, Clock(), rewind=Rewind(3, "job"))
    assert coordinator is not None
    coordinator.close()
    assert [path.name for path in folder.snapshots.iterdir()] == ["iteration-2.safetensors"]
    with RunReader.open(folder) as reader:
        assert [one.iteration for one in reader.snapshots()] == [2]
        assert max(k for k, *_ in reader.attestations()) == 3


@pytest.mark.parametrize(("run", "committed"), [(RUN, ITERATIONS), (RUN, 2), (RUN, 0)])
def test_an_iteration_that_the_run_has_not_reached_is_refused_and_nothing_changes(
    tmp_path: Path, run: RunPlan, committed: int
) -> None:
    folder = finished_folder(tmp_path, run, committed)
    before = content(folder)
    with pytest.raises(ConfigurationError, match=f"iteration 9: {committed} iterations.*0 to {committed}"):
        open_plan(folder, run, Clock(), rewind=Rewind(9, "job"))
    assert content(folder) == before


def test_a_new_folder_has_nothing_to_go_back_to(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="iteration 1: 0 iterations are committed"):
        open_plan(RunFolder(tmp_path), RUN, Clock(), rewind=Rewind(1, "job"))
    assert not RunFolder(tmp_path).store.exists()
    assert go_on(RunFolder(tmp_path), RUN, Rewind(0, "job"), upto=2) == 0
    assert go_on(RunFolder(tmp_path), RUN, Rewind(0, "job")) == 2


def test_a_run_of_another_job_is_refused_before_anything_is_forgotten(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, RUN)
    before = content(folder)
    with pytest.raises(ConfigurationError, match="can't go on here"):
        open_plan(folder, plan(algorithm_digest="other"), Clock(), rewind=Rewind(2, "job"))
    assert content(folder) == before


def test_a_run_may_become_shorter_by_as_much_as_it_goes_back(tmp_path: Path) -> None:
    folder, shorter = finished_folder(tmp_path, RUN), plan(settings(iterations=3))
    with pytest.raises(ConfigurationError, match="es.iterations is 3, but 4 iterations are done"):
        open_plan(folder, shorter, Clock(), rewind=Rewind(4, "job"))
    assert go_on(folder, shorter, Rewind(2, "job")) == 2
    assert load_run(folder, shorter).progress.hashes == expected_hashes(shorter)[0]
    assert open_plan(folder, shorter, Clock(), rewind=Rewind(2, "job")) is None


def kill_before_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "copy_to", killed)


def kill_while_the_copy_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewinding, "check_store", killed)


def kill_before_backups_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewinding, "remove_backups", killed)


def kill_before_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "forget_from", killed)


def kill_after_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_from = Store.forget_from

    def then_die(*arguments: Any) -> None:
        forget_from(*arguments)
        killed()

    monkeypatch.setattr(Store, "forget_from", then_die)


@pytest.mark.parametrize("iteration", [0, 2])
@pytest.mark.parametrize(
    "kill",
    [
        kill_before_the_copy,
        kill_while_the_copy_is_checked,
        kill_before_backups_are_removed,
        kill_before_the_transaction,
        kill_after_the_transaction,
    ],
)
def test_a_coordinator_killed_while_it_goes_back_goes_back_all_the_same(
    tmp_path: Path, iteration: int, kill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, request = finished_folder(tmp_path, RUN), Rewind(iteration, "job")
    with monkeypatch.context() as patched:
        kill(patched)
        with pytest.raises(KilledError):
            open_plan(folder, RUN, Clock(), rewind=request)
    assert go_on(folder, RUN, request) == iteration
    assert load_run(folder, RUN).progress.hashes == expected_hashes(RUN)[0]
    assert [path.name for path in folder.rewound.iterdir()] == ["state-00000005-job.sqlite"]
    assert not folder.damaged.exists(), "nothing was taken for damage"


def test_a_store_that_is_damaged_later_falls_back_to_the_state_that_the_run_went_back_to(
    tmp_path: Path,
) -> None:
    folder, request = finished_folder(tmp_path, RUN), Rewind(2, "job")
    assert [path.name for path in folder.backups.iterdir()] == ["state-00000005.sqlite"]
    go_on(folder, RUN, request, upto=4)
    assert [path.name for path in folder.backups.iterdir()] == ["state-00000002.sqlite"]
    os.truncate(folder.store, 5000)
    assert go_on(folder, RUN, request) == 2
    assert load_run(folder, RUN).progress.hashes == expected_hashes(RUN)[0]


def flip_a_result(path: Path, iteration: int) -> None:
    """What neither SQLite nor the chain of journal rows notices."""
    with sqlite3.connect(path) as connection:
        (bits,) = connection.execute(
            "SELECT passed FROM iterations WHERE iteration = ?", (iteration,)
        ).fetchone()
    flipped = bytes([bits[0] ^ 1, *bits[1:]])
    change(path, "UPDATE iterations SET passed = ? WHERE iteration = ?", flipped, iteration)


def back_up(folder: RunFolder, iteration: int) -> None:
    store = Store.open(folder.store)
    make_backup(store, folder, iteration, keep=3)
    store.close()


def test_damage_in_what_is_to_stay_is_found_while_the_backups_are_there(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, RUN, 4)
    back_up(folder, 4)
    flip_a_result(folder.store, 1)
    assert go_on(folder, RUN, Rewind(2, "job")) == 2
    assert load_run(folder, RUN).progress.hashes == expected_hashes(RUN)[0]
    assert [path.name for path in folder.damaged.iterdir()] == ["state.sqlite.0"]
    with RunReader.open(folder) as reader:
        assert "state-00000004.sqlite is used instead" in next(
            text for _, reason, text in reader.events() if reason == "Restored"
        )


def test_a_backup_serves_a_run_that_becomes_shorter_by_going_back(tmp_path: Path) -> None:
    folder, shorter = finished_folder(tmp_path, RUN), plan(settings(iterations=3))
    flip_a_result(folder.store, 1)
    assert go_on(folder, shorter, Rewind(2, "job")) == 2
    assert load_run(folder, shorter).progress.hashes == expected_hashes(shorter)[0]


def test_damage_in_what_is_forgotten_does_not_matter(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, RUN)
    flip_a_result(folder.store, 3)
    assert go_on(folder, RUN, Rewind(2, "job")) == 2
    assert not folder.damaged.exists()


def test_a_store_damaged_after_a_request_for_where_the_run_stood_falls_back_to_there(tmp_path: Path) -> None:
    folder, request = finished_folder(tmp_path, RUN, 2), Rewind(3, "job")
    back_up(folder, 2)
    go_on(folder, RUN, None, upto=3)
    assert go_on(folder, RUN, request, upto=4) == 3
    os.truncate(folder.store, 5000)
    assert go_on(folder, RUN, request) == 3
    assert load_run(folder, RUN).progress.hashes == expected_hashes(RUN)[0]


def test_a_backup_from_before_the_iteration_asked_for_fails_no_job_even_if_the_start_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, request = finished_folder(tmp_path, RUN, 2), Rewind(3, "job")
    back_up(folder, 2)
    go_on(folder, RUN, None, upto=3)
    go_on(folder, RUN, request, upto=4)
    (folder.backups / "state-00000003.sqlite").unlink()
    os.truncate(folder.store, 5000)
    with monkeypatch.context() as patched:
        patched.setattr("dartes_coordinator.start.load_run", killed)
        with pytest.raises(KilledError):
            open_plan(folder, RUN, Clock(), rewind=request)
    assert go_on(folder, RUN, request) == 2
    assert load_run(folder, RUN).progress.hashes == expected_hashes(RUN)[0]


@pytest.mark.parametrize("iteration", [0, 2])
def test_backups_of_forgotten_iterations_go_though_the_coordinator_was_killed_before(
    tmp_path: Path, iteration: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, request = finished_folder(tmp_path, RUN), Rewind(iteration, "job")
    folder.snapshots.mkdir()
    (folder.snapshots / "iteration-4.safetensors").touch()
    with monkeypatch.context() as patched:
        kill_after_the_transaction(patched)
        with pytest.raises(KilledError):
            open_plan(folder, RUN, Clock(), rewind=request)
    assert [path.name for path in folder.backups.iterdir()] == ["state-00000005.sqlite"]
    coordinator = open_plan(folder, RUN, Clock())
    assert coordinator is not None
    coordinator.close()
    names = [path.name for path in folder.backups.iterdir()]
    assert names == ([f"state-{iteration:08d}.sqlite"] if iteration else [])
    assert not folder.summary.exists()
    assert not any(folder.snapshots.iterdir())
    assert go_on(folder, RUN, request, upto=4) == iteration
    back_up(folder, 4)
    assert go_on(folder, RUN, request) == 4
    assert (folder.backups / "state-00000004.sqlite").exists(), "they are deleted once"


def test_a_disk_that_fills_up_while_iterations_are_forgotten_costs_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, request = finished_folder(tmp_path, RUN), Rewind(2, "job")

    def full(*_: object) -> NoReturn:
        raise StoreFullError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "forget_from", full)
        with pytest.raises(StoreFullError):
            open_plan(folder, RUN, Clock(), rewind=request)
    assert [path.name for path in folder.backups.iterdir()] == ["state-00000005.sqlite"]
    assert folder.summary.exists()
    assert go_on(folder, RUN, request) == 2


def test_a_killed_copy_is_swept_away(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, RUN)
    folder.rewound.mkdir()
    for name in ("state-00000005-other.partial", "state-00000005-job.partial-journal"):
        (folder.rewound / name).write_bytes(b"half")
    assert go_on(folder, RUN, Rewind(2, "job")) == 2
    assert [path.name for path in folder.rewound.iterdir()] == ["state-00000005-job.sqlite"]


def test_a_store_that_lost_everything_has_not_gone_back_to_the_start(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, RUN)
    folder.store.write_bytes(b"")
    assert open_plan(folder, RUN, Clock()) is None, "the finished run is restored"
    assert go_on(folder, RUN, Rewind(0, "job"), upto=3) == 0
    back_up(folder, 3)
    folder.store.write_bytes(b"")
    assert go_on(folder, RUN, Rewind(0, "job")) == 3


def test_a_full_disk_leaves_the_run_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, request = finished_folder(tmp_path, RUN), Rewind(2, "job")

    def full(*_: object) -> NoReturn:
        raise StoreFullError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "copy_to", full)
        with pytest.raises(StoreFullError):
            open_plan(folder, RUN, Clock(), rewind=request)
    assert check_store(folder, folder.store) == ITERATIONS
    assert not any(folder.rewound.iterdir())
    assert go_on(folder, RUN, request) == 2


def test_incarnations_of_the_run_count_on(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, RUN)
    first = opened(finished_folder(tmp_path / "other", RUN, 2), RUN).incarnation
    coordinator = open_plan(folder, RUN, Clock(), rewind=Rewind(2, "job"))
    assert coordinator is not None
    assert coordinator.incarnation == first == 2
