"""What a finished run prints and writes: accuracy, curves, and a model that is never an older one."""

import shutil
from pathlib import Path

import pytest

from dartes.cli.export import exported_hash
from dartes.cli.show import accuracy_lines, require_free, results
from dartes.errors import ConfigurationError, TransientError
from dartes.state import RunFolder, RunReader

from .in_process import ITERATIONS


def test_the_results_name_everything(
    finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results(finished, tmp_path / "model")
    said = capsys.readouterr().out
    assert "held-out: " in said
    assert f"after {ITERATIONS} iterations (12 held-out problems)" in said
    assert f"{ITERATIONS} iterations, 24 members evaluated" in said
    for path in (finished.path, finished.curves, tmp_path / "model", finished.journal):
        assert str(path) in said
    assert finished.curves.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_without_an_export_the_results_say_how_to_get_the_model(
    finished: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    results(finished, None)
    assert f"dartes export {finished.path} --output MODEL_DIR" in capsys.readouterr().out


def test_a_model_that_is_there_already_is_kept_and_an_older_one_never_passed_off(
    finished: RunFolder, half_done_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results(finished, tmp_path / "model")
    written = (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns
    results(finished, tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns == written
    capsys.readouterr()
    shutil.copy(half_done_folder / "journal.dartes", finished.journal)
    shutil.rmtree(tmp_path / "model")
    results(finished, tmp_path / "model")
    results(finished, tmp_path / "model")
    assert "holds an older one; dartes export" in capsys.readouterr().out


def test_a_full_export_folder_is_refused_before_hours_of_work(finished: RunFolder, tmp_path: Path) -> None:
    with RunReader.open(finished) as reader:
        last = reader.last_row_hash()
    assert last is not None
    require_free(tmp_path / "none", None)
    (tmp_path / "empty").mkdir()
    require_free(tmp_path / "empty", None)
    results(finished, tmp_path / "model")
    assert exported_hash(tmp_path / "model") == last.hex()
    require_free(tmp_path / "model", last)
    for row_hash in (None, b"another"):
        with pytest.raises(ConfigurationError, match="exists and is not empty; name a new folder"):
            require_free(tmp_path / "model", row_hash)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="--export"):
        require_free(tmp_path / "file", last)


def test_a_summary_that_found_no_room_is_said_so(finished: RunFolder) -> None:
    finished.summary.unlink()
    with pytest.raises(TransientError, match="could not be written, because the disk was full"):
        results(finished, None)


def test_a_set_that_came_later_has_no_before() -> None:
    point = {"iteration": 20, "accuracy": 0.5, "problems": 10, "interval95": [0.25, 0.75]}
    both = {"evaluations": {"set": {"before": point, "after": point}}}
    later = {"evaluations": {"set": {"before": None, "after": point}}}
    after = "50.0 % [25.0, 75.0] after 20 iterations (10 held-out problems)"
    assert accuracy_lines(both) == [f"set: 50.0 % [25.0, 75.0] before, {after}"]
    assert accuracy_lines(later) == [f"set: {after}"]


def test_samples_the_best_iteration_and_holdouts_are_told() -> None:
    point = {"iteration": 0, "accuracy": 0.5, "problems": 10, "interval95": [0.25, 0.75]}
    several = {"samples": 4, "pass_at_k": {"1": 0.5, "2": 0.6, "4": 0.9}, "maj_at_k": 0.7}
    last, best = {**point, "iteration": 20, **several}, {**point, "iteration": 10, "accuracy": 0.6}
    change = {"points": -3.0, "interval95": [-5.0, 1.0]}
    entry = {"before": point, "after": last, "best": best, "change": change, "against_base": False}
    summary = {"evaluations": {"set": entry}, "holdouts": {"old": {**entry, "best": None}}}
    after = "50.0 % [25.0, 75.0] after 20 iterations (10 held-out problems, pass@4 90.0 %, maj@4 70.0 %)"
    assert accuracy_lines(summary) == [
        f"set: 50.0 % [25.0, 75.0] before, {after}; 60.0 % [25.0, 75.0] at the best iteration, 10",
        f"old (holdout): 50.0 % [25.0, 75.0] before, {after}; forgotten: 3.0 points [-1.0, 5.0]",
    ]


def test_a_set_without_a_base_model_to_win_over_tells_its_mean_score_and_why() -> None:
    why = "this set was added at iteration 10"
    unknown = dict.fromkeys(("accuracy", "interval95", "pass_at_k", "maj_at_k"))
    point = {"iteration": 20, "problems": 9, "samples": 4, "mean_score": 0.51239, "no_base": why, **unknown}
    entry = {"before": None, "after": point, "best": None, "change": None, "against_base": True}
    assert accuracy_lines({"evaluations": {"chat": entry}, "holdouts": {"old": entry}}) == [
        f"{name}: mean score 0.5124 (no base: {why}) after 20 iterations (9 held-out problems)"
        for name in ("chat", "old (holdout)")
    ]


def test_wins_over_the_base_model_have_no_before() -> None:
    point = {"iteration": 20, "accuracy": 0.6, "problems": 10, "interval95": [0.25, 0.75]}
    entry = {"before": {**point, "iteration": 0, "accuracy": 0.0}, "after": point, "against_base": True}
    (line,) = accuracy_lines({"evaluations": {"chat": entry}})
    assert line == (
        "chat: 60.0 % [25.0, 75.0] answers better than the base model's after 20 iterations "
        "(10 held-out problems)"
    )
