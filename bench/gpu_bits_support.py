"""The comparisons of `bench.gpu_check`: kernels on a device against the CPU kernels, bit for bit.

Every function returns what it compared, in words, and raises AssertionError where a bit differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dartes.noise import ServedDtype, kernel
from dartes.noise.reference import Served, UpdateRow
from dartes_worker.engines.storage import TORCH_DTYPES, as_numpy
from dartes_worker.kernels.digest import digest
from dartes_worker.kernels.update import apply_updates, packed
from dartes_worker.kernels.write import write_member
from dartes_worker.weights.device import DeviceMemory
from dartes_worker.weights.host import HostMemory
from dartes_worker.weights.memory import ServedMemory
from dartes_worker.weights.streamed import Staging, StreamedMemory
from dartes_worker.weights.stretch import Stretch

SEED = 0x9E3779B97F4A7C15
KEY = 0xC0FFEE0123456789
STARTS = (0, 3, 2**31 - 5, 2**35 - 13, 2**61 + 1)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is compared: elements of the tensors, patterns rounded, members of an iteration."""

    sizes: Sequence[int]
    patterns: int
    members: int


FULL = Scale(sizes=(1, 7, 1000, 8192, 1_000_003, 20_000_000), patterns=1 << 26, members=30)
SMALL = Scale(sizes=(1, 7, 1000, 8192), patterns=1 << 17, members=3)


def whole(size: int, start: int = 0, offset: int = 0) -> Stretch:
    """A stretch of one row."""
    return Stretch("checkpoint", "served", start, offset, size)


def weights(size: int) -> NDArray[np.float32]:
    """Weights of usual size, float32[size]."""
    return np.random.default_rng(size).standard_normal(size, dtype=np.float32) * np.float32(0.02)


def rows_of(members: int) -> list[UpdateRow]:
    """Three iterations with differing numbers of members, one of them without effect."""
    generator = np.random.default_rng(members)

    def row(count: int, scale: float) -> UpdateRow:
        seeds = generator.integers(0, 2**64, count, dtype=np.uint64)
        return seeds, (generator.standard_normal(count) * scale).astype(np.float32)

    return [row(members, 1e-4), row(2, 0.0), row(members + 3, 1e-3)]


def pattern_of(flat: torch.Tensor) -> NDArray[np.int32] | NDArray[np.int16]:
    """The bits of a flat tensor as integers in the host's memory."""
    bits: NDArray[np.int32] | NDArray[np.int16]
    bits = flat.view(torch.int32 if flat.element_size() == 4 else torch.int16).cpu().numpy()
    return bits


def same(found: torch.Tensor, expected: Served, what: str) -> None:
    """AssertionError unless a tensor holds exactly these patterns."""
    bits = pattern_of(found)
    differing = np.flatnonzero(bits != expected.view(bits.dtype))
    if differing.size:
        first = int(differing[0])
        mask = (1 << 8 * bits.itemsize) - 1
        here, there = int(bits[first]) & mask, int(expected.view(bits.dtype)[first]) & mask
        raise AssertionError(
            f"{what}: {differing.size} of {bits.size} elements differ, the first at {first}: "
            f"{here:#x} for {there:#x}"
        )


def compare_write(
    device: torch.device, values: NDArray[np.float32], served: ServedDtype, start: int, sigma: float
) -> None:
    """A member written by both."""
    out = torch.zeros(values.size, dtype=TORCH_DTYPES[served], device=device)
    master = torch.from_numpy(values).to(device)
    write_member(master, out, served, whole(values.size, start), KEY, SEED, sigma)
    expected: Served = np.empty(values.size, dtype=served.storage)
    kernel.write_member(values, expected, served, SEED, KEY, start, sigma)
    same(out, expected, f"{served}, {values.size} elements from {start}, sigma {sigma}")


