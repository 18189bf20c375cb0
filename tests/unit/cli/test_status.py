"""`dartes status` says where a run stands in every phase, at once, and always with the same keys."""

import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dartes.cli import status as status_module
from dartes.cli.main import main
from dartes.cli.status import RunPhase, is_held, status_lines, status_of
from dartes.cli.words import forgotten_words, sample_words, share_words
from dartes.errors import ConfigurationError
from dartes.state import DamagedStoreError, RunFolder
from dartes.v1 import control_pb2 as wire

from .in_process import ITERATIONS, SPEC, changed, job_text

KEYS = {
    "folder",
    "name",
    "running",
    "phase",
    "message",
    "iteration",
    "total_iterations",
    "total_is_estimate",
    "stage",
    "stages",
    "epoch",
    "train_pass_rate",
    "replay_buffer_size",
    "tokens_per_second",
    "last_iteration_seconds",
    "tail_seconds",
    "alone_seconds",
    "estimated_remaining_seconds",
    "workers",
    "placements",
    "evaluations",
    "journal_hash",
    "weight_digest",
    "events",
}


@contextmanager
def held(folder: RunFolder) -> Iterator[None]:
    """Hold the folder as a running command does."""
    with folder.lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def answering(monkeypatch: pytest.MonkeyPatch, response: wire.StatusResponse | None) -> None:
    """Let a coordinator answer so."""
    monkeypatch.setattr(status_module, "_ask_coordinator", lambda _: response)


