"""An exported model runs unchanged in `lm-eval`, and its count of right answers is ours."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from dartes.cli.evaluate import Request, evaluate_folder
from dartes.cli.export import export_run
from dartes.spec import load_job
from dartes.state import RunFolder
from dartes_worker.evaluate_model import evaluate_model, write_answers

from ..unit.cli.in_process import changed, job_text, play

PROBLEMS = 48

TASK = """\
task: dartes_sums
dataset_path: json
dataset_kwargs:
  data_files:
    test: {rows}
test_split: test
output_type: generate_until
doc_to_text: "{{{{a}}}}+{{{{b}}}}="
doc_to_target: "{{{{a + b}}}}"
generation_kwargs:
  until: ["\\n"]
  do_sample: false
  max_gen_toks: 8
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1
"""


def answered(request: Request, answers: Path) -> None:
    """Our own evaluation, with the engine of a run."""
    job = load_job(request.job)
    found = evaluate_model(job.job.spec, job.base_dir, request.model, request.iteration, request.names)
    write_answers(answers, found)


@pytest.mark.slow
def test_lm_eval_counts_the_same_right_answers_of_an_exported_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    import lm_eval
    from lm_eval.tasks import TaskManager

    generator = random.Random(11)
    rows = [{"a": generator.randrange(100), "b": generator.randrange(100)} for _ in range(PROBLEMS)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "sums.yaml").write_text(TASK.format(rows=tmp_path / "rows.jsonl"))
    played = play(tmp_path / "run", changed(es__sigma=0.02, es__learningRate=0.02))
    model = tmp_path / "model"
    export_run(RunFolder(played.path), model, None, None)

    job = tmp_path / "job.yaml"
    sums = {"name": "sums", "dataset": {"source": "rows.jsonl"}}
    job.write_text(job_text(changed(evaluation={"sets": [sums]})))
    (own,) = evaluate_folder(model, job, (), answered).evaluations

    found: dict[str, Any] = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": str(model), "dtype": "float32"},
        tasks=["dartes_sums"],
        task_manager=TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False),
        device="cpu",
        batch_size=8,
        bootstrap_iters=0,
    )
    right = round(found["results"]["dartes_sums"]["exact_match,none"] * PROBLEMS)
    assert 0 < right < PROBLEMS, "a count that anything could have given says nothing"
    assert right == int(own.passed.sum())
    by_problem = sorted((s["doc_id"], bool(s["exact_match"])) for s in found["samples"]["dartes_sums"])
    assert [passed for _, passed in by_problem] == own.passed.tolist()
