"""`dartes evaluate` gives what the run's own evaluation gave, and evaluates a model folder likewise."""

import json
from pathlib import Path

import numpy as np
import pytest

from dartes.cli import evaluate as evaluate_module
from dartes.cli.evaluate import (
    EvaluationFailedError,
    Found,
    Request,
    ask_worker,
    evaluate,
    evaluate_folder,
    evaluate_run,
    exported_iteration,
    read_answers,
    report,
    report_lines,
)
from dartes.cli.export import export_run
from dartes.cli.main import main
from dartes.destinations.choice import Choice, recorded_evaluations
from dartes.errors import ConfigurationError, ExitCode, TransientError
from dartes.spec import load_job
from dartes.state import RunFolder, RunReader, StoredEvaluation
from dartes_worker.engines.registry import ENGINE_VARIABLE
from dartes_worker.evaluate_model import evaluate_model, write_answers

from .in_process import SPEC, changed, job_text

pytestmark = pytest.mark.slow


@pytest.fixture
def run(evaluated_folder: Path) -> RunFolder:
    """A finished run with several samples and a holdout."""
    return RunFolder(evaluated_folder)


def in_process(request: Request, answers: Path) -> None:
    """A worker without a process and with the test engine."""
    job = load_job(request.job)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE_VARIABLE, "dartes_worker.engines.hashing:HashingEngine.load")
        found = evaluate_model(job.job.spec, job.base_dir, request.model, request.iteration, request.names)
    write_answers(answers, found)


def test_every_iteration_is_answered_as_in_the_run_bit_by_bit(run: RunFolder) -> None:
    with RunReader.open(run) as reader:
        stored = {(e.iteration, e.set_name): e for e in reader.evaluations()}
    assert len({e.passed.tobytes() for (_, name), e in stored.items() if name == "sampled"}) == 3
    for iteration in (0, 3, 6):
        found = evaluate_run(run, iteration, (), in_process).evaluations
        assert [e.set_name for e in found] == ["held-out", "sampled", "other"]
        for again in found:
            own = stored[iteration, again.set_name]
            assert again.passed.tobytes() == own.passed.tobytes()
            assert again.truncated.tobytes() == own.truncated.tobytes()
            assert (again.samples, again.beside) == (own.samples, own.beside)
            assert (again.keys is None) == (own.keys is None)
            if own.keys is not None:
                assert np.array_equal(own.keys, again.keys if again.keys is not None else [])


