"""The commands of a user, on a run of real processes, in the order in which a stranger would type them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dartes.builtin import builtin_model
from dartes.checkpoint import open_checkpoint
from dartes.cli.main import main
from dartes.journal import read_journal
from dartes.noise import ServedDtype
from dartes.state import RunFolder
from dartes_worker.engines.base import GenerationLimits
from dartes_worker.master import MasterWeights

from .harness import EngineHook, run_to_end
from .outcome import summary_of

JobWriter = Callable[..., Path]


def test_a_run_tells_in_plain_lines_what_it_does_and_leaves_everything_behind(
    job: JobWriter, tmp_path: Path
) -> None:
    path, folder, model = job(es__iterations=4), RunFolder(tmp_path / "run"), tmp_path / "model"
    output = run_to_end(path, folder.path, "--export", str(model), engine=EngineHook.HASHING)
    lines = output.splitlines()
    assert lines[0] == f"job: 1 coordinator + 2 workers, folder {folder.path}"
    assert "\x1b" not in output, "no bar where there is no terminal"
    results = lines[-5:]
    for line, (name, where) in zip(
        results,
        [
            ("run folder", folder.path),
            ("curves", folder.curves),
            ("model", model),
            ("journal", folder.journal),
            ("check it", f"dartes verify {folder.path}"),
        ],
        strict=True,
    ):
        assert line.startswith(f"{name:<12}{where}")
    assert any(line.startswith("held-out: ") and " before, " in line for line in lines)
    assert any(line.startswith("4 iterations, 24 members evaluated, ") for line in lines)
    assert len(folder.metrics.read_text().splitlines()) == 4
    assert folder.curves.read_bytes().startswith(b"\x89PNG")
    assert (model / "model.safetensors").is_file()
    summary = summary_of(folder.path)
    assert {
        "evaluations",
        "iterations",
        "members",
        "seconds_by_part",
        "generated_tokens",
        "wire_bytes",
        "journal_hash",
        "weight_digest",
        "engine_fingerprints",
    } <= summary.keys()


def test_every_reading_command_works_on_a_finished_run(
    reference_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = summary_of(reference_folder)
    assert main(["status", str(reference_folder)]) == 0
    assert capsys.readouterr().out.startswith("job: done, 14 of 14 iterations")
    assert main(["journal", str(reference_folder), "--json"]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(entries) == 14
    assert entries[-1]["row_hash"] == summary["journal_hash"]
    assert main(["verify", str(reference_folder)]) == 0
    said = capsys.readouterr().out
    assert said.endswith("verified: everything agrees\n")
    assert summary["weight_digest"] in said


def test_the_installed_command_is_the_same_program() -> None:
    command = Path(sys.executable).with_name("dartes")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("dartes ")


def test_probing_measures_the_job_as_it_would_run(
    job: JobWriter, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DARTES_ENGINE", EngineHook.HASHING)
    assert main(["probe", str(job()), "--sigmas", "0.003,0.01", "--members", "3", "--json"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(row["sigma"], row["members"]) for row in rows] == [(0.0, 1), (0.003, 3), (0.01, 3)]
    assert main(["probe", str(job(es__batchSize=41))]) == 64


def test_an_exported_model_answers_as_the_engine_did(
    reference_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dartes_worker.engines.transformers import TransformersEngine

    output = tmp_path / "model"
    assert main(["export", str(reference_folder), "--output", str(output)]) == 0
    assert summary_of(reference_folder)["weight_digest"] in capsys.readouterr().out
    base, journal = builtin_model("addition"), read_journal(RunFolder(reference_folder).journal)
    checkpoint, served = open_checkpoint(base), ServedDtype.FLOAT32
    trained = TransformersEngine.load(base, checkpoint, served, 1, "cpu")
    master = MasterWeights.load(checkpoint, served, journal.header.hash())
    master.apply(journal.rows)
    master.write(trained.segments(), 0, 0.0)
    trained.weights_changed()
    loaded = TransformersEngine.load(output, open_checkpoint(output), served, 1, "cpu")
    group = loaded.encode([f"{a}+{7 * a % 90}=" for a in range(1, 90, 5)])
    limits = GenerationLimits(max_new_tokens=8)
    answers = loaded.generate(group, limits, None)
    assert answers == trained.generate(group, limits, None)
    assert len({answer.text for answer in answers}) > 10
    for name in (info.name for info in checkpoint.trainable):
        count = checkpoint.tensors[name].count
        assert np.array_equal(open_checkpoint(output).read_f32(name, 0, count), master.tensors[name])
