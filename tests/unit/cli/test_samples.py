"""`dartes samples` shows the answers that were kept, by set, iteration and verdict."""

import json
import sqlite3
from pathlib import Path

import pytest

from dartes.cli.main import main
from dartes.state import RunFolder, RunReader


@pytest.fixture
def run(evaluated_folder: Path) -> RunFolder:
    """A finished run that kept 3 answers of each evaluation."""
    return RunFolder(evaluated_folder)


def read(run: RunFolder, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, object]]:
    assert main(["samples", str(run.path), "--json", *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_first_answers_of_each_set_are_kept(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    found = read(run, capsys)
    assert [(s["set"], s["row"], s["sample"], s["iteration"]) for s in found] == [
        (name, row, 0, 6) for name in ("held-out", "sampled", "other") for row in range(3)
    ]


def test_verdicts_are_those_of_the_evaluation(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    found = read(run, capsys, "--set", "sampled", "--iteration", "3")
    with RunReader.open(run) as reader:
        (own,) = (e for e in reader.evaluations() if (e.set_name, e.iteration) == ("sampled", 3))
    assert [s["passed"] for s in found] == own.passed.reshape(9, 40)[:3, 0].tolist()
    assert all(bool(s["reason"]) != s["passed"] for s in found)


def test_passed_and_failed_answers_together_are_all(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    for iteration in ("0", "3", "6"):
        everything = read(run, capsys, "--iteration", iteration)
        passed = read(run, capsys, "--iteration", iteration, "--passed")
        failed = read(run, capsys, "--iteration", iteration, "--failed")
        assert {s["passed"] for s in passed} <= {True}
        assert {s["passed"] for s in failed} <= {False}
        assert len(passed) + len(failed) == len(everything)


def test_the_count_is_of_each_set(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert [s["set"] for s in read(run, capsys, "--count", "1")] == ["held-out", "sampled", "other"]


def test_an_answer_of_several_is_named_by_its_number(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["samples", str(run.path), "--count", "1"]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if ", after iteration " in line]
    assert [head.partition(", after")[0] for head in heads] == [
        "held-out, row 0",
        "sampled, row 0, sample 1 of 40",
        "other, row 0",
    ]


def test_best_is_the_iteration_that_the_summary_names(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    best = json.loads(run.summary.read_text())["best"]
    assert {s["iteration"] for s in read(run, capsys, "--iteration", "Best")} == {best}


def test_people_read_prompt_answer_and_verdict_and_no_control_characters(
    tmp_path: Path, run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = RunFolder(tmp_path)
    copy.job.write_bytes(run.job.read_bytes())
    copy.store.write_bytes(run.store.read_bytes())
    connection = sqlite3.connect(copy.store)
    with connection:
        connection.execute(
            "UPDATE completions SET prompt = 'one\ntwo', text = ?, passed = 0, score = 0.25, reason = ?"
            " WHERE iteration = 6 AND set_name = 'other' AND row = 1",
            ("\x1b[2Jgone\r", "\x07no"),
        )
    connection.close()
    assert main(["samples", str(tmp_path), "--set", "other"]) == 0
    out = capsys.readouterr().out
    assert (
        "other, row 1, after iteration 6: failed, score 0.25: \\x07no\n"
        "  prompt\n    one\n    two\n  answer\n    \\x1b[2Jgone\\x0d\n"
    ) in out
    assert not any(c in out for c in "\x1b\r\x07")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--set", "none"],
            "--set none: the job has no such evaluation set (it has: held-out, sampled, other)",
        ),
        (["--iteration", "1"], "--iteration 1: no answers are kept of it; there are: 0, 3, 6"),
    ],
)
def test_what_is_not_kept_is_said(
    run: RunFolder, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["samples", str(run.path), *options]) == 64
    assert said in capsys.readouterr().err


def test_a_run_that_kept_nothing_says_how_to_keep_some(
    finished_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["samples", str(finished_folder)]) == 64
    assert "set evaluation.logCompletions in the job" in capsys.readouterr().err


def test_only_one_verdict_can_be_asked_for(run: RunFolder) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["samples", str(run.path), "--passed", "--failed"])
    assert caught.value.code == 64
