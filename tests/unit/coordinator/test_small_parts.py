"""What is due when, how fast a run goes, pages of updates, and which snapshots are believed."""

import numpy as np
import pytest

from dartes.difficulty import DifficultyState
from dartes.ids import Iteration
from dartes.journal import JournalRow
from dartes.state import StoredSnapshot
from dartes.v1 import population_pb2 as wire
from dartes_coordinator import updates
from dartes_coordinator.errors import ReportError
from dartes_coordinator.pace import WINDOW, Pace
from dartes_coordinator.progress import Progress
from dartes_coordinator.replicas import Replicas
from dartes_coordinator.snapshots import SnapshotDuty, believed
from dartes_coordinator.store import Attestation

from .kit import plan


def test_base_every_nth_and_final_weights_are_evaluated() -> None:
    run = plan(evaluate_every=3)
    due = [bool(run.evaluations_due(k, final=k == 5)) for k in range(6)]
    assert due == [True, False, False, True, False, True]


def test_snapshots_are_due_at_their_interval_but_never_of_the_base_model() -> None:
    assert [k for k in range(7) if plan(snapshot_every=3).snapshot_due(k)] == [3, 6]
    assert not any(plan().snapshot_due(k) for k in range(7))


def test_speed_is_that_of_the_last_iterations() -> None:
    pace = Pace()
    assert (pace.tokens_per_second, pace.remaining_seconds(5)) == (0.0, 0.0)
    for _ in range(WINDOW):
        pace.add(100.0, 1, 0.1)
    for _ in range(WINDOW):
        pace.add(2.0, 10, 0.5)
    assert pace.tokens_per_second == 5.0
    assert pace.remaining_seconds(3) == 6.0
    assert pace.pass_rate == 0.5


# Updates -------------------------------------------------------------------------------------------

ROWS = [
    (
        k,
        JournalRow(Iteration(k), 0, np.arange(3, dtype=np.uint64), np.ones(3, np.float32)).encode(),
        b"h" * 32,
    )
    for k in range(8)
]


def fetch(start: int, limit: int) -> list[tuple[int, bytes, bytes]]:
    return ROWS[start : start + limit]


def page(start: int, limit: int) -> list[int]:
    request = wire.UpdatesRequest(from_iteration=start, limit=limit)
    return [row.iteration for row in updates.updates_page(request, len(ROWS), fetch).rows]


def test_a_page_has_as_many_rows_as_were_asked_for_and_are_there() -> None:
    assert page(0, 3) == [0, 1, 2]
    assert page(6, 9) == [6, 7]
    assert page(2, 0) == [2]
    assert page(8, 5) == []
    assert page(2**63, 5) == []


def test_a_page_is_bounded_in_bytes_but_never_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    one_row = len(ROWS[0][1]) + 32
    monkeypatch.setattr(updates, "PAGE_BYTES", 2 * one_row)
    assert page(0, 8) == [0, 1]
    monkeypatch.setattr(updates, "PAGE_BYTES", 1)
    assert page(0, 8) == [0]


def test_a_row_travels_with_all_its_bits() -> None:
    request = wire.UpdatesRequest(from_iteration=0, limit=1)
    (row,) = updates.updates_page(request, 1, fetch).rows
    assert (list(row.seeds), list(row.coefficients), row.row_hash) == ([0, 1, 2], [1.0] * 3, b"h" * 32)


# Snapshots -----------------------------------------------------------------------------------------


def progress_at(iteration: int) -> Progress:
    hashes = [b"hash %d" % k for k in range(iteration + 1)]
    return Progress(DifficultyState.new(4), b"header", hashes)


def agreed_on(digest: str, iteration: int) -> Replicas:
    replicas = Replicas(iteration)
    replicas.attest(Attestation(iteration, "u", digest, rebuilt=False))
    return replicas


def made(**changes: object) -> wire.SnapshotResult:
    plain = {"iteration": 2, "row_hash": b"hash 2", "digest": "good", "file": "two.safetensors"}
    return wire.SnapshotResult(**(plain | changes))  # type: ignore[arg-type]


def test_one_worker_at_a_time_writes_a_due_snapshot() -> None:
    duty, run, progress = SnapshotDuty(), plan(snapshot_every=2), progress_at(2)
    assert duty.take("u", run, progress)
    assert not duty.take("v", run, progress)
    duty.release("u")
    assert duty.take("v", run, progress)


def test_a_worker_that_asks_again_has_given_up_its_snapshot_and_may_try_again() -> None:
    duty, run, progress = SnapshotDuty(), plan(snapshot_every=2), progress_at(2)
    assert duty.take("u", run, progress)
    assert duty.take("u", run, progress)


def test_a_snapshot_that_is_there_or_not_due_is_nobodys_work() -> None:
    run, progress = plan(snapshot_every=2), progress_at(2)
    progress.snapshots[2] = StoredSnapshot(2, b"hash 2", "good", "two")
    assert not SnapshotDuty().take("u", run, progress)
    assert not SnapshotDuty().take("u", run, progress_at(1))


def test_a_snapshot_of_the_agreed_weights_is_believed() -> None:
    assert believed(made(), progress_at(2), agreed_on("good", 2)) == StoredSnapshot(
        2, b"hash 2", "good", "two.safetensors"
    )


def test_a_snapshot_that_comes_after_the_next_commit_is_still_believed() -> None:
    replicas = agreed_on("good", 2)
    replicas.advance(3)
    assert believed(made(), progress_at(3), replicas) is not None


def test_a_snapshot_of_other_weights_than_the_agreed_ones_is_refused() -> None:
    with pytest.raises(ReportError, match="agree"):
        believed(made(digest="bad"), progress_at(2), agreed_on("good", 2))


@pytest.mark.parametrize("file", ["", "../escape", "sub/file", "/absolute"])
def test_a_snapshot_names_a_file_of_its_folder(file: str) -> None:
    with pytest.raises(ReportError, match="file name"):
        believed(made(file=file), progress_at(2), agreed_on("good", 2))


def test_a_snapshot_off_the_chain_known_already_or_in_doubt_is_of_no_use() -> None:
    progress, replicas = progress_at(2), agreed_on("good", 2)
    assert believed(made(row_hash=b"other"), progress, replicas) is None
    assert believed(made(iteration=9), progress, replicas) is None
    assert believed(made(), progress, Replicas(2)) is None
    progress.snapshots[2] = StoredSnapshot(2, b"hash 2", "good", "two")
    assert believed(made(), progress, replicas) is None
