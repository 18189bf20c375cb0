"""The loop of a worker, driven by a coordinator that follows a script."""

import errno
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from dartes.checkpoint import read_snapshot
from dartes.errors import ExitCode, TransientError
from dartes.ids import Iteration
from dartes.journal import JournalRow, chain
from dartes.noise import ServedDtype
from dartes.rpc.encoding import unpack_bits
from dartes.v1 import population_pb2 as wire
from dartes_worker.agent import REFUSALS_BEFORE_GIVING_UP, Agent, ServedWeightsError
from dartes_worker.client import CoordinatorClient, IncarnationOverError, ReportRefusedError
from dartes_worker.engines.base import Segment, ServedValues
from dartes_worker.evaluate import Sampling, evaluate
from dartes_worker.master import MasterWeights
from dartes_worker.setup import Equipment
from dartes_worker.timing import Stopwatch

HEADER = b"the journal's header"
START = hashlib.sha256(HEADER).digest()
ROWS = [
    JournalRow(Iteration(k), 0, np.array([k, k + 10], np.uint64), np.array([1e-3, -2e-3], np.float32))
    for k in range(4)
]
HASHES = chain(START, ROWS)
DONE = wire.LeaseResponse(done=wire.DoneAction())
BATCH = [3, 1, 4, 15, 9, 2, 6, 5, 30, 29, 28, 27]


class ScriptedClient:
    """A client whose coordinator has a list of actions, and remembers what it was told."""

    worker = "worker-0"

    def __init__(self, *script: wire.LeaseResponse | Exception | None) -> None:
        self.script = list(script)
        self.snapshots: list[wire.SnapshotInfo] = []
        self.registered: list[wire.RegisterRequest] = []
        self.asked: list[tuple[int, int]] = []
        self.attested: list[tuple[int, str, bool]] = []
        self.reports: list[tuple[str, int, wire.EvaluateResult | wire.SnapshotResult]] = []
        self.refusals: list[Exception | None] = []
        self.questions: list[tuple[int, int]] = []
        self.carried: list[wire.LeaseResponse | None] = []
        self.page = 2
        self.interrupted = False
        self.before_lease: Callable[[], None] = lambda: None

    def register(self, request: wire.RegisterRequest) -> wire.RegisterResponse:
        self.registered.append(request)
        return wire.RegisterResponse(incarnation=1, journal_header=HEADER, snapshots=self.snapshots)

    def lease(self, weights: wire.WeightsVersion, known_batch: int) -> wire.LeaseResponse | None:
        self.before_lease()
        self.asked.append((weights.iteration, known_batch))
        action = self.script.pop(0)
        if isinstance(action, Exception):
            raise action
        return action

    def updates(self, start: int, limit: int) -> wire.UpdatesResponse:
        rows = [
            wire.UpdateRow(
                iteration=row.iteration,
                seeds=row.seeds.tolist(),
                coefficients=row.coefficients.tolist(),
                row_hash=HASHES[row.iteration],
            )
            for row in ROWS[start : start + min(self.page, limit)]
        ]
        return wire.UpdatesResponse(rows=rows)

    def question(self, weights: wire.WeightsVersion, known_batch: int) -> wire.LeaseRequest:
        return wire.LeaseRequest(worker=self.worker, weights=weights, known_batch=known_batch)

    def report(
        self, lease_id: str, iteration: int, _timings: wire.Timings, **result: Any
    ) -> wire.ReportResponse:
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None:
            raise refusal
        question = result.pop("next")
        ((_, content),) = result.items()
        self.reports.append((lease_id, iteration, content))
        self.questions.append((question.weights.iteration, question.known_batch))
        carried = self.carried.pop(0) if self.carried else None
        return wire.ReportResponse(accepted=True, next=carried)

    def attest(self, weights: wire.WeightsVersion, digest: str, rebuilt: bool) -> None:
        self.attested.append((weights.iteration, digest, rebuilt))

    def interrupt(self) -> None:
        self.interrupted = True


def agent_of(client: ScriptedClient, equipment: Equipment, snapshots: Path) -> Agent:
    """An agent of a scripted coordinator."""
    return Agent(cast("CoordinatorClient", client), equipment, snapshots)


def member(
    lease_id: str, *, seed: int = 5, sigma: float = 0.003, problems: Sequence[int] = (), **fields: Any
) -> wire.LeaseResponse:
    """A lease of a member; with `problems` where the worker does not know the batch yet."""
    lease = wire.EvaluateLease(
        lease_id=lease_id,
        kind=wire.EVALUATE_KIND_MEMBER,
        seed=seed,
        sigma=sigma,
        problems=problems,
        **{"slices": 1, "member": 2, **fields},
    )
    return wire.LeaseResponse(evaluate=lease)


