"""`dartes export` gives the very weights that the run's workers held, at any iteration and in any format."""

import json
from pathlib import Path

import numpy as np
import pytest

from dartes.builtin import builtin_model
from dartes.checkpoint import open_checkpoint, read_snapshot
from dartes.cli.export import export_run, exported_hash, nearest_snapshot
from dartes.cli.main import main
from dartes.journal import JournalError, read_journal
from dartes.noise import ServedDtype
from dartes.noise.dtypes import round_to
from dartes.state import RunFolder, RunReader

from .in_process import ITERATIONS


def attested(folder: RunFolder, iteration: int) -> str:
    """The digest that the worker attested."""
    with RunReader.open(folder) as reader:
        ((_, _, digest, _),) = reader.attestations(iteration)
    return digest


@pytest.mark.parametrize("iteration", [0, 1, 4, 5, None])
def test_the_digest_is_the_one_that_was_attested(
    finished_folder: Path, tmp_path: Path, iteration: int | None
) -> None:
    folder = RunFolder(finished_folder)
    done = export_run(folder, tmp_path / "model", iteration, None)
    assert done.iteration == (ITERATIONS if iteration is None else iteration)
    assert done.digest.total == attested(folder, done.iteration)
    provenance = json.loads((tmp_path / "model" / "dartes.json").read_text())
    assert provenance["weight_digest"] == done.digest.total
    assert exported_hash(tmp_path / "model") == done.row_hash.hex()
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"config.json", "tokenizer.json", "generation_config.json", "model.safetensors"} <= names


def test_iteration_0_is_the_base_model(finished_folder: Path, tmp_path: Path) -> None:
    export_run(RunFolder(finished_folder), tmp_path / "model", 0, None)
    exported, base = open_checkpoint(tmp_path / "model"), open_checkpoint(builtin_model("addition"))
    assert exported.base_digest() == base.base_digest()


def test_another_dtype_is_the_same_weights_rounded_once(finished_folder: Path, tmp_path: Path) -> None:
    folder = RunFolder(finished_folder)
    assert main(["export", str(folder.path), "--output", str(tmp_path / "full")]) == 0
    assert main(["export", str(folder.path), "--output", str(tmp_path / "half"), "--dtype", "BFloat16"]) == 0
    full, half = open_checkpoint(tmp_path / "full"), open_checkpoint(tmp_path / "half")
    for info in full.trainable:
        bits = round_to(ServedDtype.BFLOAT16, full.read_f32(info.name, 0, info.count))
        widened = (bits.astype(np.uint32) << 16).view(np.float32)
        assert np.array_equal(half.read_f32(info.name, 0, info.count), widened)


def test_neither_the_store_nor_any_snapshot_is_needed(finished: RunFolder, tmp_path: Path) -> None:
    wanted = attested(finished, ITERATIONS)
    finished.store.unlink()
    for path in finished.snapshots.iterdir():
        path.unlink()
    assert export_run(finished, tmp_path / "model", None, None).digest.total == wanted


def test_the_nearest_good_snapshot_is_taken_and_a_damaged_one_passed_over(finished: RunFolder) -> None:
    journal = read_journal(finished.journal)

    def found(iteration: int) -> int | None:
        snapshot = nearest_snapshot(finished, journal, iteration)
        return None if snapshot is None else snapshot.iteration

    assert (found(6), found(5), found(4), found(3)) == (6, 4, 4, None)
    newest = sorted(finished.snapshots.iterdir())[-1]
    assert read_snapshot(newest).iteration == 6
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    assert found(6) == 4


def test_an_existing_output_is_refused_and_left_alone(
    finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mine"
    output.mkdir()
    (output / "thesis.tex").write_text("all of it")
    assert main(["export", str(finished.path), "--output", str(output)]) == 64
    assert f"{output}: exists and is not empty; name a new folder" in capsys.readouterr().err
    assert [path.name for path in output.iterdir()] == ["thesis.tex"]


def test_an_iteration_that_the_run_does_not_have_is_refused_with_what_it_has(
    finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", str(finished.path), "--output", str(tmp_path / "m"), "--iteration"]
    assert main([*arguments, "7"]) == 64
    assert "--iteration 7: the run has 6 iterations; allowed: 0 to 6" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="64"):
        main([*arguments, "-1"])


def test_a_journal_damaged_at_its_end_still_gives_what_is_before(
    finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = attested(finished, 5)
    finished.journal.write_bytes(finished.journal.read_bytes()[:-1])
    assert main(["export", str(finished.path), "--output", str(tmp_path / "m")]) == 64
    said = capsys.readouterr().err
    assert "damaged at iteration 5" in said
    assert "give --iteration 5 or less" in said
    assert not (tmp_path / "m").exists()
    assert export_run(finished, tmp_path / "m", 5, None).digest.total == wanted


def test_a_journal_that_is_gone_is_named(finished: RunFolder, tmp_path: Path) -> None:
    finished.journal.unlink()
    with pytest.raises(JournalError, match=r"journal\.dartes: can't be read"):
        export_run(finished, tmp_path / "m", None, None)


def test_a_place_that_cannot_be_written_to_is_named_without_a_traceback(
    finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["export", str(finished.path), "--output", str(tmp_path / "file" / "model")]) == 64
    assert f"error: {tmp_path / 'file'}: " in capsys.readouterr().err
