"""A shard's bits are those of the whole, however the elements are spread over ranks, rows and tensors."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dartes.checkpoint import (
    SnapshotError,
    digest_arrays,
    read_snapshot,
    weight_digest,
    write_snapshot_with,
)
from dartes.ids import Iteration
from dartes.journal import JournalRow, replay_onto
from dartes.noise import ServedDtype, tensor_id
from dartes.noise.kernel import write_member
from dartes_worker.weights.host import HostMemory
from dartes_worker.weights.shard import Shard, totals
from dartes_worker.weights.stretch import Stretch

SHAPES = [("down", (6, 40)), ("norm", (40,)), ("up", (40, 6))]
ROWS = [
    JournalRow(Iteration(k), 0, np.array([k, 7 + k], np.uint64), np.array([0.01, -0.02], np.float32))
    for k in range(3)
]


class Source:
    """Weights in memory."""

    def __init__(self) -> None:
        random = np.random.default_rng(3)
        self.tensors = {
            name: random.normal(0, 0.02, int(np.prod(shape))).astype(np.float32) for name, shape in SHAPES
        }

    def read_f32(self, name: str, start: int, count: int) -> NDArray[np.float32]:
        return self.tensors[name][start : start + count].copy()


def ranks() -> list[list[Stretch]]:
    """Two ranks: `down` cut by columns, `up` by rows and fused behind `norm`, which both hold."""
    found = []
    for rank in range(2):
        columns = Stretch("down", "a", 20 * rank, 2, 20, rows=6, source_step=40, target_step=24)
        norm = Stretch("norm", "b", 0, 0, 40, owned=rank == 0)
        rows = Stretch("up", "b", 120 * rank, 40, 120)
        found.append([columns, norm, rows])
    return found


def shard_of(
    stretches: Sequence[Stretch], served: ServedDtype, dtype: torch.dtype, threads: int = 1
) -> tuple[Shard, dict[str, torch.Tensor]]:
    flat = {"a": torch.full((146,), 9.0, dtype=dtype), "b": torch.full((165,), 9.0, dtype=dtype)}
    return Shard({name: HostMemory(one, served) for name, one in flat.items()}, stretches, threads), flat


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("served", "dtype"),
    [
        (ServedDtype.BFLOAT16, torch.bfloat16),
        (ServedDtype.FLOAT16, torch.float16),
        (ServedDtype.FLOAT32, torch.float32),
        (ServedDtype.BFLOAT16, torch.float32),  # a tensor that the model keeps in float32
    ],
)
def test_ranks_together_are_the_whole(served: ServedDtype, dtype: torch.dtype, threads: int) -> None:
    source = Source()
    shards = [shard_of(stretches, served, dtype, threads) for stretches in ranks()]
    for shard, _ in shards:
        shard.load(source)
        shard.update([row.update() for row in ROWS])
        shard.write(0, 0.0)
    whole = {name: array.copy() for name, array in source.tensors.items()}
    replay_onto(whole, ROWS)
    names = [name for name, _ in SHAPES]
    digest = weight_digest(SHAPES, totals([shard.digest() for shard, _ in shards], names))
    assert digest == digest_arrays(SHAPES, whole)
    rounded = totals([shard.digest_rounded() for shard, _ in shards], names)
    assert rounded == totals([shard.digest_served() for shard, _ in shards], names)
    for shard, _ in shards:
        shard.write(5, 0.01)
    assert rounded != totals([shard.digest_served() for shard, _ in shards], names)


def test_a_member_lies_where_the_stretches_say_and_nothing_else_is_touched() -> None:
    source = Source()
    for rank, stretches in enumerate(ranks()):
        shard, flat = shard_of(stretches, ServedDtype.BFLOAT16, torch.bfloat16)
        shard.load(source)
        shard.write(11, 0.003)
        wanted = {}
        for name, _ in SHAPES:
            out = np.empty(source.tensors[name].size, np.uint16)
            write_member(source.tensors[name], out, ServedDtype.BFLOAT16, 11, tensor_id(name), 0, 0.003)
            wanted[name] = out
        bits = {name: one.view(torch.int16).numpy().view(np.uint16) for name, one in flat.items()}
        columns = bits["a"][2:].reshape(6, 24)[:, :20]
        assert np.array_equal(columns, wanted["down"].reshape(6, 40)[:, 20 * rank : 20 * rank + 20])
        assert np.array_equal(bits["b"][:40], wanted["norm"])
        assert np.array_equal(bits["b"][40:160], wanted["up"][120 * rank : 120 * rank + 120])
        nine = torch.tensor([9.0], dtype=torch.bfloat16).view(torch.int16).numpy().view(np.uint16)[0]
        assert (bits["a"][:2] == nine).all()
        assert (bits["a"][2:].reshape(6, 24)[:, 20:] == nine).all()
        assert (bits["b"][160:] == nine).all()


def test_ranks_write_one_snapshot_together(tmp_path: Path) -> None:
    source = Source()
    shards = [shard_of(stretches, ServedDtype.FLOAT32, torch.float32)[0] for stretches in ranks()]
    for shard in shards:
        shard.load(source)
    digest = digest_arrays(SHAPES, source.tensors)
    for path, parts in ((tmp_path / "both", shards), (tmp_path / "half", shards[:1])):
        write_snapshot_with(
            path,
            Iteration(3),
            b"r" * 32,
            SHAPES,
            digest,
            lambda file, offsets, parts=parts: [part.write_values(file, offsets) for part in parts],  # type: ignore[arg-type, misc]
        )
    assert read_snapshot(tmp_path / "both").digest == digest.total
    with pytest.raises(SnapshotError, match="truncated"):
        read_snapshot(tmp_path / "half")


def test_rows_of_a_stretch_are_cut_before_they_reach_the_host_kernels() -> None:
    memory = HostMemory(torch.zeros(64), ServedDtype.FLOAT32)
    stretch = Stretch("w", "a", 0, 0, 4, rows=2, source_step=8, target_step=8)
    with pytest.raises(ValueError, match="cut the stretch into pieces"):
        memory.digest(stretch, 1)
    assert list(stretch.pieces(3)) == [
        replace(stretch.row(0), length=3),
        replace(stretch.row(0), start=3, offset=3, length=1),
        replace(stretch.row(1), length=3),
        replace(stretch.row(1), start=11, offset=11, length=1),
    ]


def test_a_copy_that_another_rank_owns_is_looked_at_too() -> None:
    shard, flat = shard_of(ranks()[1], ServedDtype.BFLOAT16, torch.bfloat16)
    shard.load(Source())
    shard.write(0, 0.0)
    assert shard.copies_agree()
    flat["b"][0] += 1  # in `norm`, which the first rank owns
    assert not shard.copies_agree()
