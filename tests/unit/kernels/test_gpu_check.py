"""`python -m bench.gpu_check`: what it says and returns with and without a GPU, and where something fails."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from bench import gpu_bits_support, gpu_check


@pytest.mark.slow
def test_the_comparisons_pass_in_the_interpreter() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "bench.gpu_check", "--interpreter"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    *lines, last = result.stdout.splitlines()[1:]
    assert [line for line in lines if not line.startswith("pass  ")] == []
    assert last == "8 passed, 0 failed"
    assert result.stderr == ""


def test_without_a_gpu_it_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main([]) == 2
    assert capsys.readouterr().out.splitlines() == [
        "no GPU: PyTorch finds no CUDA device; `--interpreter` runs the comparisons on this CPU"
    ]


def test_a_wrong_bit_and_a_crash_are_failures_and_the_rest_is_still_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong() -> str:
        gpu_bits_support.same(torch.tensor([1.0, 2.0]), np.array([1.0, 3.0], dtype=np.float32), "a pair")
        return "never said"

    def crash() -> str:
        raise RuntimeError("an illegal memory access")

    def checks(device: object, model: object) -> Iterator[tuple[str, gpu_check.Check]]:
        yield from (("first", wrong), ("second", crash), ("third", lambda: "all bits"))

    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(gpu_check, "checks", checks)
    assert gpu_check.main(["--interpreter"]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "FAIL  first: a pair: 1 of 2 elements differ, the first at 1: 0x40000000 for 0x40400000",
        "FAIL  second: RuntimeError: an illegal memory access",
        "pass  third: all bits",
        "1 passed, 2 failed",
    ]


def test_a_model_that_cannot_be_checked_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(gpu_check, "checks", lambda *_: iter([("first", lambda: "all bits")]))
    assert gpu_check.main(["--interpreter", "--model", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "FAIL  vLLM engine: not checked: the interpreter runs no model",
        "1 passed, 1 failed",
    ]
