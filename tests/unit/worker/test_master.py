"""The master weights: exact loading and updating, members written in place, attested, and never disturbed."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from dartes.checkpoint import Checkpoint, SnapshotError, digest_arrays, open_checkpoint
from dartes.ids import Iteration
from dartes.journal import JournalError, JournalRow, chain, shapes_of
from dartes.noise import ServedDtype, reference, tensor_id
from dartes_worker.engines.base import Segment, ServedValues
from dartes_worker.master import MasterWeights, Version

SIZES = {"a.weight": (40, 50), "b.bias": (7,), "c": ()}
HEADER_HASH = bytes(range(32))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    generator = torch.Generator().manual_seed(2)
    tensors = {name: torch.randn(shape, generator=generator).bfloat16() for name, shape in SIZES.items()}
    (tmp_path / "base").mkdir()
    save_file(tensors, tmp_path / "base" / "model.safetensors")
    return open_checkpoint(tmp_path / "base")


def rows(count: int, members: int = 5) -> list[JournalRow]:
    generator = np.random.default_rng(4)
    return [
        JournalRow(
            Iteration(k),
            0,
            generator.integers(0, 2**64, members, dtype=np.uint64),
            generator.standard_normal(members).astype(np.float32) * np.float32(1e-3),
        )
        for k in range(count)
    ]


def loaded(
    checkpoint: Checkpoint, served: ServedDtype = ServedDtype.BFLOAT16, threads: int = 1
) -> MasterWeights:
    return MasterWeights.load(checkpoint, served, HEADER_HASH, threads)


def contents(master: MasterWeights) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in master.tensors.items()}


class Staged:
    """A segment's memory that can't be viewed, as on a device."""

    def __init__(self, values: ServedValues) -> None:
        self.values = values
        self.largest = 0

    def write(self, offset: int, values: ServedValues) -> None:
        self.values[offset : offset + len(values)] = values
        self.largest = max(self.largest, len(values))

    def read(self, offset: int, count: int) -> ServedValues:
        return self.values[offset : offset + count].copy()


def segments_of(master: MasterWeights, cut: int, staged: bool = False) -> list[Segment]:
    """Segments of at most `cut` elements over every tensor, last ones first, holding rubbish."""
    segments: list[Segment] = []
    for name, values in master.tensors.items():
        for start in range(0, values.size, cut):
            count = min(cut, values.size - start)
            memory: ServedValues = np.full(count, 77, dtype=master.served.storage)
            segments.append(Segment(name, start, count, Staged(memory) if staged else memory))
    return segments[::-1]


def served_values(segments: list[Segment]) -> dict[str, bytes]:
    parts: dict[str, list[tuple[int, bytes]]] = {}
    for segment in segments:
        memory = segment.storage.values if isinstance(segment.storage, Staged) else segment.storage
        assert isinstance(memory, np.ndarray)
        parts.setdefault(segment.name, []).append((segment.start, memory.tobytes()))
    return {name: b"".join(raw for _, raw in sorted(pieces)) for name, pieces in parts.items()}


def test_loading_gives_the_base_weights_and_the_first_version(checkpoint: Checkpoint) -> None:
    master = loaded(checkpoint)
    assert master.version == Version(Iteration(0), HEADER_HASH)
    for name, values in master.tensors.items():
        assert values.dtype == np.float32
        assert values.tobytes() == checkpoint.read_f32(name, 0, values.size).tobytes()
    assert master.digest() == digest_arrays(shapes_of(checkpoint), master.tensors)


@pytest.mark.parametrize("steps", [[6], [1] * 6, [2, 4], [0, 5, 0, 1]])
@pytest.mark.parametrize("threads", [1, 2])
def test_updates_give_the_same_bits_in_any_steps(
    checkpoint: Checkpoint, steps: list[int], threads: int
) -> None:
    master = loaded(checkpoint, threads=threads)
    expected = loaded(checkpoint).tensors
    for row in rows(6):
        for name, values in expected.items():
            reference.apply_updates(values, tensor_id(name), 0, [row.update()])
    done = 0
    for step in steps:
        master.apply(rows(6)[done : done + step])
        done += step
    assert contents(master) == {name: values.tobytes() for name, values in expected.items()}
    assert master.version == Version(Iteration(6), chain(HEADER_HASH, rows(6))[-1])


def test_a_row_out_of_order_is_refused_and_changes_nothing(checkpoint: Checkpoint) -> None:
    master = loaded(checkpoint)
    master.apply(rows(2))
    before, version = contents(master), master.version
    for wrong in ([rows(4)[3]], rows(1), [rows(4)[2], rows(5)[4]]):
        with pytest.raises(JournalError, match="can't be applied to weights at"):
            master.apply(wrong)
    assert contents(master) == before
    assert master.version == version


@pytest.mark.parametrize("served", ServedDtype)
@pytest.mark.parametrize("cut", [1_000_000, 64, 13])
@pytest.mark.parametrize("staged", [False, True])
def test_a_member_is_written_whatever_the_segments(
    checkpoint: Checkpoint, served: ServedDtype, cut: int, staged: bool
) -> None:
    master = loaded(checkpoint, served, threads=2)
    master.apply(rows(1))
    segments = segments_of(master, cut, staged)
    for seed, sigma in ((2**64 - 1, 0.01), (5, -0.01), (9, 0.0)):
        master.write(segments, seed, sigma)
        for name, raw in served_values(segments).items():
            values = master.tensors[name]
            out: ServedValues = np.empty(values.size, dtype=served.storage)
            reference.write_member(values, out, served, seed, tensor_id(name), 0, np.float32(sigma))
            assert raw == out.tobytes(), name


def test_writing_members_leaves_the_master_untouched_and_the_parent_comes_back(
    checkpoint: Checkpoint,
) -> None:
    master = loaded(checkpoint)
    master.apply(rows(3))
    segments = segments_of(master, 100)
    before = contents(master)
    master.write(segments, 0, 0.0)
    parent = served_values(segments)
    for seed in range(1000):
        master.write(segments, seed, 0.05)
    assert served_values(segments) != parent
    master.write(segments, 0, 0.0)
    assert served_values(segments) == parent
    assert contents(master) == before


@pytest.mark.parametrize("staged", [False, True])
def test_a_segment_of_many_pieces_is_written_bit_for_bit(staged: bool) -> None:
    size = 2**21 + 77
    values = np.random.default_rng(3).standard_normal(size, dtype=np.float32)
    version = Version(Iteration(0), HEADER_HASH)
    master = MasterWeights([("w", (size,))], {"w": values}, ServedDtype.BFLOAT16, version)
    segments = segments_of(master, size - 5, staged)
    master.write(segments, 8, 0.1)
    out: ServedValues = np.empty(size, dtype=np.uint16)
    reference.write_member(values, out, ServedDtype.BFLOAT16, 8, tensor_id("w"), 0, np.float32(0.1))
    assert served_values(segments) == {"w": out.tobytes()}
    master.write(segments, 0, 0.0)
    assert master.served_digest_of(segments) == master.served_digest_expected()
    if staged:
        assert max(s.storage.largest for s in segments if isinstance(s.storage, Staged)) <= 2**24


@pytest.mark.parametrize("served", ServedDtype)
@pytest.mark.parametrize("staged", [False, True])
def test_the_served_digest_tells_whether_the_engine_reads_the_parent(
    checkpoint: Checkpoint, served: ServedDtype, staged: bool
) -> None:
    master = loaded(checkpoint, served)
    master.apply(rows(2))
    segments = segments_of(master, 64, staged)
    master.write(segments, 0, 0.0)
    assert master.served_digest_of(segments) == master.served_digest_expected()
    master.write(segments, 3, 0.5)
    assert master.served_digest_of(segments).total != master.served_digest_expected().total
    master.write(segments[1:], 0, 0.0)
    differing = master.served_digest_of(segments).differing(master.served_digest_expected())
    assert differing == (segments[0].name,)


def test_a_segment_outside_its_tensor_is_refused(checkpoint: Checkpoint) -> None:
    master = loaded(checkpoint)
    memory: NDArray[np.uint16] = np.zeros(3, dtype=np.uint16)
    with pytest.raises(ValueError, match=r"'b\.bias': elements 5\.\.8 of 7"):
        master.write([Segment("b.bias", 5, 3, memory)], 0, 0.0)


def test_the_squared_distance_is_that_from_the_base(checkpoint: Checkpoint) -> None:
    master = loaded(checkpoint)
    assert master.squared_distance(checkpoint) == 0.0
    master.apply(rows(3))
    expected = sum(
        float(((values.astype(np.float64) - checkpoint.read_f32(name, 0, values.size)) ** 2).sum())
        for name, values in master.tensors.items()
    )
    assert master.squared_distance(checkpoint) == pytest.approx(expected, rel=1e-12)
    assert expected > 0


def test_a_snapshot_resumes_where_it_was_written(checkpoint: Checkpoint, tmp_path: Path) -> None:
    master = loaded(checkpoint)
    master.apply(rows(6)[:4])
    digest = master.write_snapshot(tmp_path / "s")
    resumed = MasterWeights.load_snapshot(tmp_path / "s", checkpoint, ServedDtype.BFLOAT16, threads=2)
    assert resumed.version == master.version
    assert resumed.digest() == digest == master.digest()
    for weights in (master, resumed):
        weights.apply(rows(6)[4:])
    assert contents(resumed) == contents(master)
    assert resumed.version == master.version


def test_a_damaged_snapshot_is_refused_when_it_is_loaded(checkpoint: Checkpoint, tmp_path: Path) -> None:
    loaded(checkpoint).write_snapshot(tmp_path / "s")
    raw = bytearray((tmp_path / "s").read_bytes())
    raw[-5] ^= 1
    (tmp_path / "s").write_bytes(raw)
    with pytest.raises(SnapshotError, match="damaged: the weights' digest"):
        MasterWeights.load_snapshot(tmp_path / "s", checkpoint, ServedDtype.BFLOAT16)


def test_a_snapshot_of_another_model_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    loaded(checkpoint).write_snapshot(tmp_path / "s")
    (tmp_path / "other").mkdir()
    save_file({"w": torch.ones(3)}, tmp_path / "other" / "model.safetensors")
    with pytest.raises(SnapshotError, match="of another model"):
        MasterWeights.load_snapshot(tmp_path / "s", open_checkpoint(tmp_path / "other"), ServedDtype.BFLOAT16)
