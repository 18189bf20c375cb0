"""Backups that are read back, and every kind of damage that makes a run fall back to one."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dartes.errors import RESTORED, ExitCode
from dartes.state import DamagedStoreError, RunFolder, RunReader
from dartes_coordinator import backups
from dartes_coordinator.backups import check_store, make_backup, restore_if_damaged
from dartes_coordinator.full_disk import StoreFullError
from dartes_coordinator.loading import check_deeply, load_run
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.start import open_plan
from dartes_coordinator.store import Store

from .kit import Clock, FakeWorker, finished_folder, opened, plan, run_until, settings
from .stored import change

RUN = plan(settings(iterations=6), evaluation_sets={}, data_digests={"train": "train-digest"})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four iterations, with backups after the second and the third."""
    folder = RunFolder(tmp_path_factory.mktemp("template"))
    clock, worker = Clock(), FakeWorker("w", RUN)
    coordinator = opened(folder, RUN, clock)
    worker.register(coordinator, clock())
    for iteration in (2, 3, 4):
        run_until(coordinator, [worker], clock, iteration)
        if iteration < 4:
            make_backup(coordinator.run.ledger._store, folder, iteration, keep=3)
    coordinator.close()
    return folder.path


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(template, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def check_of(folder: RunFolder, run: RunPlan = RUN) -> Callable[[Path], int]:
    return lambda path: check_deeply(folder, run, path)


def restored_iterations(folder: RunFolder) -> int:
    restored = restore_if_damaged(folder, check_of(folder))
    assert restored is not None
    with RunReader.open(folder) as reader:
        assert reader.iteration_count() == restored.iteration
    return restored.iteration


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5000])


def cut_inside_the_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:50])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def overwrite_a_page(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    path.write_bytes(content)


def flip_a_byte_of_a_page_header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096] ^= 0xFF
    path.write_bytes(content)


def replace_by_text(path: Path) -> None:
    path.write_text("this is no database, but it is long enough to look at" * 100)


def break_the_chain(path: Path) -> None:
    change(path, "UPDATE iterations SET row_hash = zeroblob(32) WHERE iteration = 1")


def damage_a_journal_row(path: Path) -> None:
    change(path, "UPDATE iterations SET row = x'00' WHERE iteration = 1")


def lose_an_iteration(path: Path) -> None:
    change(path, "DELETE FROM iterations WHERE iteration = 1")


def damage_the_header(path: Path) -> None:
    change(path, "UPDATE meta SET value = '{}' WHERE key = 'journal_header'")


def lose_the_header(path: Path) -> None:
    change(path, "DELETE FROM meta WHERE key = 'journal_header'")


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        cut_inside_the_header,
        empty,
        overwrite_a_page,
        flip_a_byte_of_a_page_header,
        replace_by_text,
        break_the_chain,
        damage_a_journal_row,
        lose_an_iteration,
        damage_the_header,
        lose_the_header,
        Path.unlink,
    ],
)
def test_damage_is_found_and_the_newest_backup_takes_its_place(
    folder: RunFolder, damage: Callable[[Path], None]
) -> None:
    damage(folder.store)
    assert restored_iterations(folder) == 3


def flip_a_result(path: Path) -> None:
    with RunReader.open(RunFolder(path.parent), path) as reader:
        passed = bytearray(reader._query("SELECT passed FROM iterations WHERE iteration = 1")[0][0])
    passed[0] ^= 1
    change(path, "UPDATE iterations SET passed = ? WHERE iteration = 1", bytes(passed))


def shorten_the_bits(path: Path) -> None:
    change(path, "UPDATE iterations SET truncated = x'' WHERE iteration = 1")


def garble_the_scores(path: Path) -> None:
    change(path, "UPDATE iterations SET scores = x'0011' WHERE iteration = 1")


def change_a_problem(path: Path) -> None:
    change(path, "UPDATE iterations SET problems = zeroblob(length(problems)) WHERE iteration = 1")


def change_a_source(path: Path) -> None:
    change(path, "UPDATE iterations SET replayed = x'ff' WHERE iteration = 1")


def change_the_stage(path: Path) -> None:
    change(path, "UPDATE iterations SET stage = 99999999 WHERE iteration = 1")


def garble_what_stands_beside(path: Path) -> None:
    change(path, "UPDATE iterations SET beside = '{\"seconds\"' WHERE iteration = 1")


def rename_what_stands_beside(path: Path) -> None:
    change(path, "UPDATE iterations SET beside = '{\"secondz\": 1}' WHERE iteration = 1")


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_result,
        shorten_the_bits,
        garble_the_scores,
        change_a_problem,
        change_a_source,
        change_the_stage,
        garble_what_stands_beside,
        rename_what_stands_beside,
    ],
)
def test_bits_that_do_not_lead_to_what_is_stored_make_the_run_fall_back_when_it_is_opened(
    folder: RunFolder, damage: Callable[[Path], None]
) -> None:
    damage(folder.store)
    assert check_store(folder, folder.store) == 4  # pages and chain are good
    coordinator = open_plan(folder, RUN, Clock())
    assert coordinator is not None
    assert coordinator.run.progress.iteration == 3
    (note,) = coordinator.status().notes
    assert RESTORED in note, "the operator and whoever follows the run are told"
    coordinator.run.ledger.flush()
    with RunReader.open(folder) as reader:
        (event,) = [text for _, reason, text in reader.events() if reason == "Restored"]
    assert "iteration 1" in event
    assert "3 iterations are kept" in event
    assert len(folder.metrics.read_text().splitlines()) == 3