def apply(iteration: int) -> wire.LeaseResponse:
    """The order to catch up."""
    return wire.LeaseResponse(apply=wire.ApplyAction(up_to_iteration=iteration))


def rebuild() -> wire.LeaseResponse:
    """The order to build the weights anew."""
    return wire.LeaseResponse(rebuild=wire.RebuildAction(reason="doubt"))


def snapshot(lease_id: str, iteration: int) -> wire.LeaseResponse:
    """The order to write the weights down."""
    return wire.LeaseResponse(snapshot=wire.SnapshotLease(lease_id=lease_id, iteration=iteration))


def weights_after(equipment: Equipment, iterations: int) -> MasterWeights:
    """The base model's weights with so many rows of the journal applied."""
    master = MasterWeights.load(equipment.checkpoint, ServedDtype.FLOAT32, START)
    master.apply(ROWS[:iterations])
    return master


def digest_after(equipment: Equipment, iterations: int) -> str:
    """Their digest."""
    return weights_after(equipment, iterations).digest().total


def snapshot_of(equipment: Equipment, folder: Path, iteration: int) -> wire.SnapshotInfo:
    """Write the snapshot that an earlier worker would have written."""
    path = folder / f"iteration-{iteration:08d}.safetensors"
    master = weights_after(equipment, iteration)
    digest = master.write_snapshot(path).total
    return wire.SnapshotInfo(
        iteration=iteration, row_hash=master.version.row_hash, digest=digest, file=path.name
    )


def test_a_new_worker_attests_the_base_model_and_leaves_when_the_run_is_done(
    equipment: Equipment, tmp_path: Path
) -> None:
    client = ScriptedClient(DONE)
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    assert client.attested == [(0, digest_after(equipment, 0), True)]
    assert not client.registered[0].HasField("weights"), "it has none yet"