def test_a_finished_run_is_done_and_says_what_it_reached(
    finished_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = status_of(RunFolder(finished_folder))
    summary = json.loads(RunFolder(finished_folder).summary.read_text())
    assert status.keys() == KEYS
    assert (status["phase"], status["iteration"], status["running"]) == ("Done", ITERATIONS, False)
    assert (status["journal_hash"], status["weight_digest"]) == (
        summary["journal_hash"],
        summary["weight_digest"],
    )
    assert [e["iteration"] for e in status["evaluations"]] == [0, 3, 6]
    assert status["events"][-1]["reason"] == "Completed"
    assert status["events"][-1]["time"] > "2025"
    assert main(["status", str(finished_folder)]) == 0
    assert capsys.readouterr().out.startswith(f"tiny: done, {ITERATIONS} of {ITERATIONS} iterations, epoch ")


def test_a_stopped_run_says_how_to_go_on(half_done_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = status_of(RunFolder(half_done_folder))
    assert status.keys() == KEYS
    assert (status["phase"], status["iteration"]) == ("Stopped", 3)
    assert main(["status", str(half_done_folder)]) == 0
    said = capsys.readouterr().out
    assert f"`dartes run {half_done_folder}/job.yaml --workdir {half_done_folder}` resumes it" in said


def test_in_a_pod_a_run_that_is_not_done_goes_on(
    half_done_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DARTES_POD", "tiny-coordinator")
    status = status_of(RunFolder(half_done_folder))
    assert status.keys() == KEYS
    assert (status["phase"], status["running"], status["message"]) == ("Running", True, "")
    assert (status["iteration"], status["workers"], status["estimated_remaining_seconds"]) == (3, None, None)
    assert main(["status", str(half_done_folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"tiny: running, 3 of {ITERATIONS} iterations")
    for word in ("stopped", "not running", "dartes run", "workers", " left"):
        assert word not in said


def test_in_a_pod_a_run_that_is_done_is_done(finished_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = status_of(RunFolder(finished_folder))
    monkeypatch.setenv("DARTES_POD", "tiny-coordinator")
    assert status_of(RunFolder(finished_folder)) == outside
    assert (outside["phase"], outside["workers"]) == ("Done", 0)


def test_json_is_one_object_of_plain_values(
    finished_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", str(finished_folder), "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == status_of(RunFolder(finished_folder))


def test_a_coordinator_that_does_not_answer_yet_is_starting(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.job.write_text(job_text(SPEC))
    with held(folder):
        assert is_held(folder)
        status = status_of(folder)
    assert status.keys() == KEYS
    assert (status["phase"], status["iteration"], status["message"]) == ("Starting", 0, "")
    assert status_of(folder)["phase"] == "Stopped"
    assert status_lines(status) == ["tiny: starting, 0 of 6 iterations, epoch 0, 0 workers"]


@pytest.mark.parametrize(
    ("phase", "word", "words"),
    [
        (wire.PHASE_WAITING_FOR_WORKERS, "WaitingForWorkers", "waiting for workers"),
        (wire.PHASE_RUNNING, "Running", "running"),
        (wire.PHASE_FINISHING, "Finishing", "finishing"),
        (wire.PHASE_PAUSED, "Paused", "paused"),
        (wire.PHASE_DONE, "Done", "done"),
    ],
)
def test_a_running_coordinator_knows_better_than_the_files(
    finished: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    phase: wire.Phase,
    word: str,
    words: str,
) -> None:
    response = wire.StatusResponse(
        phase=phase,
        message="the disk is full" if phase == wire.PHASE_PAUSED else "",
        iteration=7,
        total_iterations=40,
        total_is_estimate=True,
        workers_connected=2,
        train_pass_rate=0.25,
        last_iteration_seconds=3.0,
        estimated_remaining_seconds=99.0,
        journal_hash="ab",
    )
    answering(monkeypatch, response)
    with held(finished):
        status = status_of(finished)
    assert status.keys() == KEYS
    assert (status["phase"], status["iteration"], status["train_pass_rate"]) == (word, 7, 0.25)
    assert (status["journal_hash"], status["weight_digest"]) == ("ab", None)
    lines = status_lines(status)
    assert lines[0].startswith(f"tiny: {words}, 7 of ~40 iterations")
    assert lines[0].endswith(", 2 workers")
    assert ("  the disk is full" in lines) == (phase == wire.PHASE_PAUSED)
    assert any("3.0 s for the last iteration, 1:39 min left" in line for line in lines)


def test_the_long_tail_and_where_master_weights_lie_have_lines_of_their_own(finished_folder: Path) -> None:
    status = status_of(RunFolder(finished_folder))
    assert not any("long tail" in line for line in status_lines(status))
    status |= {"tail_seconds": 3.5, "alone_seconds": 1.25, "placements": ["master weights: device"]}
    lines = status_lines(status)
    assert "  master weights: device" in lines
    (tail,) = [line for line in lines if "long tail" in line]
    assert "3.5 s of all workers" in tail
    assert tail.endswith("1.2 s with one")


def test_every_phase_of_the_wire_has_its_word() -> None:
    known = {word.upper() for word in RunPhase}
    names = {name.removeprefix("PHASE_").replace("_", "") for name in wire.Phase.keys()}  # noqa: SIM118
    assert names - {"UNSPECIFIED"} <= known


def test_a_folder_without_a_run_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, words in [
        (tmp_path, "not a run folder"),
        (tmp_path / "none", "no such folder"),
        (tmp_path / "file", "is a file"),
    ]:
        with pytest.raises(ConfigurationError, match=words):
            status_of(RunFolder(path))


def test_a_damaged_store_is_said_so(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    finished.store.write_bytes(b"not SQLite" * 1000)
    with pytest.raises(DamagedStoreError):
        status_of(finished)
    assert main(["status", str(finished.path)]) == 64
    assert "Traceback" not in capsys.readouterr().err


def test_half_a_metrics_line_does_not_matter(half_done_folder: Path, finished: RunFolder) -> None:
    whole = status_of(finished)
    with finished.metrics.open("a") as file:
        file.write('{"iteration": 6, "pass_')
    assert status_of(finished) == whole


def test_it_answers_without_loading_what_only_a_run_needs(finished_folder: Path) -> None:
    code = (
        "import sys; from dartes.cli.main import main; "
        f"main(['status', {str(finished_folder)!r}]); "
        "loaded = {'grpc', 'torch', 'numba', 'transformers', 'matplotlib', 'rich', 'cryptography'}; "
        "loaded &= set(sys.modules); assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_evaluations_have_intervals_and_name_the_best_and_what_was_forgotten(evaluated_folder: Path) -> None:
    folder = RunFolder(evaluated_folder)
    summary = json.loads(folder.summary.read_text())
    status = status_of(folder)
    entries = {(e["set"], e["iteration"]): e for e in status["evaluations"]}
    assert len(entries) == 9
    assert [key for key, e in entries.items() if e["best"]] == [("held-out", summary["best"])]
    assert {name for (name, _), e in entries.items() if e["holdout"]} == {"other"}
    assert entries["other", 6]["change"] == summary["holdouts"]["other"]["change"]
    assert entries["other", 0]["change"] is None
    assert entries["held-out", 6]["change"] is None
    assert entries["sampled", 3]["interval95"] == summary["evaluations"]["sampled"]["all"][1]["interval95"]
    lines = status_lines(status)
    best = summary["evaluations"]["held-out"]["best"]
    marked = [line for line in lines if line.endswith("<- best")]
    assert marked == [f"  held-out: {share_words(best)} after iteration {summary['best']}  <- best"]
    forgotten = forgotten_words(summary["holdouts"]["other"]["change"])
    after = share_words(summary["holdouts"]["other"]["after"])
    assert f"  other (holdout): {after} after iteration 6; forgotten: {forgotten}" in lines


def test_the_newest_evaluation_of_each_set_has_its_other_figures_on_one_line(evaluated_folder: Path) -> None:
    summary = json.loads(RunFolder(evaluated_folder).summary.read_text())
    status = status_of(RunFolder(evaluated_folder))
    newest = {e["set"]: e for e in status["evaluations"]}
    for name, after in {n: e["after"] for n, e in summary["evaluations"].items()}.items():
        assert after.items() <= newest[name].items()
    lines = status_lines(status)
    points = summary["evaluations"]["sampled"]["after"]
    details = [line for line in lines if line.startswith("    9 problems")]
    assert details == [
        f"    9 problems{sample_words(points)}, {100 * points['truncated_share']:.1f} % cut off, "
        f"{points['mean_length']:.0f} tokens on average, format {100 * points['format_share']:.1f} %, "
        f"mean score {points['mean_score']:.4g}"
    ]
    assert "pass@40" in details[0]
    assert len([line for line in lines if " cut off" in line]) == 3


def test_wins_over_the_base_model_are_called_so(evaluated_folder: Path) -> None:
    status = status_of(RunFolder(evaluated_folder))
    status["evaluations"] = [{**status["evaluations"][-1], "against_base": True}]
    assert any(" better than the base model after iteration 6" in line for line in status_lines(status))


def test_a_run_in_stages_says_which_one_and_how_long_all_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = {"source": "builtin://addition", "split": "train", "maxProblems": 16}
    stages = [{**part, "iterations": 2}, {**part, "iterations": 3}]
    folder = RunFolder(tmp_path)
    folder.job.write_text(job_text(changed(es__iterations=None, dataset={"stages": stages})))
    status = status_of(folder)
    assert (status["stage"], status["stages"], status["total_iterations"]) == (0, 2, 5)
    answering(monkeypatch, wire.StatusResponse(phase=wire.PHASE_RUNNING, stage=1, stages=2, iteration=3))
    with held(folder):
        assert "stage 2 of 2, epoch 0" in status_lines(status_of(folder))[0]
    stages[1] = {**part, "epochs": 1}
    folder.job.write_text(job_text(changed(es__iterations=None, dataset={"stages": stages})))
    assert status_of(folder)["total_iterations"] is None