def test_a_run_that_fell_back_ends_where_it_would_have_ended(folder: RunFolder, tmp_path: Path) -> None:
    reference = load_run(finished_folder(tmp_path / "reference", RUN), RUN).progress.hashes
    flip_a_result(folder.store)
    clock, worker = Clock(), FakeWorker("w", RUN)
    coordinator = opened(folder, RUN, clock)
    worker.register(coordinator, clock())
    run_until(coordinator, [worker], clock)
    coordinator.close()
    assert load_run(folder, RUN).progress.hashes == reference


def test_the_damaged_store_is_kept_for_a_post_mortem(folder: RunFolder) -> None:
    break_the_chain(folder.store)
    damaged = folder.store.read_bytes()
    restored_iterations(folder)
    assert (folder.damaged / "state.sqlite.0").read_bytes() == damaged


def test_a_damaged_backup_is_passed_over_and_moved_away(folder: RunFolder) -> None:
    flip_a_result(folder.store)
    flip_a_result(folder.backups / "state-00000003.sqlite")
    coordinator = opened(folder, RUN)
    assert coordinator.run.progress.iteration == 2
    coordinator.close()
    assert [b.name for b in folder.backups.iterdir()] == ["state-00000002.sqlite"]


def test_where_no_backup_is_good_everything_is_left_as_it_was(folder: RunFolder) -> None:
    stores = [folder.store, *sorted(folder.backups.iterdir())]
    for store in stores:
        break_the_chain(store)
    before = [s.read_bytes() for s in stores]
    with pytest.raises(DamagedStoreError, match="no good backup.*dartes export") as caught:
        restore_if_damaged(folder, check_of(folder))
    assert caught.value.exit_code is ExitCode.CONFIGURATION
    assert str(caught.value).count("chain breaks at iteration 1") == 3
    assert [s.read_bytes() for s in stores] == before
    assert not folder.damaged.exists()


def test_a_lost_store_without_backups_is_never_mistaken_for_a_new_run(folder: RunFolder) -> None:
    for backup in folder.backups.iterdir():
        backup.unlink()
    folder.store.unlink()
    with pytest.raises(DamagedStoreError, match=r"state\.sqlite is missing"):
        open_plan(folder, RUN, Clock())
    assert not folder.store.exists()


def test_a_new_folder_and_a_store_that_was_only_created_are_not_damage(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert restore_if_damaged(folder, check_of(folder)) is None
    folder.store.touch()
    assert restore_if_damaged(folder, check_of(folder)) is None


def test_incarnations_after_a_fall_back_are_above_all_that_were_handed_out(folder: RunFolder) -> None:
    """The backup was made by incarnation 1; workers of incarnations 2 to 4 may still be about."""
    for _ in range(3):
        Store.open(folder.store).close()
    break_the_chain(folder.store)
    restored_iterations(folder)
    assert Store.open(folder.store).incarnation > 1_700_000_000


def test_the_rollback_journal_of_the_damaged_store_is_not_played_onto_the_backup(folder: RunFolder) -> None:
    break_the_chain(folder.store)
    stale = folder.store.with_name("state.sqlite-journal")
    stale.write_bytes(b"\x00" * 512)  # not hot, but there
    restored_iterations(folder)
    assert not stale.exists()


def test_only_the_newest_backups_are_kept(folder: RunFolder) -> None:
    store = Store.open(folder.store)
    make_backup(store, folder, 4, keep=2)
    assert sorted(b.name for b in folder.backups.iterdir()) == [
        "state-00000003.sqlite",
        "state-00000004.sqlite",
    ]


def test_a_copy_that_is_not_good_never_gets_its_name(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def garbled(path: Path) -> None:
        path.write_bytes(b"x" * 4096)

    store = Store.open(folder.store)
    monkeypatch.setattr(store, "copy_to", garbled)
    before = sorted(folder.backups.iterdir())
    with pytest.raises(DamagedStoreError):
        make_backup(store, folder, 4, keep=3)
    assert sorted(folder.backups.iterdir()) == before


def test_a_backup_that_finds_the_disk_full_leaves_nothing_behind(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    store = Store.open(folder.store)
    monkeypatch.setattr(store, "copy_to", full)
    before = sorted(folder.backups.iterdir())
    with pytest.raises(StoreFullError):
        make_backup(store, folder, 4, keep=3)
    assert sorted(folder.backups.iterdir()) == before


def test_a_kill_in_the_middle_of_restoring_can_be_repeated(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_the_chain(folder.store)

    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(backups, "_sync", killed)
        with pytest.raises(KeyboardInterrupt):
            restore_if_damaged(folder, check_of(folder))
    assert restored_iterations(folder) == 3
