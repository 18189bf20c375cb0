"""A coordinator in a pod takes over what lies on its volume, or refuses it by the names of the fields."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from dartes.errors import ConfigurationError, TransientError
from dartes.spec import algorithm_digest, load_job
from dartes.spec.load import LoadedJob
from dartes.state import RunFolder, takeover

from ..integration.harness import write_job
from .cli.in_process import SPEC, changed

ELSEWHERE = "give the job another volume"


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., LoadedJob]:
    def write(**changes: object) -> LoadedJob:
        return load_job(write_job(tmp_path / "config" / "job.yaml", changed(**changes) if changes else SPEC))

    return write


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """On a fresh volume, beside what its file system keeps there."""
    (tmp_path / "volume" / "lost+found").mkdir(parents=True)
    return RunFolder(tmp_path / "volume" / "run")


def test_a_fresh_volume_gets_the_job(job: Callable[..., LoadedJob], folder: RunFolder) -> None:
    takeover.prepare(folder, ELSEWHERE)
    assert takeover.take_over(folder, job(), ELSEWHERE) == []
    assert algorithm_digest(load_job(folder.job).job.spec) == algorithm_digest(job().job.spec)
    assert [path.name for path in folder.path.iterdir()] == ["job.yaml"]


def test_the_same_job_again_writes_nothing(job: Callable[..., LoadedJob], folder: RunFolder) -> None:
    takeover.prepare(folder, ELSEWHERE)
    takeover.take_over(folder, job(), ELSEWHERE)
    before = folder.job.stat()
    assert takeover.take_over(folder, job(), ELSEWHERE) == []
    assert folder.job.stat().st_ino == before.st_ino


def test_growth_is_written_down_and_told(job: Callable[..., LoadedJob], folder: RunFolder) -> None:
    takeover.prepare(folder, ELSEWHERE)
    takeover.take_over(folder, job(), ELSEWHERE)
    notes = takeover.take_over(folder, job(es__iterations=9), ELSEWHERE)
    assert notes == ["spec.es.iterations: was 6, now 9"]
    assert load_job(folder.job).job.spec.es.iterations == 9


def test_another_jobs_run_is_refused_with_what_to_do_here(
    job: Callable[..., LoadedJob], folder: RunFolder
) -> None:
    takeover.prepare(folder, ELSEWHERE)
    takeover.take_over(folder, job(), ELSEWHERE)
    with pytest.raises(ConfigurationError) as caught:
        takeover.take_over(folder, job(es__sigma=0.1), "Give the job another volume")
    assert "spec.es.sigma: was 0.003, now 0.1" in str(caught.value)
    assert "Give the job another volume, or the job file" in str(caught.value)
    assert "--workdir" not in str(caught.value)


def test_a_folder_of_something_else_is_refused(folder: RunFolder) -> None:
    (folder.path / "letters").mkdir(parents=True)
    with pytest.raises(
        ConfigurationError, match="neither empty nor a run folder; give the job another volume"
    ):
        takeover.prepare(folder, ELSEWHERE)


def test_a_volume_that_may_not_be_written_is_the_users_to_mend(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", forbidden)
    with pytest.raises(ConfigurationError, match="can't be used as a run folder: Permission denied"):
        takeover.prepare(folder, ELSEWHERE)


@pytest.mark.parametrize("where", ["mkdir", "write_text", "replace"])
def test_a_full_volume_is_worth_another_try(
    job: Callable[..., LoadedJob], folder: RunFolder, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    loaded = job()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def take() -> None:
        takeover.prepare(folder, ELSEWHERE)
        takeover.take_over(folder, loaded, ELSEWHERE)

    with monkeypatch.context() as patched:
        patched.setattr(Path, where, full)
        with pytest.raises(TransientError, match="the disk is full; free some space"):
            take()
    take()
    assert folder.job.exists()
