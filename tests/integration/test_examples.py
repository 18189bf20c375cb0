"""Every job of examples/ trains and evaluates: two iterations on small files in the layout of its data sets.

What the job says of task, prompts, options, population and step sizes stays; model, problems and length are
replaced. The coefficients are those of the oracle, and everything recomputes to what was recorded.
"""

import dataclasses
import http.server
import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from ruamel.yaml import YAML

from dartes.builtin import builtin_model
from dartes.cli.verify import verify
from dartes.data import load_dataset
from dartes.data.training import load_training
from dartes.difficulty import AlgorithmSettings
from dartes.journal import JournalRow
from dartes.spec import JobSpec, TaskSpec, load_job
from dartes.state import RunFolder, RunReader
from dartes.tasks.registry import task_named

from ..classifier_kit import make_classifier
from ..unit.difficulty.oracle import Oracle
from ..unit.difficulty.plain import plain_stages
from . import task_rows
from .answering_engine import ANSWERS_VARIABLE
from .harness import EngineHook, run_to_end, write_job
from .task_rows import FREE_ANSWERS, RIGHT, WRONG, Row

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"
MEMBERS, BATCH = 4, 6


@dataclass(frozen=True)
class Small:
    """What stands in for an example's data sets; those that are not named here are made or lie beside it.

    `train` has the rows of each training set that is replaced, in order; `sets` those of evaluation sets and
    holdouts, by name.
    """

    train: Sequence[Sequence[Row]] = ()
    sets: Mapping[str, Sequence[Row]] = field(default_factory=dict)


SMALL: Final[Mapping[str, Small]] = {
    "addition": Small(),
    "code": Small([task_rows.MBPP], {"humaneval": task_rows.HUMANEVAL}),
    "conciseness": Small(),
    "countdown": Small(),
    "curriculum": Small(),
    "gsm8k": Small([task_rows.GSM8K], {"gsm8k-test": task_rows.GSM8K[:3]}),
    "ifeval": Small([task_rows.IFEVAL], {"strict": task_rows.IFEVAL, "loose": task_rows.IFEVAL}),
    "math": Small(
        [task_rows.MATH],
        {
            "math-500": task_rows.MATH_500,
            "minerva": task_rows.MINERVA,
            "olympiadbench": task_rows.OLYMPIADBENCH,
            "aime-2024": task_rows.AIME,
            "amc": task_rows.AMC,
        },
    ),
    "mixture": Small([task_rows.GSM8K], {"gsm8k-test": task_rows.GSM8K[:3]}),
    "multiple-choice": Small(
        [task_rows.BOOLQ], {"boolq-validation": task_rows.BOOLQ[:4], "mmlu": task_rows.MMLU}
    ),
    "own-reward/job": Small(),
    "vllm": Small(),
    "instruction": Small([task_rows.PROMPTS], {"held-out-prompts": task_rows.PROMPTS[:3]}),
    "preference": Small([task_rows.PROMPTS], {"held-out-prompts": task_rows.PROMPTS[:3]}),
    "puzzle": Small(),
    "sudoku": Small(),
}


def on_the_hub(dataset: Mapping[str, Any]) -> bool:
    return str(dataset.get("source", "")).startswith("hf://")


def shrunk(example: str, folder: Path) -> dict[str, Any]:
    """The spec of an example, small enough to run here; its files are written into the folder."""
    spec: dict[str, Any] = YAML(typ="safe").load(EXAMPLES / f"{example}.yaml")["spec"]
    small = SMALL[example]
    waiting = list(small.train)

    def replaced(dataset: dict[str, Any], rows: Sequence[Row], name: str) -> None:
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        dataset["source"] = path.name
        dataset.pop("config", None)

    training = spec["dataset"].get("stages") or spec["dataset"].get("mix") or [spec["dataset"]]
    for number, dataset in enumerate(training):
        if on_the_hub(dataset):
            replaced(dataset, waiting.pop(0), f"train-{number}")
        elif dataset["source"] == "conciseness":
            dataset["source"] = str(EXAMPLES / "conciseness")
        dataset["maxProblems"] = 16
        if "iterations" in dataset:
            dataset["iterations"] = 1
    for entry in (*spec["evaluation"].get("sets", []), *spec["evaluation"].get("holdouts", [])):
        dataset = entry["dataset"]
        if on_the_hub(dataset):
            replaced(dataset, small.sets[entry["name"]], entry["name"])
        elif dataset["source"] == "conciseness":
            dataset["source"] = str(EXAMPLES / "conciseness")
        dataset["maxProblems"] = 4
        if "samples" in entry:
            entry["samples"] = 3
    model = shutil.copytree(builtin_model("addition"), folder / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 65_536}))
    spec["model"] = {"source": "model", "dtype": "Float32"}
    spec["es"].update(populationSize=MEMBERS, batchSize=BATCH)
    if "stages" not in spec["dataset"]:
        spec["es"].pop("epochs", None)
        spec["es"]["iterations"] = 2
    spec["evaluation"].update(everyIterations=1, logCompletions=2)
    spec["workers"] = {"replicas": 1, "gpusPerWorker": 0}
    return spec


