"""Which full disk is the run's: only that costs no failure of a coordinator."""

import errno
from pathlib import Path

import pytest

from dartes import pod
from dartes.errors import DISK_FULL, ExitCode, TransientError
from dartes.logs import LogFields
from dartes_coordinator import process
from dartes_coordinator.full_disk import StoreFullError, every_full_disk_named


def words_of(folder: Path, error: OSError, monkeypatch: pytest.MonkeyPatch) -> str:
    """The last words of a coordinator for which loading its job ended with an error."""
    termination = folder.parent / "termination-log"
    monkeypatch.setenv(pod.TERMINATION_VARIABLE, str(termination))

    def fails(_: Path) -> None:
        raise error

    monkeypatch.setattr(process, "load_job", fails)
    code = pod.outermost(lambda: process.run(folder, None, "127.0.0.1:0", folder, None, LogFields({})))
    assert code == ExitCode.TRANSIENT
    return termination.read_text()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_run_folder_stands_first_in_the_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder = tmp_path / "run"
    error = OSError(number, "no room", str(folder / "backups" / "x"))
    assert words_of(folder, error, monkeypatch).startswith(f"{folder}: {DISK_FULL} (no room)")


@pytest.mark.parametrize("name", ["hub/train.parquet", "runs/x", None])
def test_another_full_disk_is_not_told_as_that_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    folder, place = tmp_path / "run", None if name is None else str(tmp_path / name)
    said = words_of(folder, OSError(errno.ENOSPC, "no room", place), monkeypatch)
    assert str(folder) + ":" not in said
    assert said.startswith(DISK_FULL if place is None else f"{place}: {DISK_FULL}")


def test_other_errors_are_left_alone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), every_full_disk_named(tmp_path):
        raise FileNotFoundError(errno.ENOENT, "no such file", str(tmp_path / "x"))
    with pytest.raises(TransientError) as caught, every_full_disk_named(tmp_path):
        raise StoreFullError("from the store")
    assert str(caught.value) == "from the store"
