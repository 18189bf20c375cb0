"""Whatever a user, a disk or a model does wrong: the message that says so, the exit code, and no traceback.

Rows of the table that are tested elsewhere:

- a run folder of another job or in use, a port in use, a worker with another base model, other problems or
  no certificate: `test_refusals.py`; the folder's part alone: `tests/unit/cli/test_folder.py`;
- a truncated store, a damaged snapshot: `test_resuming.py`; a snapshot cut short, gone or of another run:
  `tests/unit/worker/test_agent_weights.py`; both as `dartes verify` names them:
  `tests/unit/cli/test_verify.py`;
- a damaged journal: `tests/unit/journal/test_file.py`, `tests/unit/cli/test_export.py`;
- every kind of wrong field: `tests/unit/spec/test_load.py`; of data line: `tests/unit/data/test_dataset.py`;
- unusable weights: `tests/unit/checkpoint/test_reading.py`; a tokenizer without pad, end or chat template,
  a tensor that the architecture misses, a real out-of-memory:
  `tests/unit/engines/test_transformers_refusals.py`;
- graders that hang, crash or lie: `tests/unit/rewards/test_pool.py`.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from dartes.builtin import builtin_model
from dartes.cli.main import main
from dartes.cli.status import status_of
from dartes.cli.verify import verify
from dartes.errors import ExitCode
from dartes.rewards.pool import GradingPool
from dartes.state import RunFolder, RunReader
from dartes.tasks.base import Row, TaskSettings
from dartes.v1 import control_pb2 as wire

from .harness import Run, held_run
from .outcome import Identity, identity

JobWriter = Callable[..., Path]

FAILING_ENGINE = '''
import os
from pathlib import Path

from dartes.errors import ConfigurationError
from dartes_worker.engines.base import OutOfMemory
from dartes_worker.engines.hashing import HashingEngine

FULL = Path(os.environ["DARTES_TEST_FULL"])


class Greedy(HashingEngine):
    """Runs out of memory at its 60th group, and from then on at once, until the file is gone."""

    groups = 0

    def generate(self, group, limits, seed):
        self.groups += 1
        if self.groups == 60:
            FULL.touch()
        if FULL.exists():
            raise OutOfMemory(f"out of memory: {len(group)} prompts x 14 tokens need 1.5 GB, 0.2 GB are free")
        return super().generate(group, limits, seed)


class Broken(HashingEngine):
    def generate(self, group, limits, seed):
        raise ValueError("boo")


class Untemplated(HashingEngine):
    def encode(self, prompts):
        raise ConfigurationError("the tokenizer has no chat template")
'''


@pytest.fixture
def failing(tmp_path: Path) -> dict[str, str]:
    """Variables of a run whose engine fails; `DARTES_ENGINE` is still to be set."""
    (tmp_path / "failing_engine.py").write_text(FAILING_ENGINE)
    return {"PYTHONPATH": str(tmp_path), "DARTES_TEST_FULL": str(tmp_path / "full")}


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command in this process that must be refused as the user's mistake; returns its words."""
    assert main(arguments) == ExitCode.CONFIGURATION
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"es__sigmaa": 0.1}, "spec.es.sigmaa: unknown field; did you mean sigma?"),
        ({"es__population_size": 8}, "did you mean populationSize?"),
        ({"dart__replay__masteryTreshold": 0.5}, "did you mean masteryThreshold?"),
        (
            {"es__batchSize": "16"},
            "spec.es.batchSize: '16' is not an integer; allowed: 1 to 65536; remove the quotes",
        ),
        ({"es__sigma": True}, "spec.es.sigma: true is not a number"),
        ({"es__learningRate": 0}, "spec.es.learningRate: 0 is too small; allowed: above 0"),
        ({"generation__topP": 1.5}, "spec.generation.topP: 1.5 is too large; allowed: "),
        ({"es__populationSize": 1}, "spec.es.populationSize: 1 is too small; allowed: 2 to 4096"),
        ({"es__populationSize": 7, "es__antithetic": True}, "spec.es.populationSize: "),
        ({"model__source": "ftp://x"}, "spec.model.source: 'ftp://x'"),
        ({"queueName": 5}, "spec.queueName: "),
    ],
)
def test_a_wrong_field_is_named_before_anything_is_made(
    changes: dict[str, Any], words: str, job: JobWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(["run", str(job(**changes)), "--workdir", str(tmp_path / "run")], capsys)
    assert words in said
    assert "line " in said
    assert not (tmp_path / "run").exists()


def test_a_batch_larger_than_the_data_set_is_an_error(
    job: JobWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.jsonl").write_text('{"a": 1, "b": 2}\n' * 15)
    said = refused(["run", str(job(dataset={"source": "train.jsonl"}))], capsys)
    assert "spec.es.batchSize: 16 is larger than the data set (15 problems); allowed: at most 15" in said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"es__batchSize": 40},
            "spec.es.batchSize: a batch of 40 holds all 40 problems, so replay never",
        ),
        ({"es__batchSize": 2}, "spec.dart.replay.ratio: 0.2 of a batch of 2 rounds to no problem, so replay"),
    ],
)
def test_a_replay_that_never_fires_is_a_warning(
    changes: dict[str, Any], words: str, job: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(job(**changes))]) == 0
    assert f"warning: {words}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1, "b": 2}\n\n{"a": 1, "b": 2}\n', "train.jsonl line 2: empty line; remove it"),
        (b'{"a": 1, "b": 2}\n{"a": 1, "b": }\n', "train.jsonl line 2: not JSON: Expecting value (column 15)"),
        (b'{"a": 1, "b": 2}\n[1, 2]\n', "train.jsonl line 2: must be an object"),
        (b'{"a": 1, "b": 2}\n{"a": "\xff", "b": 2}\n', "train.jsonl line 2: not UTF-8"),
        (b'{"a": 1, "b": 2}\n{"a": 1}\n', "line 2: column 'b' is missing"),
        (b"", "there is not one problem in it"),
    ],
)
def test_a_line_of_the_data_that_is_empty_or_malformed_is_named_with_file_and_number(
    content: bytes, words: str, job: JobWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.jsonl").write_bytes(content)
    said = refused(["run", str(job(dataset={"source": "train.jsonl"}))], capsys)
    assert str(tmp_path / "train.jsonl") in said
    assert words in said


def without_weights(model: Path) -> None:
    """A folder with configuration and tokenizer only."""
    (model / "model.safetensors").unlink()


def without_a_shard(model: Path) -> None:
    """An index that names a file which is not there."""
    (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


def without_a_tensor(model: Path) -> None:
    """An index that names a tensor which its file does not hold."""
    (model / "model.safetensors").rename(model / "one.safetensors")
    index = {"weight_map": {"model.norm.bias": "one.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


def cut_short(model: Path) -> None:
    """A download that was interrupted."""
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (without_weights, "model.safetensors"),
        (without_a_shard, "model-00002-of-00002.safetensors"),
        (without_a_tensor, "model.norm.bias"),
        (cut_short, "model.safetensors"),
        (shutil.rmtree, "no folder"),
    ],
)
def test_a_model_folder_that_lacks_something_is_refused_before_a_process_starts(
    damage: Callable[[Path], None],
    words: str,
    job: JobWriter,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(builtin_model("addition"), tmp_path / "model")
    damage(tmp_path / "model")
    path = job(model__source="model")
    said = refused(["run", str(path), "--workdir", str(tmp_path / "run")], capsys)
    assert words in said
    assert "model" in said
    assert not (tmp_path / "run").exists()


def test_a_full_disk_pauses_the_run_and_room_lets_it_go_on(
    job: JobWriter, tmp_path: Path, reference: Identity, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with held_run(job(), folder, "--workers", "1", at="all:100") as (run, hold):
        run.until(hold.pids, "the worker inside a lease")
        coordinator = run.find("coordinator")
        assert coordinator is not None
        # No file of this process may be written beyond its first bytes: to it, the disk is full.
        unlimited = coordinator.rlimit(psutil.RLIMIT_FSIZE)
        coordinator.rlimit(psutil.RLIMIT_FSIZE, (64, unlimited[1]))
        hold.open()

        def paused() -> wire.StatusResponse | None:
            status = run.status()
            return status if status is not None and status.phase == wire.PHASE_PAUSED else None

        status = run.until(paused, "the pause")
        run.until(lambda: "paused: " in run.output, "the pause told to whoever watches the run")
        committed = status.iteration
        assert main(["status", str(folder)]) == 0
        said = capsys.readouterr().out
        assert f"job: paused, {committed} of 14 iterations" in said
        assert "the disk is full" in said
        with RunReader.open(RunFolder(folder)) as reader:
            assert reader.iteration_count() == committed > 0, "what is committed is kept"
        coordinator.rlimit(psutil.RLIMIT_FSIZE, unlimited)
        output = run.must_end_with(0)
    assert "starting it again" not in output
    assert identity(folder) == reference


def test_running_out_of_memory_stops_the_run_with_the_numbers_and_keeps_everything(
    failing: dict[str, str], job: JobWriter, tmp_path: Path
) -> None:
    folder, path = tmp_path / "run", job(failurePolicy={"workerFailures": 0})
    environment = {**failing, "DARTES_ENGINE": "failing_engine:Greedy.load"}
    with Run(path, folder, "--workers", "1", environment=environment) as run:
        output = run.must_end_with(ExitCode.TRANSIENT)
    assert "paused: workers failed once (spec.failurePolicy.workerFailures is 0): out of memory: " in output
    assert "need 1.5 GB, 0.2 GB are free" in output
    assert "All committed iterations are kept; run the same command to resume" in output
    assert "Traceback" not in output
    assert verify(RunFolder(folder))[0].startswith("2 iterations: ")
    assert status_of(RunFolder(folder))["phase"] == "Stopped"


@pytest.mark.parametrize(
    ("engine", "code", "words"),
    [
        ("Untemplated", ExitCode.CONFIGURATION, "error: the tokenizer has no chat template\n"),
        ("Broken", ExitCode.BUG, "ValueError: boo\nThis is a bug in dartes or in an extension."),
    ],
)
def test_what_a_worker_finds_wrong_ends_the_run_with_its_words_and_its_code(
    engine: str, code: ExitCode, words: str, failing: dict[str, str], job: JobWriter, tmp_path: Path
) -> None:
    environment = {**failing, "DARTES_ENGINE": f"failing_engine:{engine}.load"}
    path = job(failurePolicy={"workerFailures": 0})
    with Run(path, tmp_path / "run", "--workers", "1", environment=environment) as run:
        output = run.must_end_with(code)
        log = run.folder.logs / "worker-0.log"
    assert words in output
    assert "Traceback (most recent call last)" not in output
    if code == ExitCode.BUG:
        assert f"Traceback: {log}" in output
        assert "Traceback (most recent call last)" in log.read_text()


HOSTILE = {
    "empty": "",
    "1 MB": "9" * 2**20,
    "a tower of powers": "95**88**77",
    "a tower of powers in a block": "<answer>95**88**77</answer>",
    "nested deeply": "(" * 100_000 + "1" + ")" * 100_000,
    "nested deeply in a block": "<answer>" + "(" * 20_000 + "1" + ")" * 20_000 + "</answer>",
    "braces in a box": "\\boxed{" * 20_000,
    "no UTF-8": "\udcff\ud800",
    "a null byte": "1\x002",
    "no number": "#### \u0663\u0662",
}
PROBLEMS: dict[str, tuple[Row, str]] = {
    "addition": ({"a": 41, "b": 1}, "42"),
    "arithmetic": ({"question": "6 * 7", "answer": 42}, "42"),
    "gsm8k": ({"question": "?", "answer": "#### 42"}, "so</think>\n#### 42"),
    "countdown": ({"numbers": [95, 88, 77], "target": 84}, "so</think>\n<answer>95-88+77</answer>"),
}


@pytest.mark.parametrize("kind", list(PROBLEMS))
def test_no_answer_of_a_model_costs_more_than_itself(kind: str) -> None:
    row, right = PROBLEMS[kind]
    answers = [*HOSTILE.values(), right]
    with GradingPool(TaskSettings(kind), seconds_per_answer=20.0) as pool:
        before = pool.process_ids
        *hostile, good = pool.grade([row] * len(answers), answers)
        assert pool.process_ids == before, "no grader was lost"
    assert good.passed, good.reason
    for name, grade in zip(HOSTILE, hostile, strict=True):
        assert not grade.passed, name
        assert grade.reason, name
        assert "timed out" not in grade.reason, name
