"""What a run refuses at its door: folders, ports and workers that are not its own, each by name."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dartes.builtin import builtin_model
from dartes.cli.status import status_of
from dartes.data.builtin import builtin_rows
from dartes.errors import ExitCode
from dartes.rpc import tls
from dartes.state import RunFolder

from ..waiting import until
from .harness import EngineHook, Hold, Run, held_run
from .variants import Stage

JobWriter = Callable[..., Path]


@dataclass(frozen=True)
class Running:
    """A run on files of its own, with its one worker inside a lease."""

    run: Run
    hold: Hold
    job: Path
    root: Path

    @property
    def folder(self) -> RunFolder:
        """The run's folder."""
        return self.run.folder


@pytest.fixture(scope="module")
def running(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A run in progress, which goes on to its end after the tests."""
    root = tmp_path_factory.mktemp("running")
    rows = list(builtin_rows("addition", "train"))[:40]
    (root / "train.jsonl").write_text("".join(f'{{"a": {r["a"]}, "b": {r["b"]}}}\n' for r in rows))
    shutil.copytree(builtin_model("addition"), root / "model")
    job = Stage(stage.spec, stage.engine, root, groups=0).job(
        "job",
        model__source=str(root / "model"),
        dataset={"source": str(root / "train.jsonl")},
        es__iterations=2,
    )
    with held_run(job, root / "run", "--workers", "1", at="all:20") as (run, hold):
        run.until(hold.pids, "the worker inside a lease")
        yield Running(run, hold, job, root)
        hold.open()
        run.must_end_with(ExitCode.DONE)


def test_a_second_command_on_a_folder_in_use_names_the_process_that_holds_it(running: Running) -> None:
    with Run(running.job, running.folder.path) as second:
        output = second.must_end_with(ExitCode.CONFIGURATION)
    assert f"in use by another process (pid {running.run.pid})" in output
    assert "Traceback" not in output


def test_the_status_of_a_run_can_be_asked_for_while_it_runs(running: Running) -> None:
    status = status_of(running.folder)
    assert status["running"]
    assert (status["phase"], status["workers"], status["iteration"]) == ("Running", 1, 0)


def test_a_worker_with_other_problems_is_refused_by_the_data_sets_name(running: Running) -> None:
    changed = running.root / "changed.jsonl"
    lines = (running.root / "train.jsonl").read_text().splitlines(keepends=True)
    changed.write_text("".join([*lines[:-1], '{"a": 1, "b": 1}\n']))
    code, words = stranger(running, "train.jsonl", "changed.jsonl")
    assert code == ExitCode.CONFIGURATION
    assert "worker stranger cannot take part: data set 'train': digest" in words
    assert "base model" not in words


def test_a_worker_with_another_base_model_is_refused_by_its_digest(running: Running) -> None:
    shutil.copytree(running.root / "model", running.root / "changed")
    weights = running.root / "changed" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-2] ^= 1
    weights.write_bytes(content)
    code, words = stranger(running, f"{running.root}/model", f"{running.root}/changed")
    assert code == ExitCode.CONFIGURATION
    assert "worker stranger cannot take part: base model: digest" in words
    assert "spec.model.source" in words


def test_a_worker_without_the_runs_certificate_is_not_heard(running: Running) -> None:
    for role, credentials in tls.issue().items():
        tls.save(credentials, running.root / "other-tls" / role)
    waiting = "does not answer; waiting for it"
    code, words = stranger(running, "", "", running.root / "other-tls" / "worker", until_it_says=waiting)
    assert code is None, words
    assert "handshake" in words.lower()
    assert status_of(running.folder)["workers"] == 1


def stranger(
    running: Running, old: str, new: str, tls_folder: Path | None = None, until_it_says: str | None = None
) -> tuple[int | None, str]:
    """Start a worker by hand whose job file differs in one place.

    Returns its exit code and log; None where it said what was waited for and was ended.
    """
    folder = running.root / f"stranger-{len(list(running.root.iterdir()))}"
    folder.mkdir()
    text = running.folder.job.read_text()
    assert old in text
    (folder / "job.yaml").write_text(text.replace(old, new) if old else text)
    arguments = ["--coordinator", running.folder.endpoint.read_text(), "--job", str(folder / "job.yaml")]
    arguments += ["--snapshots", str(folder / "snapshots")]
    arguments += ["--tls", str(tls_folder or running.folder.tls / "worker"), "--name", "stranger"]
    log = folder / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", "dartes_worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "DARTES_ENGINE": EngineHook.HASHING},
        ) as process,
    ):
        until(
            lambda: process.poll() is not None or (until_it_says or "\0") in log.read_text(),
            "the stranger's end or words",
        )
        code = process.poll()
        process.kill()
    return code, log.read_text()


def test_a_folder_of_another_job_is_refused_with_every_field_that_differs(
    reference_folder: Path, job: JobWriter
) -> None:
    with Run(job(es__sigma=0.004, generation__maxNewTokens=7), reference_folder) as run:
        output = run.must_end_with(ExitCode.CONFIGURATION)
    assert "holds a run of another job" in output
    assert "spec.es.sigma: was 0.003, now 0.004" in output
    assert "spec.generation.maxNewTokens: was 8, now 7" in output
    assert output.count("decides the result and is fixed") == 2
    assert "Traceback" not in output


def test_a_port_in_use_is_named_with_the_way_out(job: JobWriter, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Run(job(), tmp_path / "run", "--port", str(port)) as run:
            output = run.must_end_with(ExitCode.CONFIGURATION)
    assert f"127.0.0.1:{port}: can't listen there" in output
    assert "--port" in output
    assert "Traceback" not in output
