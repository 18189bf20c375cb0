"""Finished and half-done runs for the commands that read a folder."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dartes.state import RunFolder

from .in_process import EVALUATION, SPEC, changed, job_text, play


@pytest.fixture(scope="session")
def finished_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; tests must leave it as it is."""
    return play(tmp_path_factory.mktemp("finished") / "run", SPEC).path


@pytest.fixture(scope="session")
def evaluated_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with several samples, a holdout and kept answers; tests must leave it as it is."""
    spec = changed(evaluation=EVALUATION)
    return play(tmp_path_factory.mktemp("evaluated") / "run", spec).path


@pytest.fixture(scope="session")
def half_done_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that stopped after 3 of its iterations; tests must leave it as it is."""
    return play(tmp_path_factory.mktemp("half-done") / "run", SPEC, stop_at=3).path


@pytest.fixture
def finished(finished_folder: Path, tmp_path: Path) -> RunFolder:
    """A copy of the finished run."""
    shutil.copytree(finished_folder, tmp_path / "run")
    return RunFolder(tmp_path / "run")


@pytest.fixture
def job_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a job file."""

    def write(spec: dict[str, object], name: str = "tiny") -> Path:
        path = tmp_path / f"{name}.yaml"
        path.write_text(job_text(spec, name))
        return path

    return write