def rounding(device: torch.device, scale: Scale) -> str:
    """The parent in each format, from patterns spread over all float32 values."""
    step = 2**32 // scale.patterns
    for offset in (0, 1, step // 2 + 1):
        bits = np.arange(scale.patterns, dtype=np.uint64) * np.uint64(step) + np.uint64(offset)
        for served in ServedDtype:
            compare_write(device, bits.astype(np.uint32).view(np.float32), served, 0, 0.0)
    return f"3 x {scale.patterns} float32 patterns in 3 formats"


def writing(device: torch.device, scale: Scale) -> str:
    """Members of tensors of many sizes, from many places of a larger tensor."""
    for size in scale.sizes:
        for start in STARTS:
            for served in ServedDtype:
                compare_write(device, weights(size), served, start, 1e-3)
    return f"sizes {', '.join(map(str, scale.sizes))} from {len(STARTS)} flat indices up to 2^61"


def slices(device: torch.device) -> str:
    """Columns of a matrix, as a tensor-parallel rank holds them, aligned and not; nothing beside them."""
    shapes = ((64, 100, 256), (37, 33, 101), (1, 500, 3), (1500, 3, 2**31 + 3))
    for length, rows, step in shapes:
        part = Stretch("c", "s", 16, 8, length, rows, step, length)
        values = weights(part.offset + part.count + 9)
        out = torch.full((values.size,), 7.75, dtype=torch.bfloat16, device=device)
        expected: NDArray[np.uint16] = pattern_of(out).view(np.uint16).copy()
        for number in range(rows):
            row = part.row(number)
            own = slice(row.offset, row.offset + length)
            kernel.write_member(values[own], expected[own], ServedDtype.BFLOAT16, SEED, KEY, row.start, 1e-3)
        write_member(torch.from_numpy(values).to(device), out, ServedDtype.BFLOAT16, part, KEY, SEED, 1e-3)
        same(out, expected, str(part))
    return f"{len(shapes)} shapes of rows"


def special(device: torch.device) -> str:
    """Numbers that hardware likes to treat in its own way, perturbed by usual, tiny and huge noise."""
    patterns = [0, 1, 0x80000000, 0x80000001, 0x7FFFFF, 0x800000, 0x7F800000, 0xFF800000, 0x7F7FFFFF]
    patterns += [0x7F800001, 0xFFC12345, 0x7FFFFFFF, 0x33000000, 0x38800000, 0x477FF000, 0x3F808000]
    values = np.resize(np.array(patterns, dtype=np.uint32), 4096).view(np.float32)
    finite = np.nan_to_num(values, nan=1.0, posinf=1.0, neginf=-1.0)
    for served in ServedDtype:
        for sigma in (1e-3, 1e-40, 1e-45, 1e4):
            compare_write(device, values, served, 0, sigma)
        compare_write(device, finite, served, 0, 3e38)
    return f"{len(patterns)} patterns with 5 sizes of noise in 3 formats"


def updates(device: torch.device, scale: Scale) -> str:
    """Three iterations in one pass, from many places."""
    rows = rows_of(scale.members)
    for size in scale.sizes[:-1]:
        for start in STARTS:
            values = weights(size)
            master = torch.from_numpy(values.copy()).to(device)
            apply_updates(master, whole(size, start), KEY, packed(rows, device))
            kernel.apply_updates(values, KEY, start, rows)
            same(master, values, f"{size} elements from {start}")
    return f"3 iterations of {scale.members}, 2 and {scale.members + 3} members in one pass"


def digests(device: torch.device, scale: Scale) -> str:
    """Sums over the master, over it rounded, and over served patterns."""
    for size in scale.sizes:
        for start in STARTS:
            values = weights(size)
            master = torch.from_numpy(values).to(device)
            for served in ServedDtype:
                found = digest(master, served, whole(size, start), KEY)
                expected = kernel.digest_rounded(values, served, KEY, start)
                assert found == expected, f"{served}, {size} elements from {start}: {found} for {expected}"
                stored = master.to(TORCH_DTYPES[served])
                found = digest(stored, served, whole(size, start), KEY)
                as_kept = as_numpy(stored.cpu())
                assert found == kernel.digest_served(as_kept, KEY, start), f"served {served}, {size} elements"
    return f"{len(scale.sizes) * len(STARTS)} tensors in 3 formats"


def memory(device: torch.device, scale: Scale, streamed: bool) -> str:
    """Fill, write, update, digest and read as a worker does, against the memory of a CPU worker."""
    size = scale.sizes[-1]
    part = whole(size - 5, start=3, offset=2)
    served = ServedDtype.BFLOAT16
    flat, by_host = (torch.zeros(size, dtype=torch.bfloat16, device=where) for where in (device, "cpu"))
    placed: ServedMemory = DeviceMemory(flat, served)
    if streamed:
        # Small enough that even the small size takes several chunks.
        placed = StreamedMemory(flat, served, Staging(device, min(64 * 2**20, 4 * size // 3)))
    host = HostMemory(by_host, served)
    rows = rows_of(scale.members)
    for place in (placed, host):
        place.fill(0, weights(size))
        place.update(part, KEY, rows)
        place.write(part, KEY, SEED, 1e-3)
    same(flat, pattern_of(by_host).view(np.uint16), "a member after an update")
    found = (placed.digest(part, KEY), placed.digest_rounded(part, KEY), placed.digest_served(part, KEY))
    expected = (host.digest(part, KEY), host.digest_rounded(part, KEY), host.digest_served(part, KEY))
    assert found == expected, f"digests {found} for {expected}"
    assert np.array_equal(placed.read(0, size).view(np.uint32), host.read(0, size).view(np.uint32)), "master"
    placed.write(part, KEY, 0, 0.0)
    assert placed.digest_served(part, KEY) == found[1], "the parent after a member"
    return f"fill, update, write, digests, read and restore of {size} elements"


def far_addresses(device: torch.device) -> str:
    """Elements behind the 2^31st of one tensor; AssertionError where the device has not the 14 GB for it."""
    size = 2**31 + 4096
    free, _ = torch.cuda.mem_get_info(device)
    assert free > 7 * size, (
        f"not checked: needs {7 * size / 1e9:.0f} GB of free device memory, has {free / 1e9:.0f}"
    )
    master = torch.zeros(size, dtype=torch.float32, device=device)
    out = torch.zeros(size, dtype=torch.bfloat16, device=device)
    values = weights(4000)
    part = whole(4000, start=2**33 + 1, offset=2**31 + 5)
    own = slice(part.offset, part.offset + part.length)
    master[own].copy_(torch.from_numpy(values))
    write_member(master, out, ServedDtype.BFLOAT16, part, KEY, SEED, 1e-3)
    expected = np.empty(4000, dtype=np.uint16)
    kernel.write_member(values, expected, ServedDtype.BFLOAT16, SEED, KEY, part.start, 1e-3)
    same(out[own], expected, "behind the 2^31st element")
    assert not out[: part.offset].any(), "something was written before the stretch"
    rows = rows_of(3)
    apply_updates(master, part, KEY, packed(rows, device))
    kernel.apply_updates(values, KEY, part.start, rows)
    same(master[own], values, "update behind the 2^31st element")
    found = digest(master, ServedDtype.FLOAT32, part, KEY)
    assert found == kernel.digest_fp32(values, KEY, part.start), "digest behind the 2^31st element"
    return f"write, update and digest in a tensor of {size} elements"
