"""How the loop of a worker comes by its weights, proves them and writes them down as snapshots."""

import errno
import logging
from pathlib import Path

import numpy as np
import pytest

from dartes.checkpoint import read_snapshot
from dartes.errors import ExitCode, TransientError
from dartes.v1 import population_pb2 as wire
from dartes_worker.agent import ServedWeightsError
from dartes_worker.engines.base import Segment, ServedValues
from dartes_worker.master import MasterWeights
from dartes_worker.setup import Equipment
from dartes_worker.snapshots import snapshot_path

from . import scripted
from .scripted import (
    BATCH,
    DONE,
    HASHES,
    ScriptedClient,
    agent_of,
    apply,
    digest_after,
    rebuild,
    snapshot,
    snapshot_of,
)


def test_updates_are_applied_page_by_page_and_attested(equipment: Equipment, tmp_path: Path) -> None:
    client = ScriptedClient(apply(3), apply(4), DONE)
    client.page = 1
    agent_of(client, equipment, tmp_path).run()
    assert [asked for asked, _ in client.asked] == [0, 3, 4]
    assert client.attested[1:] == [(k, digest_after(equipment, k), False) for k in (3, 4)]


def test_rows_that_do_not_hash_to_the_coordinators_chain_are_a_bug(
    equipment: Equipment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted, "HASHES", (HASHES[0], b"x" * 32, *HASHES[2:]))
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


@pytest.mark.parametrize("kind", ["flipped", "cut", "of another run"])
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
    else:
        newest.row_hash = b"x" * 32
    agent_of(client, equipment, tmp_path).run()
    assert client.attested == [(1, digest_after(equipment, 1), True)]
    assert newest.file in caplog.text


def test_a_snapshot_that_another_worker_keeps_is_passed_over_without_a_warning(
    equipment: Equipment, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = ScriptedClient(DONE)
    older, newest = (snapshot_of(equipment, tmp_path, k) for k in (1, 3))
    client.snapshots = [older, newest]
    (tmp_path / newest.file).unlink()
    agent_of(client, equipment, tmp_path).run()
    assert client.attested == [(1, digest_after(equipment, 1), True)]
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == []


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


def test_a_late_snapshot_leaves_later_ones_that_the_coordinator_knows(
    equipment: Equipment, tmp_path: Path
) -> None:
    client = ScriptedClient(apply(2), snapshot("1-7", 2), DONE)
    known, lost = (snapshot_path(tmp_path, iteration) for iteration in (3, 4))
    known.touch()
    lost.touch()
    client.snapshots = [wire.SnapshotInfo(iteration=3, row_hash=HASHES[2], file=known.name)]
    agent_of(client, equipment, tmp_path).run()
    assert sorted(path.name for path in tmp_path.iterdir()) == [snapshot_path(tmp_path, 2).name, known.name]


def test_a_full_disk_under_a_snapshot_is_worth_another_try(
    equipment: Equipment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(MasterWeights, "write_snapshot", full)
    with pytest.raises(TransientError, match="the disk is full"):
        agent_of(ScriptedClient(snapshot("1-1", 0)), equipment, tmp_path).run()
