"""A bundle holds all that rebuilds a model, is checked in every byte, and can't be made to write anywhere."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dartes.cli.export import export_run
from dartes.cli.kube import bundle as bundle_module
from dartes.cli.kube.bundle import Bundle, bundle_of
from dartes.cli.kube.export import Asked, prepare
from dartes.destinations.choice import Choice, Evaluated, choose, recorded_evaluations
from dartes.errors import ConfigurationError, DartesError, TransientError
from dartes.journal import DamagedJournalError
from dartes.state import RunFolder

from .in_process import ITERATIONS


def test_what_is_read_is_what_was_written(finished_folder: Path) -> None:
    bundle = bundle_of(RunFolder(finished_folder))
    assert Bundle.decode(bundle.encode()) == bundle
    assert bundle.name == "tiny"
    assert bundle.model_source == "builtin://addition"
    assert bundle.first_set == "held-out"
    assert [e.iteration for e in bundle.evaluations] == [0, 3, 6]
    assert len(bundle.encode()) < 100_000


def test_a_model_rebuilt_from_a_bundle_is_that_of_dartes_export(
    finished_folder: Path, tmp_path: Path
) -> None:
    folder = RunFolder(finished_folder)
    bundle = Bundle.decode(bundle_of(folder).encode())
    for iteration in (0, 4, None):
        there = export_run(folder, tmp_path / f"there-{iteration}", iteration, None)
        here = prepare(bundle, Asked(tmp_path, iteration)).write(tmp_path / f"here-{iteration}")
        assert here.digest.total == there.digest.total
        for path in there.output.iterdir():
            assert (here.output / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_program_writes_the_bundle_and_nothing_else(finished_folder: Path) -> None:
    command = [sys.executable, "-m", "dartes.cli.kube.bundle", "--run-dir", str(finished_folder)]
    done = subprocess.run(command, capture_output=True, check=True)
    assert Bundle.decode(done.stdout) == bundle_of(RunFolder(finished_folder))
    assert done.stderr == b""


def test_a_folder_without_a_run_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bundle_module.main(["--run-dir", str(tmp_path)]) == 64
    assert "nothing to export" in capsys.readouterr().err


def test_every_cut_and_every_changed_byte_is_found(finished_folder: Path) -> None:
    raw = bundle_of(RunFolder(finished_folder)).encode()
    for end in (0, 10, 80, 200, len(raw) - 1):
        with pytest.raises(DartesError, match="damaged on its way|no bundle"):
            Bundle.decode(raw[:end])
    for at in (0, 15, 40, 120, 500, len(raw) - 1):
        changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        with pytest.raises((ConfigurationError, TransientError)):
            Bundle.decode(changed)


@pytest.mark.parametrize(
    "document",
    ["[]", "{}", '{"version": 1}', '{"version": 1, "name": 3, "job": "", "journal": "!"}', "nonsense"],
)
def test_a_document_of_another_form_is_refused(document: str) -> None:
    import hashlib

    body = document.encode()
    raw = f"dartes-bundle {len(body)} {hashlib.sha256(body).hexdigest()}\n".encode() + body
    with pytest.raises(ConfigurationError, match="no bundle"):
        Bundle.decode(raw)


def test_a_newer_version_says_what_to_install(finished_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_module, "VERSION", 2)
    raw = bundle_of(RunFolder(finished_folder)).encode()
    monkeypatch.setattr(bundle_module, "VERSION", 1)
    with pytest.raises(ConfigurationError, match="writes version 2, this dartes reads 1; install"):
        Bundle.decode(raw)


def test_a_damaged_journal_gives_what_is_good_of_it_when_asked(finished_folder: Path, tmp_path: Path) -> None:
    bundle = bundle_of(RunFolder(finished_folder))
    cut = replace(bundle, journal=bundle.journal[:-10])
    with pytest.raises(DamagedJournalError, match=f"give --iteration {ITERATIONS - 1} or less"):
        prepare(cut, Asked(tmp_path))
    assert prepare(cut, Asked(tmp_path, ITERATIONS - 1)).iteration == ITERATIONS - 1


POINTS = [
    Evaluated("a", 0, 3, 10),
    Evaluated("a", 10, 7, 10),
    Evaluated("a", 20, 7, 10),
    Evaluated("b", 20, 10, 10),
    Evaluated("a", 30, 9, 10),
]


def test_best_is_the_earliest_highest_of_the_first_set_within_the_run() -> None:
    assert choose(Choice.BEST, 25, POINTS, "a").iteration == 10
    assert choose(Choice.BEST, 30, POINTS, "a").iteration == 30
    assert choose(Choice.BEST, 30, POINTS, "b").iteration == 20
    assert choose(Choice.BEST, 5, POINTS, "a").iteration == 0
    assert "7 of 10" in (choose(Choice.BEST, 25, POINTS, "a").note or "")


def test_best_without_an_evaluation_is_the_last_and_says_so() -> None:
    chosen = choose(Choice.BEST, 25, [], None)
    assert chosen.iteration == 25
    assert "no evaluation" in (chosen.note or "")


def test_a_number_must_be_in_the_run() -> None:
    assert choose(7, 7, [], None).iteration == 7
    with pytest.raises(ConfigurationError, match="allowed: 0 to 7"):
        choose(8, 7, [], None)


def test_evaluations_come_from_the_summary_where_the_store_cannot_be_read(finished: RunFolder) -> None:
    of_store = recorded_evaluations(finished)
    assert [e.iteration for e in of_store] == [0, 3, 6]
    finished.store.write_bytes(b"not a store")
    assert recorded_evaluations(finished) == of_store
    finished.summary.write_text("{")
    assert recorded_evaluations(finished) == []
