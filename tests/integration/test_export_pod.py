"""The export pod's program: the model of a finished run at its destination, last words, exit codes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from dartes.checkpoint import open_checkpoint
from dartes.cli.export import export_run
from dartes.pod_claims import ROOT_VARIABLE
from dartes.state import RunFolder, RunReader

from .outcome import Identity


class ExportPod:
    """Runs the program as a pod would: read-only run folder, mounted claims, a termination file."""

    def __init__(self, run_dir: Path, root: Path) -> None:
        self.run_dir = run_dir
        self.claims = root / "claims"
        (self.claims / "models").mkdir(parents=True)
        self._root = root
        self._words = root / "termination-log"

    def start(self, destination: str, iteration: str = "Last", job: Path | None = None) -> int:
        """Run it to its end; returns the exit code."""
        self._words.write_text("")
        command = [sys.executable, "-m", "dartes_worker.export", "--run-dir", str(self.run_dir)]
        command += ["--job", str(job or self.run_dir / "job.yaml"), "--destination", destination]
        environment = {
            **os.environ,
            ROOT_VARIABLE: str(self.claims),
            "DARTES_TERMINATION_LOG": str(self._words),
            "DARTES_LOG_FORMAT": "json",
            "DARTES_JOB": "job",
            "DARTES_POD": "job-export",
            "XDG_CACHE_HOME": str(self._root / "cache"),
        }
        done = subprocess.run(
            [*command, "--iteration", iteration],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.log = done.stderr
        return done.returncode

    @property
    def words(self) -> str:
        """The termination message."""
        return self._words.read_text()

    def result(self) -> dict[str, Any]:
        """The termination message of a success."""
        found: dict[str, Any] = json.loads(self.words)
        return found


@pytest.fixture
def pod(reference_folder: Path, tmp_path: Path) -> ExportPod:
    return ExportPod(reference_folder, tmp_path)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_model_is_that_of_dartes_export_and_a_second_attempt_finds_it(
    pod: ExportPod, reference: Identity, tmp_path: Path
) -> None:
    before = files_with_times(pod.run_dir)
    for _ in range(2):
        assert pod.start("pvc://models/runs/job") == 0, pod.log
        assert pod.result() == {
            "uri": "pvc://models/runs/job",
            "digest": reference.weight_digest,
            "iteration": 14,
        }
    export_run(RunFolder(pod.run_dir), tmp_path / "here", None, None)
    assert files(pod.claims / "models" / "runs" / "job") == files(tmp_path / "here")
    lines = [json.loads(line) for line in pod.log.splitlines()]
    assert any("stood there already" in line["message"] for line in lines)
    assert {"job", "pod", "time", "level"} <= set(lines[-1])
    assert files_with_times(pod.run_dir) == before, "the run folder is only read"


def files_with_times(folder: Path) -> dict[str, float]:
    return {str(path): path.stat().st_mtime for path in sorted(folder.rglob("*"))}


def test_the_exported_model_loads_and_best_is_what_the_evaluations_say(pod: ExportPod) -> None:
    assert pod.start("pvc://models/best", "Best") == 0, pod.log
    with RunReader.open(RunFolder(pod.run_dir)) as reader:
        points = [(e.accuracy, -e.iteration) for e in reader.evaluations()]
    assert pod.result()["iteration"] == -max(points)[1]
    model = AutoModelForCausalLM.from_pretrained(pod.claims / "models" / "best")
    assert model.num_parameters() > 0


def test_a_numbered_iteration_is_exported(pod: ExportPod) -> None:
    assert pod.start("pvc://models/base", "0") == 0, pod.log
    assert pod.result()["iteration"] == 0
    assert open_checkpoint(pod.claims / "models" / "base").trainable


def test_another_model_at_the_destination_fails_the_job(pod: ExportPod) -> None:
    assert pod.start("pvc://models/m", "3") == 0, pod.log
    assert pod.start("pvc://models/m") == 64
    assert "holds another model (iteration 3" in pod.words
    assert "Traceback" not in pod.log


@pytest.mark.parametrize(
    ("destination", "iteration", "words"),
    [
        ("pvc://nowhere/m", "Last", "not mounted"),
        ("file:///tmp/m", "Last", "allowed: pvc://, s3://, gs://, hf://"),
        ("pvc://models/m", "15", "the run has 14 iterations; allowed: 0 to 14"),
    ],
)
def test_a_mistake_in_the_job_is_a_configuration_error(
    destination: str, iteration: str, words: str, pod: ExportPod
) -> None:
    assert pod.start(destination, iteration) == 64
    assert words in pod.words
    assert len(pod.words.encode()) <= 2048


def test_a_run_folder_without_a_journal_is_a_configuration_error(pod: ExportPod, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    job = pod.run_dir / "job.yaml"
    pod.run_dir = tmp_path / "empty"
    assert pod.start("pvc://models/m", job=job) == 64
    assert "journal" in pod.words


def test_neither_snapshots_nor_the_store_are_needed(
    pod: ExportPod, reference: Identity, tmp_path: Path
) -> None:
    shutil.copytree(pod.run_dir, tmp_path / "bare")
    bare = RunFolder(tmp_path / "bare")
    bare.store.unlink()
    shutil.rmtree(bare.snapshots)
    pod.run_dir = bare.path
    assert pod.start("pvc://models/m", "Best") == 0, pod.log
    assert pod.start("pvc://models/last") == 0, pod.log
    assert pod.result()["digest"] == reference.weight_digest


def test_no_engine_is_loaded() -> None:
    code = "import sys, dartes_worker.export; print('torch' in sys.modules or 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
