"""A run folder belongs to one process and one job; nothing else is ever taken for one."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dartes.cli.folder import default_folder, locked, take_over
from dartes.errors import ConfigurationError, TransientError
from dartes.spec import algorithm_digest, load_job
from dartes.state import RunFolder

from .in_process import SPEC, changed

JobWriter = Callable[..., Path]


def test_a_new_folder_is_made_and_given_the_job(job_file: JobWriter, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / "new")
    job = load_job(job_file(SPEC))
    with locked(folder):
        assert take_over(folder, job) == []
        assert folder.lock.read_text() == str(os.getpid())
    assert algorithm_digest(load_job(folder.job).job.spec) == algorithm_digest(job.job.spec)
    assert default_folder(job) == Path("runs/tiny")


def test_a_held_folder_names_its_holder_and_is_free_afterwards(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    waits: list[float] = []
    with locked(folder):
        with (
            pytest.raises(ConfigurationError, match=rf"in use by another process \(pid {os.getpid()}\)"),
            locked(folder, waits.append),
        ):
            pass
        assert sum(waits) == pytest.approx(0.5)
    with locked(folder):
        pass


def test_a_lock_that_is_held_for_an_instant_is_waited_for(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder.lock.open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        with locked(folder, lambda _: fcntl.flock(looking, fcntl.LOCK_UN)):
            assert folder.lock.read_text() == str(os.getpid())


def test_a_folder_with_other_content_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with (
        pytest.raises(ConfigurationError, match="neither empty nor a run folder; give another --workdir"),
        locked(RunFolder(tmp_path)),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigurationError, match="can't be used as a run folder"),
        locked(RunFolder(tmp_path / "file")),
    ):
        pass


def test_a_file_system_without_locks_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ConfigurationError, match="has no locks"), locked(RunFolder(tmp_path)):
        pass


def test_a_full_disk_is_no_mistake_of_the_user(
    job_file: JobWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = RunFolder(tmp_path / "run")
    job = load_job(job_file(SPEC))
    with locked(folder):
        monkeypatch.setattr(Path, "write_text", full)
        with pytest.raises(TransientError, match="the disk is full; free some space and run again"):
            take_over(folder, job)
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(TransientError, match="the disk is full"), locked(folder):
        pass


def test_a_run_of_another_job_is_refused_with_each_field(job_file: JobWriter, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with locked(folder):
        take_over(folder, load_job(job_file(SPEC)))
        before = folder.job.read_text()
        other = load_job(job_file(changed(es__sigma=0.1, task__auxiliaryWeight=0.5), "other"))
        with pytest.raises(ConfigurationError) as caught:
            take_over(folder, other)
    assert "spec.es.sigma: was 0.003, now 0.1" in str(caught.value)
    assert "spec.task.auxiliaryWeight: was 0.1, now 0.5" in str(caught.value)
    assert folder.job.read_text() == before


def test_what_may_change_is_taken_over_and_told(job_file: JobWriter, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with locked(folder):
        take_over(folder, load_job(job_file(SPEC)))
        notes = take_over(folder, load_job(job_file(changed(es__iterations=9, workers__replicas=3))))
    assert notes[0] == "spec.es.iterations: was 6, now 9"
    assert notes[1].startswith("spec.workers.replicas: was 1, now 3")
    assert load_job(folder.job).job.spec.es.iterations == 9
