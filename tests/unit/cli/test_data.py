"""`dartes data show`: what the model is asked, and what an answer would earn."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dartes.cli.main import main
from dartes.rewards import service

from .in_process import SPEC, changed

JobWriter = Callable[..., Path]


@pytest.fixture
def shown(job_file: JobWriter, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command; returns exit code, output and errors."""

    def run(spec: dict[str, Any], *options: str) -> tuple[int, str, str]:
        code = main(["data", "show", str(job_file(spec)), *options])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def with_rows(tmp_path: Path, *rows: dict[str, Any], **task: Any) -> dict[str, Any]:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = changed(dataset={"source": "rows.jsonl"}, es__batchSize=1)
    spec["task"] = {"kind": "addition", **task}
    return spec


def test_the_first_problems_are_shown_as_asked_with_their_answers(
    shown: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    spec = with_rows(tmp_path, {"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}, {"a": 7, "b": 8})
    code, out, _ = shown(spec, "--count", "2")
    assert code == 0
    assert out.splitlines()[0] == f"spec.dataset: {tmp_path}/rows.jsonl (4 problems)"
    assert out.splitlines()[1:] == [
        "",
        "row 0, task addition",
        "  prompt, continued by the model as it stands",
        "    1+2=",
        "  reference answer",
        "    3",
        "",
        "row 1, task addition",
        "  prompt, continued by the model as it stands",
        "    3+4=",
        "  reference answer",
        "    7",
    ]


def test_a_chat_is_shown_turn_by_turn(shown: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    spec = with_rows(tmp_path, {"a": 1, "b": 2}, system="Only digits.", prompt="Add {a}\nand {b}")
    _, out, _ = shown(spec)
    assert "  system\n    Only digits.\n  user\n    Add 1\n    and 2\n" in out


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ("7", ["  passed", "  score      1", "  taken as   7"]),
        (
            "8\x1b[2J",
            [
                "  failed",
                "  score      0",
                "  taken as   8\\x1b[2J",
                "  reason     not the sum",
            ],
        ),
    ],
)
def test_an_answer_is_graded_by_the_jobs_own_grader(
    shown: Callable[..., tuple[int, str, str]], tmp_path: Path, answer: str, lines: list[str]
) -> None:
    spec = with_rows(tmp_path, {"a": 1, "b": 2}, {"a": 3, "b": 4})
    code, out, _ = shown(spec, "--row", "1", "--answer", answer)
    assert code == 0
    assert out.splitlines()[-len(lines) :] == lines
    (tmp_path / "answer").write_text(answer)
    assert shown(spec, "--row", "1", "--answer-file", str(tmp_path / "answer"))[1] == out


def test_data_that_would_steer_the_terminal_is_escaped(
    shown: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    spec = with_rows(tmp_path, {"a": 1, "b": 2, "c": "\x1b]0;x\x07"}, prompt="{c}{a}")
    assert "    \\x1b]0;x\\x071\n" in shown(spec)[1]


def test_an_evaluation_set_and_a_stage_can_be_named(shown: Callable[..., tuple[int, str, str]]) -> None:
    assert (
        "spec.evaluation.sets[held-out]: builtin://addition [test] (12 problems)"
        in shown(SPEC, "--set", "held-out")[1]
    )
    part = {"source": "builtin://addition", "split": "train", "maxProblems": 9, "iterations": 1}
    spec = changed(es__iterations=None, dataset={"stages": [{**part, "maxProblems": 8}, part]})
    assert "spec.dataset.stages[0]: builtin://addition [train] (8 problems)" in shown(spec)[1]
    assert "spec.dataset.stages[1]: builtin://addition [train] (9 problems)" in shown(spec, "--stage", "1")[1]


def test_rows_of_a_mix_are_counted_through_its_parts(shown: Callable[..., tuple[int, str, str]]) -> None:
    part = {"source": "builtin://addition", "split": "train", "maxProblems": 9}
    spec = changed(dataset={"mix": [part, {**part, "split": "test"}]})
    ninth = shown(spec, "--row", "9")[1]
    assert "spec.dataset.mix[1]: builtin://addition [test] (9 problems)" in ninth
    assert "row 9, task addition" in ninth
    assert "spec.dataset.mix[0]" in shown(spec, "--row", "8")[1]


@pytest.mark.parametrize(
    ("options", "rows"),
    [([], [0, 9, 10, 19]), (["--count", "2"], [0, 9]), (["--count", "6"], [0, 1, 9, 10, 11, 19])],
)
def test_of_a_mix_each_part_is_shown(
    shown: Callable[..., tuple[int, str, str]], options: list[str], rows: list[int]
) -> None:
    part = {"source": "builtin://addition", "split": "train", "maxProblems": 9}
    spec = changed(dataset={"mix": [part, {**part, "maxProblems": 1}, part, part]})
    out = shown(spec, *options)[1]
    assert [int(line.split()[1][:-1]) for line in out.splitlines() if line.startswith("row ")] == rows
    assert "spec.dataset.mix[1]: builtin://addition [train] (1 problems)" in out


def test_a_reward_service_that_is_down_is_not_waited_for(
    shown: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "FIRST_WAIT_SECONDS", 0.001)
    spec = with_rows(tmp_path, {"prompt": "Say hello"})
    url = f"http://127.0.0.1:{closed_port()}/score"
    spec["task"] = {"kind": "instruction", "options": {"rewardService": url}}
    code, _, err = shown(spec, "--answer", "hello")
    assert code == 75
    assert f"error: no grade: rewards are unavailable: reward service {url}: " in err
    assert "tried 3 times; see to the service, then try again" in err


def closed_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "other"], "--set other: the job has no such evaluation set (it has: held-out)"),
        (["--stage", "1"], "--stage 1: the job has 1 stages; allowed: 0"),
        (["--set", "held-out", "--stage", "0"], "--stage: is of training"),
        (["--row", "16"], "--row 16: there are 16 problems; allowed: 0 to 15"),
        (["--answer-file", "/no/such"], "--answer-file /no/such: can't be read (No such file or directory)"),
    ],
)
def test_what_is_not_there_is_said(
    shown: Callable[..., tuple[int, str, str]], options: list[str], said: str
) -> None:
    code, _, err = shown(SPEC, *options)
    assert (code, said in err) == (64, True), err


def test_a_row_that_does_not_fit_is_an_error_that_names_its_columns(
    shown: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code, _, err = shown(with_rows(tmp_path, {"a": 1, "b": 2}, {"a": 1}))
    assert code == 64
    assert "spec.dataset: rows.jsonl line 2: column 'b' is missing (there are: a)" in err


def test_an_answer_file_must_be_text(shown: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    (tmp_path / "answer").write_bytes(b"\xff")
    code, _, err = shown(SPEC, "--answer-file", str(tmp_path / "answer"))
    assert (code, "is not UTF-8 text" in err) == (64, True)


def test_neither_torch_nor_a_model_is_loaded(job_file: JobWriter) -> None:
    code = (
        "import sys; from dartes.cli.main import main; "
        f"main(['data', 'show', {str(job_file(SPEC))!r}, '--answer', '3']); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'grpc', 'numba')))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL).returncode == 0
    )
