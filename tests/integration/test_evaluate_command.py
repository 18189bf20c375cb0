"""`dartes evaluate` on a finished run, with a worker process of its own."""

import json
from pathlib import Path

import pytest

from dartes.cli.main import main

from .harness import EngineHook


def test_evaluating_an_iteration_again_gives_what_the_run_recorded(
    reference_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = json.loads((reference_folder / "summary.json").read_text())
    (name,) = summary["evaluations"]
    recorded = summary["evaluations"][name]["all"][1]
    monkeypatch.setenv("DARTES_ENGINE", EngineHook.HASHING)
    arguments = ["evaluate", str(reference_folder), "--iteration", str(recorded["iteration"]), "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == {name: {**recorded, "holdout": False}}