def prompt_key(task: TaskSpec, row: Row) -> str:
    prompt = task_named(task.kind).from_spec(task).prompt(row)
    return prompt if isinstance(prompt, str) else "\n".join(message.content for message in prompt)


def answers_to(spec: JobSpec, folder: Path) -> dict[str, list[str]]:
    """By prompt, right and wrong texts for the engine to choose from."""
    pairs: list[tuple[TaskSpec, Sequence[Row]]] = []
    for datasets, sets in zip(load_training(spec, folder).stages, spec.training_stages(), strict=True):
        pairs += [(one.task, dataset.rows) for dataset, one in zip(datasets, sets, strict=True)]
    pairs += [(spec.task_of(one), load_dataset(one.dataset, folder).rows) for one in spec.evaluation.all_sets]
    return {
        prompt_key(task, row): [RIGHT[task.kind](row), *WRONG] if task.kind in RIGHT else [*FREE_ANSWERS]
        for task, rows in pairs
        for row in rows
    }


def play(example: str, folder: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> RunFolder:
    """Run the small form of an example to its end."""
    spec = shrunk(example, folder)
    change(spec)
    job = write_job(folder / "job.yaml", spec)
    answers = folder / "answers.json"
    answers.write_text(json.dumps(answers_to(load_job(job).job.spec, folder)), encoding="utf-8")
    run = RunFolder(folder / "run")
    environment = {ANSWERS_VARIABLE: str(answers)}
    run_to_end(job, run.path, engine=EngineHook.ANSWERING, environment=environment)
    return run


def compare_with_oracle(folder: Path, run: RunFolder) -> None:
    """Batches and coefficients are the oracle's, and not all of them are nothing."""
    job = load_job(folder / "job.yaml")
    settings = AlgorithmSettings.from_spec(job.job.spec)
    sizes = load_training(job.job.spec, job.base_dir).sizes
    oracle = Oracle(dataclasses.asdict(settings), plain_stages(settings, sizes))
    moved = False
    with RunReader.open(run) as reader:
        iterations = list(reader.iterations())
    assert len(iterations) == 2
    for it in iterations:
        drawn = oracle.draw()
        assert drawn is not None
        assert it.problems.tolist() == [problem for problem, _ in drawn.batch]
        parent = np.zeros(len(it.problems)) if it.parent_scores is None else it.parent_scores
        outcome = oracle.commit(
            drawn,
            it.passed.tolist(),
            None if it.scores is None else it.scores.tolist(),
            None if it.auxiliary is None else it.auxiliary.tolist(),
            parent.tolist(),
        )
        row = JournalRow.decode(it.row)
        assert outcome.passed == it.passed.tolist()
        assert row.coefficients.tolist() == outcome.coefficients
        moved |= any(outcome.coefficients)
    assert oracle.draw() is None
    assert moved, "the members differ"


class Scores(http.server.BaseHTTPRequestHandler):
    """A reward service: the share of vowels; a cost service: the length."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [one["completion"] for one in body["inputs"]]
        vowels = [sum(text.count(vowel) for vowel in "aeiou") / len(text) for text in texts]
        scores = vowels if self.path == "/reward" else [len(text) / 100 for text in texts]
        answer = json.dumps({"scores": scores}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def score_service() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scores)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted(SMALL))
def test_an_example_trains_and_evaluates_on_a_small_file(
    example: str, tmp_path: Path, score_service: str
) -> None:
    def change(spec: dict[str, Any]) -> None:
        options = spec["task"].get("options", {})
        if "rewardModel" in options:
            options["rewardModel"] = str(make_classifier(tmp_path / "reward-model"))
        if "rewardService" in options:
            options.update(rewardService=f"{score_service}/reward", costService=f"{score_service}/cost")
        if spec["task"]["kind"] == "python":
            shutil.copy(EXAMPLES / "own-reward" / "reward.py", tmp_path)

    run = play(example, tmp_path, change)
    compare_with_oracle(tmp_path, run)
    assert verify(run)[-1] == "verified: everything agrees"
    with RunReader.open(run) as reader:
        evaluations = list(reader.evaluations())
    spec = load_job(tmp_path / "job.yaml").job.spec
    assert {(e.iteration, e.set_name) for e in evaluations} == {
        (iteration, one.name) for iteration in (0, 1, 2) for one in spec.evaluation.all_sets
    }
    assert any(e.passed.any() for e in evaluations), "some answers are right"


def test_no_example_is_left_out() -> None:
    found = {str(path.relative_to(EXAMPLES).with_suffix("")) for path in EXAMPLES.glob("**/*.yaml")}
    measured = {"smollm2-arithmetic"}  # with the model itself: docs/benchmarks.md
    assert found == {*SMALL, *measured}
