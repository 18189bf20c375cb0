"""`dartes validate` finds everything that is wrong with a job, its data and its model in one go."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dartes.builtin import builtin_model
from dartes.cli.main import main

from .in_process import SPEC, changed

JobWriter = Callable[..., Path]


def test_a_valid_job_says_so(job_file: JobWriter, capsys: pytest.CaptureFixture[str]) -> None:
    path = job_file(SPEC)
    assert main(["validate", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: valid job 'tiny'\n"


def test_warnings_of_the_file_and_of_the_data_come_before(
    job_file: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job_file(changed(es__batchSize=16, generation__topP=0.5))
    assert main(["validate", str(path)]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("warning: spec.generation.topP: 0.5 has no effect")
    assert second.startswith("warning: spec.es.batchSize: a batch of 16 holds all 16 problems")
    assert last.endswith("valid job 'tiny'")


def test_mistakes_in_the_file_are_told_with_line_field_value_and_fix(
    job_file: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job_file(
        changed(es__populationSize=1, es__sigma="0.1", task__kind="additon", dart__replay__ratioo=1)
    )
    assert main(["validate", str(path)]) == 64
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"error: {path}: 4 problems"
    lines = path.read_text().splitlines()
    for field, key, words in [
        ("spec.task.kind", "kind", "did you mean addition?"),
        ("spec.es.populationSize", "populationSize", "1 is too small; allowed: 2 to 4096"),
        ("spec.es.sigma", "sigma", "'0.1' is not a number"),
        ("spec.dart.replay.ratioo", "ratioo", "did you mean ratio?"),
    ]:
        (found,) = [line for line in said if f"{field}: " in line]
        assert words in found
        number = int(found.partition("line ")[2].partition(":")[0])
        assert f'"{key}"' in lines[number - 1]


def test_mistakes_in_every_data_set_and_in_the_model_are_told_together(
    job_file: JobWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.jsonl").write_text('{"a": 1, "b": 2}\n\n')
    (tmp_path / "test.jsonl").write_text('{"a": 1, "b": "two"}\n')
    (tmp_path / "model").mkdir()
    spec = changed(dataset={"source": "train.jsonl"}, model__source="model")
    spec["evaluation"]["sets"] = [
        {"name": "first", "dataset": {"source": "test.jsonl"}},
        {"name": "second", "dataset": {"source": "none.jsonl"}},
    ]
    assert main(["validate", str(job_file(spec))]) == 64
    said = capsys.readouterr().err
    assert f"{tmp_path / 'train.jsonl'} line 2: empty line; remove it" in said
    assert "spec.evaluation.sets[first]: " in said
    assert "problem 1: column 'b' must hold a whole number, not 'two'" in said
    assert "spec.evaluation.sets[second]: dataset.source: there is no file" in said
    assert f"{tmp_path / 'model'}" in said.splitlines()[-1]
    assert "Traceback" not in said


def test_a_model_folder_with_a_damaged_file_is_found_before_a_run_starts(
    job_file: JobWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(builtin_model("addition"), tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert main(["validate", str(job_file(changed(model__source="model")))]) == 64
    assert "model.safetensors" in capsys.readouterr().err


def test_a_model_on_the_hub_is_not_fetched_to_validate(job_file: JobWriter) -> None:
    assert main(["validate", str(job_file(changed(model__source="hf://nobody/nothing")))]) == 0


def test_every_stage_and_holdout_is_checked_and_named(
    job_file: JobWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n')
    spec = changed(es__iterations=None)
    spec["dataset"] = {
        "stages": [
            {"source": "builtin://addition", "split": "train", "maxProblems": 16, "iterations": 2},
            {"source": "bad.jsonl", "iterations": 2},
        ]
    }
    spec["evaluation"]["holdouts"] = [{"name": "other", "dataset": {"source": "bad.jsonl"}}]
    assert main(["validate", str(job_file(spec))]) == 64
    said = capsys.readouterr().err
    assert "spec.dataset.stages[1]: " in said
    assert "spec.evaluation.holdouts[other]: " in said
    assert said.count("column 'b' is missing") == 2


def test_a_part_of_a_mix_that_is_too_small_for_the_batch_is_named(
    job_file: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    part = {"source": "builtin://addition", "split": "train"}
    spec = changed(dataset={"mix": [{**part, "maxProblems": 2}, {**part, "maxProblems": 50}]})
    assert main(["validate", str(job_file(spec))]) == 64
    assert "spec.dataset.mix[0]: a batch takes 4 of its problems" in capsys.readouterr().err
