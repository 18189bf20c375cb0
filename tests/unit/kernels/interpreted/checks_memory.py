"""Served tensors on a device: both placements of the master behave as the one in host memory, bit for bit."""

import numpy as np
import pytest
import torch

from dartes.noise import ServedDtype
from dartes_worker.weights.device import DeviceMemory
from dartes_worker.weights.host import HostMemory
from dartes_worker.weights.memory import ServedMemory
from dartes_worker.weights.streamed import Staging, StreamedMemory
from dartes_worker.weights.stretch import Stretch
from tests.unit.kernels.interpreted.kit import (
    KEY,
    SEED,
    SIZE,
    STRETCHES,
    row_of,
    same_bits,
    served_tensor,
    stretch,
    weights,
)

ROWS = [row_of(1e-3, -2e-3), row_of(0.0), row_of(5e-4, seed=9)]
PARTS = [
    *(STRETCHES[name] for name in ("all but the ends", "aligned rows", "columns", "long rows")),
    stretch(7, 0, 1, rows=20, source_step=3, target_step=5),
]


def placed(kind: str, flat: torch.Tensor, served: ServedDtype) -> ServedMemory:
    """A memory on a "device"; streamed through room for 1536 elements, less than most stretches."""
    if kind == "device":
        return DeviceMemory(flat, served)
    return StreamedMemory(flat, served, Staging(flat.device, 6144))


def digests(memory: ServedMemory, part: Stretch) -> list[int]:
    return [
        memory.digest(part, KEY) % 2**64,
        memory.digest_rounded(part, KEY) % 2**64,
        memory.digest_served(part, KEY) % 2**64,
    ]


@pytest.mark.parametrize(("part", "wide"), [*((part, False) for part in PARTS), (STRETCHES["columns"], True)])
@pytest.mark.parametrize("kind", ["device", "streamed"])
def test_a_placement_does_what_the_host_does(kind: str, wide: bool, part: Stretch) -> None:
    served = ServedDtype.BFLOAT16
    flat, by_host = served_tensor(served, wide), served_tensor(served, wide)
    memory, host = placed(kind, flat, served), HostMemory(by_host, served)
    # A NaN among values that are kept in float32 is widened by the host's library as it likes.
    values = np.nan_to_num(weights(), nan=1.0, posinf=2.0, neginf=-2.0)
    rows = list(part.pieces(10**9))
    memory.fill(0, values)
    host.fill(0, values)
    memory.write(part, KEY, SEED, 1e-3)
    for row in rows:
        host.write(row, KEY, SEED, 1e-3)
    assert same_bits(flat, by_host)
    memory.update(part, KEY, ROWS)
    for row in rows:
        host.update(row, KEY, ROWS)
    assert np.array_equal(memory.read(0, SIZE).view(np.uint32), host.read(0, SIZE).view(np.uint32))
    by_host_digests = [
        sum(column) % 2**64 for column in zip(*(digests(host, row) for row in rows), strict=True)
    ]
    assert digests(memory, part) == by_host_digests
    memory.write(part, KEY, SEED, 0.0)
    _, expected, found = digests(memory, part)
    assert expected == found


@pytest.mark.parametrize("kind", ["device", "streamed"])
def test_many_writes_leave_the_master_as_it_is(kind: str) -> None:
    flat = served_tensor(ServedDtype.FLOAT16, wide=False, size=640)
    memory = placed(kind, flat, ServedDtype.FLOAT16)
    part = stretch(3, 0, 640)
    memory.fill(0, weights(640))
    before = digests(memory, part)[:2]
    for seed in range(50):
        memory.write(part, KEY, seed, 1e-3)
    assert digests(memory, part)[:2] == before
    memory.write(part, KEY, 0, 0.0)
    assert memory.digest_served(part, KEY) == before[1]


@pytest.mark.parametrize("kind", ["device", "streamed"])
def test_a_part_of_the_master_is_set_and_read_alone(kind: str) -> None:
    memory = placed(kind, served_tensor(ServedDtype.BFLOAT16, wide=False, size=64), ServedDtype.BFLOAT16)
    frozen = np.arange(20, dtype=np.float32)[::2]
    frozen.flags.writeable = False
    memory.fill(30, frozen)
    assert np.array_equal(memory.read(29, 12), [0, *range(0, 20, 2), 0])
    copy = memory.read(30, 10)
    copy[:] = -1
    assert np.array_equal(memory.read(30, 10), frozen)


@pytest.mark.parametrize("kind", ["device", "streamed"])
def test_what_lies_outside_the_tensor_is_refused(kind: str) -> None:
    flat = served_tensor(ServedDtype.BFLOAT16, wide=False, size=64)
    memory = placed(kind, flat, ServedDtype.BFLOAT16)
    outside = stretch(0, 60, 5)
    with pytest.raises(ValueError, match="64 elements"):
        memory.write(outside, KEY, SEED, 1e-3)
    with pytest.raises(ValueError, match="64 elements"):
        memory.update(outside, KEY, ROWS)
    with pytest.raises(ValueError, match="64 elements"):
        memory.digest(outside, KEY)
    with pytest.raises(ValueError, match="with 64"):
        memory.fill(60, np.zeros(5, np.float32))
    with pytest.raises(ValueError, match="with 64"):
        memory.read(-1, 5)
    with pytest.raises(ValueError, match="float32"):
        memory.fill(0, np.zeros(5))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="can't hold float16"):
        placed(kind, flat, ServedDtype.FLOAT16)
    with pytest.raises(ValueError, match="flat"):
        placed(kind, flat.view(8, 8), ServedDtype.BFLOAT16)
