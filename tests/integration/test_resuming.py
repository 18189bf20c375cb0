"""The same command on the same folder goes on where the run stood, whatever was lost in between."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from dartes.errors import ExitCode
from dartes.state import RunFolder, RunReader

from .conftest import GROUPS
from .harness import DARTES, EngineHook, Run, held_run, run_to_end
from .outcome import Identity, identity, summary_of
from .variants import Stage

JobWriter = Callable[..., Path]


def test_a_finished_run_says_so_and_starts_no_worker(reference_folder: Path, stage: Stage) -> None:
    worker_log = RunFolder(reference_folder).logs / "worker-0.log"
    before = worker_log.read_bytes(), summary_of(reference_folder)["journal_hash"]
    output = run_to_end(stage.job("reference"), reference_folder, engine=stage.engine)
    assert "this run is finished already; nothing is left to do" in output
    assert "held-out:" in output, "the results are shown again"
    assert (worker_log.read_bytes(), summary_of(reference_folder)["journal_hash"]) == before


def test_more_iterations_continue_a_finished_run_as_if_it_had_been_longer_from_the_start(
    job: JobWriter, tmp_path: Path, reference: Identity
) -> None:
    folder = tmp_path / "run"
    run_to_end(job(es__iterations=5), folder, "--workers", "1", engine=EngineHook.HASHING)
    assert summary_of(folder)["iterations"] == 5
    output = run_to_end(job(), folder, "--workers", "1", engine=EngineHook.HASHING)
    assert "spec.es.iterations: was 5, now 14" in output
    assert identity(folder) == reference


def test_being_told_to_stop_ends_every_process_and_the_run_resumes(
    job: JobWriter, tmp_path: Path, reference: Identity
) -> None:
    folder = tmp_path / "run"
    at = f"all:{GROUPS // 4}"
    for number, reason in enumerate((signal.SIGINT, signal.SIGTERM)):
        hold_in = tmp_path / f"hold-{number}"
        with held_run(job(), folder, "--workers", "1", at=at, hold_in=hold_in) as (run, hold):
            run.until(hold.pids, "a worker inside a lease")
            run.descendants()
            os.kill(run.pid, reason)
            if reason == signal.SIGINT:
                hold.open()  # this worker finishes its lease and leaves; the other never would
            output = run.must_end_with(ExitCode.DRAINED)
        assert "interrupted" in output
        assert "the same command resumes the run" in output
        assert "Traceback" not in output
    run_to_end(job(), folder, engine=EngineHook.HASHING)
    assert identity(folder) == reference


def test_a_truncated_store_falls_back_to_the_backup_and_says_what_was_lost(
    half_done: Path, job: JobWriter, tmp_path: Path, reference: Identity
) -> None:
    store = RunFolder(half_done).store
    with store.open("r+b") as file:
        file.truncate(store.stat().st_size // 2)
    options = ("--workers", "1", "--export", str(tmp_path / "model"))
    output = run_to_end(job(), half_done, *options, engine=EngineHook.HASHING)
    assert output.count("The backup state-00000010.sqlite is used instead: 10 iterations are kept") == 1
    assert identity(half_done) == reference
    assert any(RunFolder(half_done).damaged.iterdir()), "the damaged store is kept for a post-mortem"
    assert (tmp_path / "model" / "config.json").is_file()


def test_a_damaged_snapshot_is_passed_over_for_an_older_one(
    half_done: Path, job: JobWriter, reference: Identity
) -> None:
    folder = RunFolder(half_done)
    with RunReader.open(folder) as reader:
        older, newest = (folder.snapshots / s.file for s in reader.snapshots()[-2:])
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    with Run(job(), half_done, "--workers", "1") as run:
        run.must_end_with(0)
        logs = run.logs()
    assert f"{newest.name}" in logs
    assert "trying an older one or the base model" in logs
    assert f"starting from the snapshot of iteration {int(older.stem.removeprefix('iteration-'))}" in logs
    assert identity(half_done) == reference


def test_a_run_that_goes_back_comes_to_the_same_end_and_keeps_what_it_was(
    half_done: Path, job: JobWriter, reference: Identity
) -> None:
    folder = RunFolder(half_done)
    kill_once = {"DARTES_FAULT": "after-commit:3@2"}
    options = ("--workers", "1", "--from-iteration", "7")
    output = run_to_end(job(), half_done, *options, engine=EngineHook.HASHING, environment=kill_once)
    assert "goes back to iteration 7; leave --from-iteration out to resume it later" in output
    assert output.count("5 later iterations are forgotten") == 1, (
        "the coordinator that follows does not go back"
    )
    assert "was killed by SIGKILL" in output
    assert identity(half_done) == reference
    verified = subprocess.run(
        [*DARTES, "verify", str(half_done)], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    (kept,) = folder.rewound.iterdir()
    with RunReader.open(folder, kept) as reader:
        assert reader.iteration_count() == 12


def test_a_run_cannot_go_back_to_what_it_has_not_reached(half_done: Path, job: JobWriter) -> None:
    with Run(job(), half_done, "--from-iteration", "13") as run:
        output = run.must_end_with(ExitCode.CONFIGURATION)
    assert "can't go on from iteration 13: 12 iterations are committed; name one from 0 to 12" in output
