"""`dartes validate` finds everything that is wrong with a job, its data and its model in one go."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dartes.builtin import builtin_model
from dartes.cli.main import main
from dartes.errors import ConfigurationError
from dartes.tasks.base import Message
from dartes_worker.engines.prompts import PromptEncoder

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
    assert "test.jsonl line 1: column 'b' must hold a whole number, not 'two'" in said
    assert "spec.evaluation.sets[second].dataset.source: there is no file" in said
    assert f"{tmp_path / 'model'}" in said.splitlines()[0]
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


REWARD = """
print("imported")


def reward(prompts, completions, solution):
    raise RuntimeError("not to be called")
"""


def python_job(tmp_path: Path, source: str, **changes: object) -> dict[str, Any]:
    (tmp_path / "reward.py").write_text(source)
    task = {"kind": "python", "prompt": "{question}=", "python": {"function": "reward:reward"}}
    return changed(task=task, **changes)


def test_a_reward_function_that_asks_for_a_column_that_is_not_there_is_found(
    job_file: JobWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(job_file(python_job(tmp_path, REWARD)))]) == 64
    said = capsys.readouterr().err
    assert "task.python: reward:reward asks for 'solution', and the problems have no such column" in said
    assert "offered are: a, b, completions, operator, prompts, question" in said
    assert "spec.evaluation.sets[held-out]: task.python" in said
    assert "not to be called" not in said


def test_a_reward_function_whose_columns_are_there_is_not_called(job_file: JobWriter, tmp_path: Path) -> None:
    assert main(["validate", str(job_file(python_job(tmp_path, REWARD.replace("solution", "b"))))]) == 0


def test_what_is_wrong_with_an_inherited_task_is_told_once(
    job_file: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = changed(task={"kind": "addition", "options": {"nope": 1}})
    own = {"kind": "addition", "options": {"other": 1}}
    spec["evaluation"]["sets"].append(
        {"name": "own", "task": own, "dataset": {"source": "builtin://addition", "split": "test"}}
    )
    assert main(["validate", str(job_file(spec))]) == 64
    said = capsys.readouterr().err
    assert said.count("task.options.nope") == 1
    assert "error: task.options.nope" in said
    assert "spec.evaluation.sets[own]: task.options.other" in said


def test_a_function_that_cannot_be_imported_is_tried_once(
    job_file: JobWriter, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = python_job(tmp_path, "raise RuntimeError('broken')\n")
    assert main(["validate", str(job_file(spec))]) == 64
    said = capfd.readouterr().err
    assert said.count("Traceback") == 1
    assert said.count("reward:reward can't be imported: RuntimeError: broken") == 1


def test_data_that_cannot_be_read_is_told_beside_a_task_that_is_wrong(
    job_file: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = changed(task={"kind": "addition", "options": {"nope": 1}}, dataset={"source": "none.jsonl"})
    assert main(["validate", str(job_file(spec))]) == 64
    said = capsys.readouterr().err
    assert "there is no file" in said
    assert "task.options.nope" in said


CHAT = {"kind": "arithmetic"}


@pytest.fixture
def own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder whose tokenizer has no chat template, for the usual engine."""
    monkeypatch.delenv("DARTES_ENGINE", raising=False)
    shutil.copytree(builtin_model("addition"), tmp_path / "model")
    return tmp_path / "model"


def chat_job(**changes: object) -> dict[str, Any]:
    spec = changed(task=CHAT, dataset__source="builtin://arithmetic", model__source="model", **changes)
    spec["evaluation"]["sets"][0]["dataset"]["source"] = "builtin://arithmetic"
    return spec


def test_messages_for_a_model_without_a_chat_template_are_refused_in_the_engines_words(
    job_file: JobWriter, own_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(job_file(chat_job()))]) == 64
    said = capsys.readouterr().err
    tokenizer = SimpleNamespace(chat_template=None, eos_token_id=0, pad_token_id=0)
    with pytest.raises(ConfigurationError) as raised:
        PromptEncoder(tokenizer, (0,), own_model).encode([(Message("user", "1 + 1"),)])
    assert said == f"error: {raised.value}\n"


@pytest.mark.parametrize("place", ["chat_template.jinja", "tokenizer_config.json"])
def test_messages_for_a_model_with_a_chat_template_are_right(
    job_file: JobWriter, own_model: Path, place: str
) -> None:
    path = own_model / place
    if path.exists():
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": "{{ messages }}"}))
    else:
        path.write_text("{{ messages }}")
    assert main(["validate", str(job_file(chat_job()))]) == 0


def test_raw_prompts_need_no_chat_template(job_file: JobWriter, own_model: Path) -> None:
    assert own_model.is_dir()
    assert main(["validate", str(job_file(changed(model__source="model")))]) == 0
    asked_as_chat = {"kind": "addition", "system": "Answer briefly."}
    assert main(["validate", str(job_file(changed(model__source="model", task=asked_as_chat)))]) == 64


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("nowhere", "task.options.rewardModel = 'nowhere': no folder "),
        ("empty", "no configuration that can be read"),
        ("model", "is no sequence classifier; a reward model's config.json names"),
    ],
)
def test_a_local_reward_model_that_is_none_is_refused(
    job_file: JobWriter,
    own_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    folder: str,
    words: str,
) -> None:
    (tmp_path / "empty").mkdir()
    task = {"kind": "instruction", "options": {"rewardModel": folder, "prompts": "raw"}}
    assert main(["validate", str(job_file(changed(task=task)))]) == 64
    said = capsys.readouterr().err
    assert said.count(words) == 1
    assert "task.options.rewardModel" in said


def test_a_local_reward_model_and_one_on_the_hub_are_accepted(job_file: JobWriter, own_model: Path) -> None:
    config = own_model / "config.json"
    config.write_text(json.dumps({"architectures": ["LlamaForSequenceClassification"]}))
    options = {"rewardModel": "model", "costModel": "hf://nobody/nothing@main", "prompts": "raw"}
    assert main(["validate", str(job_file(changed(task={"kind": "preference", "options": options})))]) == 0
