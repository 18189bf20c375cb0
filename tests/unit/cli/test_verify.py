"""`dartes verify` finds each kind of damage, names it, goes on, and exits 1."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from dartes.builtin import builtin_model
from dartes.checkpoint import read_snapshot
from dartes.cli import verify as verify_module
from dartes.cli.main import main
from dartes.cli.verify import VerificationError, verify
from dartes.errors import ExitCode
from dartes.state import RunFolder, RunReader

from .in_process import ITERATIONS, changed, play

Damage = Callable[[RunFolder], None]


def flip(path: Path, at: int) -> None:
    """Flip the lowest bit of one byte; negative positions count from the end."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def alter(folder: RunFolder, statement: str, *parameters: object) -> None:
    """Change the store behind everybody's back."""
    with sqlite3.connect(folder.store) as connection:
        assert connection.execute(statement, parameters).rowcount == 1
    connection.close()


def flipped_column(folder: RunFolder, table: str, column: str, where: str) -> None:
    """Flip the lowest bit of a blob's first byte."""
    with sqlite3.connect(folder.store) as connection:
        (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchone()
    connection.close()
    alter(folder, f"UPDATE {table} SET {column} = ? WHERE {where}", bytes([value[0] ^ 1, *value[1:]]))


def edited_line(path: Path, number: int, **values: object) -> None:
    """Replace keys of one JSON line."""
    lines = path.read_text().splitlines()
    lines[number] = json.dumps({**json.loads(lines[number]), **values})
    path.write_text("\n".join(lines) + "\n")


def edited_job(folder: RunFolder, old: str, new: str) -> None:
    """Replace one field of the recorded job."""
    text = folder.job.read_text()
    assert old in text
    folder.job.write_text(text.replace(old, new))


def newest_snapshot(folder: RunFolder) -> Path:
    """The file of the last snapshot."""
    return sorted(folder.snapshots.iterdir())[-1]


def findings_of(folder: RunFolder) -> tuple[str, ...]:
    """What `verify` finds."""
    with pytest.raises(VerificationError) as caught:
        verify(folder)
    assert caught.value.exit_code == ExitCode.BUG
    return caught.value.findings


def test_an_untouched_run_is_verified(finished_folder: Path, half_done_folder: Path) -> None:
    lines = verify(RunFolder(finished_folder))
    assert lines[0].startswith(f"{ITERATIONS} iterations:")
    assert lines[-1] == "verified: everything agrees"
    summary = json.loads(RunFolder(finished_folder).summary.read_text())
    assert lines[2].endswith(summary["journal_hash"])
    assert summary["weight_digest"] in lines[4]
    assert verify(RunFolder(half_done_folder))[0].startswith("3 iterations:")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(
            lambda f: flipped_column(f, "iterations", "passed", "iteration = 2"),
            "iteration 2: the stored list of coefficients differs from the recomputed one; later iterations "
            "can't be checked",
            id="a flipped result bit",
        ),
        pytest.param(
            lambda f: flipped_column(f, "iterations", "problems", "iteration = 1"),
            "iteration 1: the stored batch differs",
            id="a changed batch",
        ),
        pytest.param(
            lambda f: flipped_column(f, "iterations", "row_hash", "iteration = 4"),
            "iteration 4: the stored row hash differs",
            id="a changed row hash",
        ),
        pytest.param(
            lambda f: flipped_column(f, "evaluations", "passed", "iteration = 3"),
            "line 4 (iteration 3): evaluations is",
            id="a flipped bit of an evaluation",
        ),
        pytest.param(
            lambda f: flipped_column(f, "iterations", "truncated", "iteration = 2"),
            "line 3 (iteration 2): truncated_share is",
            id="a flipped truncation",
        ),
        pytest.param(
            lambda f: flip(f.journal, -40),
            f"damaged at iteration {ITERATIONS - 1}: the row doesn't match its hash",
            id="a changed coefficient in the journal",
        ),
        pytest.param(
            lambda f: f.journal.write_bytes(f.journal.read_bytes()[:-10]),
            f"damaged at iteration {ITERATIONS - 1}: the file ends inside the row",
            id="a truncated journal",
        ),
        pytest.param(lambda f: f.journal.unlink(), "can't be read", id="no journal"),
        pytest.param(
            lambda f: edited_line(f.metrics, 1, pass_rate=0.9),
            "line 2 (iteration 1): pass_rate is 0.9, the store gives",
            id="a changed metrics line",
        ),
        pytest.param(
            lambda f: edited_line(f.metrics, 1, extra=1),
            "line 2 (iteration 1): extra is 1, the store gives null",
            id="an added metric",
        ),
        pytest.param(
            lambda f: f.metrics.write_text("\n".join(f.metrics.read_text().splitlines()[:-1])),
            f"{ITERATIONS - 1} lines, the store has {ITERATIONS} iterations",
            id="a missing metrics line",
        ),
        pytest.param(lambda f: f.metrics.unlink(), "metrics.jsonl: can't be read", id="no metrics"),
        pytest.param(lambda f: f.summary.write_text("{"), "summary.json: not JSON", id="half a summary"),
        pytest.param(
            lambda f: f.summary.write_text(
                f.summary.read_text().replace('"iterations": 6', '"iterations": 7')
            ),
            "iterations is 7, the store gives 6",
            id="a changed summary",
        ),
        pytest.param(
            lambda f: flip(newest_snapshot(f), -1), "damaged: the weights' digest is", id="a damaged snapshot"
        ),
        pytest.param(lambda f: newest_snapshot(f).unlink(), "can't be read", id="a missing snapshot"),
        pytest.param(
            lambda f: newest_snapshot(f).write_bytes(sorted(f.snapshots.iterdir())[0].read_bytes()),
            "is rebuilt",
            id="a snapshot of another iteration",
        ),
        pytest.param(
            lambda f: alter(f, "UPDATE attestations SET digest = 'beef' WHERE iteration = 4"),
            "worker worker-0 attested beef after iteration 4",
            id="another attestation",
        ),
        pytest.param(
            lambda f: alter(f, "UPDATE meta SET value = 'beef' WHERE key = 'weight_digest'"),
            "final weight digest: beef is recorded",
            id="another final digest",
        ),
        pytest.param(
            lambda f: edited_job(f, "sigma: 0.003", "sigma: 0.004"),
            "job.yaml: spec.es.sigma is 0.004, the run was made with 0.003",
            id="a changed job",
        ),
        pytest.param(
            lambda f: edited_job(f, "maxProblems: 12", "maxProblems: 11"),
            "evaluation set 'held-out': digest",
            id="another evaluation set",
        ),
        pytest.param(
            lambda f: f.store.write_bytes(f.store.read_bytes()[: f.store.stat().st_size // 2]),
            "state.sqlite: ",
            id="half a store",
        ),
        pytest.param(lambda f: f.store.write_bytes(b"x" * 5000), "not a database", id="no store at all"),
    ],
)
def test_each_kind_of_damage_is_found_and_named(finished: RunFolder, damage: Damage, words: str) -> None:
    damage(finished)
    assert any(words in finding for finding in findings_of(finished)), findings_of(finished)


def test_every_finding_is_listed_and_the_exit_code_is_1(
    finished: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    edited_line(finished.metrics, 0, pass_rate=0.9)
    flip(newest_snapshot(finished), -1)
    flip(finished.journal, -40)
    assert main(["verify", str(finished.path)]) == 1
    said = capsys.readouterr().err
    assert f"{finished.path}: 3 differences" in said
    assert len(said.splitlines()) == 4
    assert "Traceback" not in said


def test_a_run_on_another_base_model_is_named(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(builtin_model("addition"), model)
    folder = play(tmp_path / "run", changed(model__source=str(model), es__iterations=1, evaluation=None))
    flip(model / "model.safetensors", -2)
    (finding,) = findings_of(folder)
    assert "another base model; use the one that the run started from" in finding


def test_a_run_on_another_training_set_is_named(tmp_path: Path) -> None:
    data = tmp_path / "train.jsonl"
    data.write_text("".join(f'{{"a": {a}, "b": 1}}\n' for a in range(16)))
    folder = play(tmp_path / "run", changed(dataset={"source": str(data)}, es__iterations=1, evaluation=None))
    data.write_text(data.read_text().replace('"b": 1', '"b": 2'))
    (finding,) = findings_of(folder)
    assert finding.startswith(f"training set {data}: digest")


def test_a_run_that_goes_on_while_it_is_verified_is_compared_as_far_as_it_was(
    finished: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_module, "is_held", lambda _: True)
    with sqlite3.connect(finished.store) as connection:
        connection.execute("DELETE FROM iterations WHERE iteration >= 5")
    connection.close()
    # The files are ahead by the iteration that was committed since.
    assert verify(finished)[0].startswith("5 iterations")


def test_snapshots_are_those_of_the_store(finished: RunFolder) -> None:
    with RunReader.open(finished) as reader:
        stored = {s.file: s.digest for s in reader.snapshots()}
    assert stored == {path.name: read_snapshot(path).digest for path in finished.snapshots.iterdir()}
