"""`dartes probe` measures the parent and the same members at each sigma, and changes nothing."""

import json
from pathlib import Path

import numpy as np
import pytest

from dartes.cli.main import main as dartes
from dartes_worker import probe as probe_module
from dartes_worker.engines.registry import ENGINE_VARIABLE
from dartes_worker.probe import main, probe
from dartes_worker.setup import Equipment

from .conftest import HASHING


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """`python -m dartes_worker.probe` with the test engine."""
    monkeypatch.setenv(ENGINE_VARIABLE, HASHING)
    monkeypatch.setattr("sys.argv", ["probe", *arguments])
    return main()


def test_the_parent_comes_first_then_each_sigma(equipment: Equipment) -> None:
    rows = list(probe(equipment, [0.001, 0.002], 5))
    assert [(row.sigma, row.members) for row in rows] == [(0.0, 1), (0.001, 5), (0.002, 5)]
    for row in rows:
        assert 0 < row.pass_rate < 1
        assert row.fitness_mean == pytest.approx(row.pass_rate), "this task has no auxiliary score"
        assert row.fitness_mean <= row.fitness_best <= row.fitness_mean + 3 * row.fitness_std + 1e-9
    assert (rows[0].fitness_std, rows[0].informative_share) == (0.0, 0.0)
    assert all(row.fitness_std > 0 and row.informative_share > 0 for row in rows[1:])


def test_the_same_question_has_the_same_answer_and_sigma_matters(equipment: Equipment) -> None:
    first, again = (list(probe(equipment, [0.001], 4)) for _ in range(2))
    assert first == again
    assert list(probe(equipment, [0.002], 4))[1] != first[1]


def test_people_get_a_table_that_marks_the_jobs_own_sigma(
    tiny_job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, str(tiny_job), "--members", "2", "--sigmas", "0.003,0.001") == 0
    head, parent, own, other, advice = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["sigma", "pass"]
    assert parent.split()[0] == "parent"
    assert own.endswith("<- es.sigma")
    assert "es.sigma" not in other
    assert advice.startswith("Choose a sigma")


def test_json_has_an_object_per_sigma_and_the_default_sigmas_surround_the_jobs(
    tiny_job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, str(tiny_job), "--members", "2", "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    factors = [row["sigma"] / 0.003 for row in rows]
    assert factors == pytest.approx([0, 0.125, 0.25, 0.5, 1, 2, 4, 8])
    assert all(np.isfinite(list(row.values())).all() for row in rows)


def test_a_users_mistake_has_one_line_and_exit_code_64(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, str(tmp_path / "none.yaml"), "--members", "2") == 64
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'none.yaml'}: can't be read")
    assert dartes(["probe", str(tmp_path / "none.yaml")]) == 64


def test_an_interrupt_is_quiet(
    tiny_job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(probe_module, "equip", interrupted)
    assert run_main(monkeypatch, str(tiny_job), "--members", "2") == 76
    assert capsys.readouterr().err == ""