def test_a_reward_that_has_changed_since_the_run_is_said(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert evaluate_run(run, Choice.LAST, ["other"], in_process).note is None
    monkeypatch.setattr(evaluate_module, "job_reward_digest", lambda *_: "another")
    note = evaluate_run(run, Choice.LAST, ["other"], in_process).note
    assert note is not None
    assert note.startswith("the reward has changed since the run")


def test_best_and_last_are_words_for_an_iteration(run: RunFolder) -> None:
    last = evaluate_run(run, Choice.LAST, ["other"], in_process)
    assert [(e.set_name, e.iteration) for e in last.evaluations] == [("other", 6)]
    best = evaluate_run(run, Choice.BEST, ["other"], in_process)
    summary = json.loads(run.summary.read_text())
    assert best.evaluations[0].iteration == summary["best"]
    assert best.note is not None


def test_an_exported_model_gives_the_same_with_the_job(run: RunFolder, tmp_path: Path) -> None:
    model = tmp_path / "model"
    export_run(run, model, 3, None)
    assert exported_iteration(model) == 3
    found = evaluate_folder(model, run.job, (), in_process).evaluations
    own = evaluate_run(run, 3, (), in_process).evaluations
    assert [e.passed.tobytes() for e in found] == [e.passed.tobytes() for e in own]
    with pytest.raises(ConfigurationError, match="is a model folder, .* give --job JOB.yaml"):
        evaluate_folder(model, None, ())
    with pytest.raises(ConfigurationError, match="--iteration: .* is no run folder"):
        evaluate(model, run.job, 3, ())


def test_the_command_prints_and_writes(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate_module, "ask_worker", in_process)
    output = tmp_path / "found.json"
    assert main(["evaluate", str(run.path), "--set", "sampled", "--output", str(output)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("sampled: ")
    assert "after 6 iterations (9 problems, pass@40 " in line
    found = json.loads(output.read_text())
    summary = json.loads(run.summary.read_text())
    assert found["sampled"] == {**summary["evaluations"]["sampled"]["after"], "holdout": False}
    assert main(["evaluate", str(run.path), "--set", "other", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"other": {**summary["holdouts"]["other"]["after"], "holdout": True}}


def test_the_summary_tells_the_change_on_holdouts(run: RunFolder) -> None:
    entry = json.loads(run.summary.read_text())["holdouts"]["other"]
    change = entry["change"]
    assert change["points"] == pytest.approx(100 * (entry["after"]["accuracy"] - entry["before"]["accuracy"]))
    assert change["interval95"][0] <= change["points"] <= change["interval95"][1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--set", "none"],
            "--set none: the job has no such evaluation set (it has: held-out, sampled, other)",
        ),
        (["--iteration", "7"], "--iteration 7: the run has 6 iterations; allowed: 0 to 6"),
        (["--job", "job.yaml"], "is a run folder, whose own job is taken; leave it out"),
    ],
)
def test_wrong_wishes_are_refused(
    run: RunFolder, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run.path), *options]) == 64
    assert said in capsys.readouterr().err


def test_a_job_without_sets_has_nothing_to_evaluate(run: RunFolder, tmp_path: Path) -> None:
    export_run(run, tmp_path / "model", 0, None)
    (tmp_path / "job.yaml").write_text(job_text(changed(evaluation={})))
    with pytest.raises(ConfigurationError, match="the job has no evaluation set"):
        evaluate_folder(tmp_path / "model", tmp_path / "job.yaml", ())


def test_a_folder_that_is_neither_run_nor_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(tmp_path)]) == 64
    assert str(tmp_path) in capsys.readouterr().err


def test_a_worker_that_fails_passes_its_exit_code_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(job_text(SPEC))
    request = Request(tmp_path / "none", tmp_path / "job.yaml", 0, ("held-out",), 1)
    with pytest.raises(EvaluationFailedError, match="the reason is above") as caught:
        ask_worker(request, tmp_path / "answers")
    assert caught.value.exit_code is ExitCode.CONFIGURATION
    assert "none" in capfd.readouterr().err


def test_answers_that_are_not_whole_are_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "answers").write_bytes(b"PK")
    with pytest.raises(TransientError, match="the worker's answers to set can't be read"):
        read_answers(tmp_path / "answers", "set")


def test_wins_over_a_base_model_are_unknown_where_there_is_none() -> None:
    bits = np.zeros(2, np.bool_)
    beside = {"against_base": True, "mean_score": 1.5, "mean_length": 3.0, "format_share": 0.0}
    evaluation = StoredEvaluation(4, "chat", bits, bits, beside, scores=np.array([1, 2], np.float32))
    alone = report(Found((evaluation,)))
    assert (alone["chat"]["accuracy"], alone["chat"]["mean_score"]) == (None, 1.5)
    assert report_lines(alone)[0].startswith("chat: mean score 1.5, without a base model to compare with")
    compared = report(Found((evaluation,), frozenset({"chat"})))
    assert compared["chat"]["accuracy"] == 0.0


def test_what_a_summary_tells_of_evaluations_is_what_the_store_tells(run: RunFolder, tmp_path: Path) -> None:
    of_store = recorded_evaluations(run)
    alone = RunFolder(tmp_path)
    alone.summary.write_bytes(run.summary.read_bytes())
    assert recorded_evaluations(alone) == of_store
    assert {e.set_name: e.problems for e in of_store} == {"held-out": 12, "sampled": 360, "other": 7}