def test_a_member_is_answered_with_its_own_weights(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(member("1-1", problems=BATCH), DONE)
    agent_of(client, equipment, tmp_path).run()
    ((lease_id, iteration, result),) = client.reports
    master = weights_after(equipment, 0)
    master.write(equipment.engine.segments(), 5, 0.003)
    equipment.engine.weights_changed()
    sampling = Sampling(7, 0, 2)
    expected = evaluate(equipment.engine, equipment.train, BATCH, 0, 1, sampling, Stopwatch())
    assert isinstance(result, wire.EvaluateResult)
    assert (lease_id, iteration, result.member) == ("1-1", 0, 2)
    assert unpack_bits(result.passed, len(BATCH)).tolist() == expected.passed.tolist()


def test_the_batch_is_told_once_and_remembered(equipment: Equipment, tmp_path: Path) -> None:
    slices = [member(f"1-{k}", slice=k, slices=3, problems=BATCH if k == 0 else ()) for k in range(3)]
    client = ScriptedClient(*slices, DONE)
    agent_of(client, equipment, tmp_path).run()
    assert [known for _, known in client.asked] == [0, 1, 1, 1]
    positions = [p for _, _, r in client.reports if isinstance(r, wire.EvaluateResult) for p in r.positions]
    assert sorted(positions) == list(range(len(BATCH))), "the slices cover the batch once"


def test_a_lease_that_comes_with_the_reply_to_a_report_is_not_asked_for(
    equipment: Equipment, tmp_path: Path
) -> None:
    client = ScriptedClient(member("1-1", problems=BATCH), DONE)
    client.carried = [member("1-2", seed=6), None]
    assert agent_of(client, equipment, tmp_path).run() == ExitCode.DONE
    assert [lease_id for lease_id, _, _ in client.reports] == ["1-1", "1-2"]
    assert client.questions == [(0, 1), (0, 1)]
    assert client.asked == [(0, 0), (0, 1)]


def test_a_batch_that_it_was_not_told_makes_it_register_again(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(member("1-1"), member("1-2", problems=BATCH), DONE)
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    assert [request.HasField("weights") for request in client.registered] == [False, True]
    assert [lease_id for lease_id, _, _ in client.reports] == ["1-2"]
    assert [rebuilt for _, _, rebuilt in client.attested] == [True, False], "its weights are still good"


def test_a_restarted_coordinator_is_registered_with_again(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(apply(2), IncarnationOverError("incarnation 1 is over"), DONE)
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    assert client.registered[1].weights.iteration == 2
    assert client.registered[1].weights.row_hash == HASHES[1]


def test_an_evaluation_block_is_answered_by_the_parent(equipment: Equipment, tmp_path: Path) -> None:
    lease = wire.EvaluateLease(
        lease_id="1-1",
        kind=wire.EVALUATE_KIND_HELD_OUT,
        evaluation_set="held-out",
        first_row=4,
        row_count=8,
    )
    client = ScriptedClient(wire.LeaseResponse(evaluate=lease), DONE)
    agent_of(client, equipment, tmp_path).run()
    ((_, _, result),) = client.reports
    weights_after(equipment, 0).write(equipment.engine.segments(), 0, 0.0)
    equipment.engine.weights_changed()
    expected = evaluate(
        equipment.engine,
        equipment.held_out["held-out"],
        range(4, 12),
        0,
        1,
        Sampling(7, 0, 2**16 - 1),
        Stopwatch(),
    )
    assert isinstance(result, wire.EvaluateResult)
    assert (result.evaluation_set, result.first_row, result.row_count) == ("held-out", 4, 8)
    assert unpack_bits(result.passed, 8).tolist() == expected.passed.tolist()


def test_updates_are_applied_page_by_page_and_attested(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(apply(3), apply(4), DONE)
    client.page = 1
    agent_of(client, equipment, tmp_path).run()
    assert [asked for asked, _ in client.asked] == [0, 3, 4]
    assert client.attested[1:] == [(k, digest_after(equipment, k), False) for k in (3, 4)]


def test_rows_that_do_not_hash_to_the_coordinators_chain_are_a_bug(
    equipment: Equipment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "HASHES", (HASHES[0], b"x" * 32, *HASHES[2:]))
    with pytest.raises(ServedWeightsError, match="do not hash to what the coordinator says") as caught:
        agent_of(ScriptedClient(apply(2)), equipment, tmp_path).run()
    assert caught.value.exit_code == ExitCode.BUG


def test_told_to_rebuild_it_starts_from_the_base_model_and_says_so(
    equipment: Equipment, tmp_path: Path
) -> None:
    client = ScriptedClient(apply(2), rebuild(), apply(2), DONE)
    agent_of(client, equipment, tmp_path).run()
    base, second = digest_after(equipment, 0), digest_after(equipment, 2)
    assert client.attested == [(0, base, True), (2, second, False), (0, base, True), (2, second, False)]


def test_a_rebuild_writes_the_engine_anew_even_where_it_seems_to_hold_the_right_weights(
    equipment: Equipment, tmp_path: Path
) -> None:
    """The weights in doubt have the same version, and the parent was the last that was written."""
    parent = wire.EvaluateLease(lease_id="1-1", kind=wire.EVALUATE_KIND_PARENT, slices=1, problems=BATCH)
    client = ScriptedClient(wire.LeaseResponse(evaluate=parent), rebuild(), DONE)

    def damage() -> None:
        if len(client.script) == 2:  # after the parent's answers
            storage = equipment.engine.segments()[0].storage
            assert isinstance(storage, np.ndarray)
            storage[0] += 1

    client.before_lease = damage
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE


def test_the_newest_snapshot_shortens_the_way(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(apply(4), DONE)
    client.snapshots = [snapshot_of(equipment, tmp_path, k) for k in (1, 3, 2)]
    agent_of(client, equipment, tmp_path).run()
    assert client.asked[0] == (3, 0)
    assert client.attested == [(3, digest_after(equipment, 3), True), (4, digest_after(equipment, 4), False)]


@pytest.mark.parametrize("kind", ["flipped", "cut", "gone", "of another run"])
def test_a_snapshot_that_cannot_be_trusted_is_passed_over(
    equipment: Equipment, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = ScriptedClient(DONE)
    older, newest = (snapshot_of(equipment, tmp_path, k) for k in (1, 3))
    client.snapshots = [older, newest]
    path = tmp_path / newest.file
    content = bytearray(path.read_bytes())
    if kind == "flipped":
        content[-1] ^= 1
        path.write_bytes(content)
    elif kind == "cut":
        path.write_bytes(content[:-100])
    elif kind == "gone":
        path.unlink()
    else:
        newest.row_hash = b"x" * 32
    agent_of(client, equipment, tmp_path).run()
    assert client.attested == [(1, digest_after(equipment, 1), True)]
    assert newest.file in caplog.text


def test_without_any_good_snapshot_the_base_model_is_the_start(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(DONE)
    client.snapshots = [wire.SnapshotInfo(iteration=3, row_hash=HASHES[2], file="none.safetensors")]
    agent_of(client, equipment, tmp_path).run()
    assert client.attested == [(0, digest_after(equipment, 0), True)]


class Packed:
    """Served memory of an engine that keeps its weights scaled: what is written is not what is read."""

    def __init__(self, storage: ServedValues) -> None:
        self._storage = storage

    def write(self, offset: int, values: ServedValues) -> None:
        self._storage[offset : offset + len(values)] = values * np.float32(0.5)

    def read(self, offset: int, count: int) -> ServedValues:
        return self._storage[offset : offset + count]


def test_an_engine_that_packs_its_weights_is_found_before_it_answers(
    equipment: Equipment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = equipment.engine.segments()
    assert isinstance(first.storage, np.ndarray)
    packed = Segment(first.name, first.start, first.count, Packed(first.storage))
    monkeypatch.setattr(equipment.engine, "segments", lambda: [packed, *others])
    client = ScriptedClient(DONE)
    words = r"the engine reads weights with digest \w+, \w+ was written"
    with pytest.raises(ServedWeightsError, match=words):
        agent_of(client, equipment, tmp_path).run()
    assert client.attested == [], "weights that are not served are not attested"


def test_a_snapshot_is_written_and_reported(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(apply(2), snapshot("1-7", 2), DONE)
    agent_of(client, equipment, tmp_path / "snapshots").run()
    ((lease_id, iteration, result),) = client.reports
    assert isinstance(result, wire.SnapshotResult)
    written = read_snapshot(tmp_path / "snapshots" / result.file)
    assert (lease_id, iteration, written.iteration) == ("1-7", 2, 2)
    assert written.row_hash == result.row_hash == HASHES[1]
    assert written.digest == result.digest == digest_after(equipment, 2)


def test_a_full_disk_under_a_snapshot_is_worth_another_try(
    equipment: Equipment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(MasterWeights, "write_snapshot", full)
    with pytest.raises(TransientError, match="the disk is full"):
        agent_of(ScriptedClient(snapshot("1-1", 0)), equipment, tmp_path).run()


def test_told_to_drain_it_leaves(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(wire.LeaseResponse(drain=wire.DrainAction()))
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DRAINED


def test_a_signal_lets_it_finish_its_lease_and_ends_its_waiting(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(member("1-1", problems=BATCH), None)
    agent = agent_of(client, equipment, tmp_path)
    client.before_lease = agent.drain
    assert agent.run() is ExitCode.DRAINED
    assert [lease_id for lease_id, _, _ in client.reports] == ["1-1"]
    assert client.interrupted
    assert len(client.asked) == 1


def test_an_empty_wait_asks_again(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(wire.LeaseResponse(wait=wire.WaitAction()), None, DONE)
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    assert len(client.asked) == 3


def test_refused_reports_end_it_when_they_come_in_a_row(equipment: Equipment, tmp_path: Path) -> None:
    refusal = ReportRefusedError("positions 1..2 were covered by another slice")
    leases = [member(f"1-{k}", problems=BATCH) for k in range(6)]
    client = ScriptedClient(*leases, DONE)
    client.refusals = [refusal, refusal, None, refusal, refusal, None]
    assert agent_of(client, equipment, tmp_path).run() is ExitCode.DONE
    client = ScriptedClient(*leases)
    client.refusals = [refusal] * REFUSALS_BEFORE_GIVING_UP
    with pytest.raises(ReportRefusedError):
        agent_of(client, equipment, tmp_path).run()
    assert len(client.asked) == REFUSALS_BEFORE_GIVING_UP


def test_the_same_member_is_written_once_for_all_its_slices(
    equipment: Equipment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[int, float]] = []
    write = MasterWeights.write

    def noted(self: MasterWeights, segments: Sequence[Segment], seed: int, sigma: float) -> None:
        written.append((seed, sigma))
        write(self, segments, seed, sigma)

    monkeypatch.setattr(MasterWeights, "write", noted)
    script = [
        member("1-1", problems=BATCH, sigma=0.5, slices=2),
        member("1-2", sigma=0.5, slice=1, slices=2),
        member("1-3", sigma=-0.5),
        apply(1),
        member("1-4", sigma=-0.5, problems=BATCH, iteration=1),
    ]
    agent_of(ScriptedClient(*script, DONE), replace(equipment), tmp_path).run()
    assert written == [(0, 0.0), (5, 0.5), (5, -0.5), (5, -0.5)], "other weights are another member"
