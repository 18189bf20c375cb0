"""The kernel equals the reference bit for bit on any slice; only an update writes to the master."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dartes.noise import ServedDtype, kernel, reference
from dartes.noise.reference import Float32s, Served, UpdateRow

WORD_64 = st.integers(0, 2**64 - 1)
SERVED = st.sampled_from(list(ServedDtype))
# Chunks of the kernel hold 256 elements, Philox blocks 8: sizes and offsets on both sides of each.
COUNT = st.one_of(st.integers(0, 40), st.integers(250, 270), st.integers(500, 1100))
START = st.one_of(st.integers(0, 600), st.integers(2**35 - 600, 2**35 + 600), st.integers(0, 2**60))
SIGMA = st.one_of(
    st.sampled_from([0.0, -0.0, 1e-3, -1e-3, 0.0015, 1e-42]), st.floats(-4, 4, width=32, allow_nan=False)
)


def weights(count: int, seed: int = 0) -> Float32s:
    """Weights with the spread of a model's, among them zeros of both signs and subnormal numbers."""
    generator = np.random.default_rng(seed)
    values = (generator.standard_normal(count) * 0.02).astype(np.float32)
    values[generator.random(count) < 0.05] = 0.0
    values[generator.random(count) < 0.05] = -0.0
    values[generator.random(count) < 0.05] *= np.float32(1e-40)
    return values


def update_rows(seed: int, sizes: list[int], scale: float = 1e-3) -> list[UpdateRow]:
    generator = np.random.default_rng(seed)
    return [
        (
            generator.integers(0, 2**64, size, dtype=np.uint64),
            (generator.standard_normal(size) * scale).astype(np.float32),
        )
        for size in sizes
    ]


def written(
    write: Callable[..., None],
    master: Float32s,
    served: ServedDtype,
    seed: int = 1,
    tensor_id: int = 2,
    start: int = 0,
    sigma: float = 1e-3,
) -> Served:
    out: Served = np.full(master.size, 7, dtype=served.storage)
    write(master, out, served, seed, tensor_id, start, np.float32(sigma))
    return out


@settings(deadline=None)
@given(COUNT, START, SERVED, WORD_64, WORD_64, SIGMA, st.booleans())
def test_a_member_written_by_the_kernel_equals_the_reference(
    count: int, start: int, served: ServedDtype, seed: int, tensor_id: int, sigma: float, read_only: bool
) -> None:
    master = weights(count, seed % 1000)
    master.setflags(write=not read_only)
    by_kernel = written(kernel.write_member, master, served, seed, tensor_id, start, sigma)
    by_reference = written(reference.write_member, master, served, seed, tensor_id, start, sigma)
    assert by_kernel.tobytes() == by_reference.tobytes()


@settings(deadline=None)
@given(COUNT, START, WORD_64, WORD_64, st.lists(st.integers(0, 6), max_size=4))
def test_updates_by_the_kernel_equal_the_reference(
    count: int, start: int, tensor_id: int, seed: int, sizes: list[int]
) -> None:
    rows = update_rows(seed, sizes)
    by_kernel = weights(count)
    by_reference = weights(count)
    kernel.apply_updates(by_kernel, tensor_id, start, rows)
    reference.apply_updates(by_reference, tensor_id, start, rows)
    assert by_kernel.tobytes() == by_reference.tobytes()


@settings(deadline=None)
@given(COUNT, START, SERVED, WORD_64)
def test_digests_by_the_kernel_equal_the_reference(
    count: int, start: int, served: ServedDtype, tensor_id: int
) -> None:
    master = weights(count)
    stored = written(kernel.write_member, master, served, sigma=0.0)
    expected = reference.digest_rounded(master, served, tensor_id, start)
    assert kernel.digest_rounded(master, served, tensor_id, start) == expected
    assert kernel.digest_served(stored, tensor_id, start) == expected
    assert kernel.digest_fp32(master, tensor_id, start) == reference.digest_fp32(master, tensor_id, start)


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), max_size=6), SERVED, WORD_64)
def test_slices_and_shards_equal_the_whole(cuts: list[int], served: ServedDtype, tensor_id: int) -> None:
    count, first = 1000, 12345
    bounds = [0, *sorted(cuts), count]
    pieces = [slice(a, b) for a, b in pairwise(bounds)]
    rows = update_rows(5, [3, 4])
    whole = weights(count)
    sliced = whole.copy()
    kernel.apply_updates(whole, tensor_id, first, rows)
    for piece in pieces:
        kernel.apply_updates(sliced[piece], tensor_id, first + piece.start, rows)
    assert sliced.tobytes() == whole.tobytes()

    member = written(kernel.write_member, whole, served, 9, tensor_id, first)
    member_sliced = np.empty_like(member)
    for piece in pieces:
        start = first + piece.start
        kernel.write_member(whole[piece], member_sliced[piece], served, 9, tensor_id, start, 1e-3)
    assert member_sliced.tobytes() == member.tobytes()

    total = sum(kernel.digest_fp32(whole[piece], tensor_id, first + piece.start) for piece in pieces)
    assert total % 2**64 == kernel.digest_fp32(whole, tensor_id, first)


def test_many_iterations_at_once_equal_one_at_a_time() -> None:
    rows = update_rows(8, [4, 1, 7, 4])
    at_once, one_by_one = weights(3000), weights(3000)
    kernel.apply_updates(at_once, 3, 5, rows)
    for row in rows:
        kernel.apply_updates(one_by_one, 3, 5, [row])
    assert at_once.tobytes() == one_by_one.tobytes()


@pytest.mark.parametrize("served", list(ServedDtype))
def test_a_thousand_members_leave_the_master_untouched(served: ServedDtype) -> None:
    master = weights(1500)
    before = master.tobytes()
    unperturbed = written(kernel.write_member, master, served, sigma=0.0)
    out = np.empty_like(unperturbed)
    for seed in range(1000):
        kernel.write_member(master, out, served, seed, 2, 3, 1e-3 if seed % 2 else -1e-3)
    assert master.tobytes() == before
    assert out.tobytes() != unperturbed.tobytes()
    kernel.write_member(master, out, served, 0, 2, 3, 0.0)
    assert out.tobytes() == unperturbed.tobytes()


def test_sigma_zero_keeps_every_bit_of_the_master_also_negative_zeros() -> None:
    master = np.array([-0.0, 0.0, 1e-42, 0.02, np.inf], dtype=np.float32)
    for sigma in (0.0, -0.0):
        out = written(kernel.write_member, master, ServedDtype.FLOAT32, sigma=sigma)
        assert out.tobytes() == master.tobytes()


def test_members_of_opposite_sigma_are_antithetic() -> None:
    origin = np.zeros(5000, dtype=np.float32)
    up = written(kernel.write_member, origin, ServedDtype.FLOAT32, sigma=1e-3)
    down = written(kernel.write_member, origin, ServedDtype.FLOAT32, sigma=-1e-3)
    assert np.array_equal(up, -down)
    assert np.count_nonzero(up) == up.size


def test_an_iteration_of_zero_coefficients_changes_no_bit_also_of_negative_zeros() -> None:
    seeds = np.arange(3, dtype=np.uint64)
    zeros = np.array([0.0, -0.0, 0.0], dtype=np.float32)
    for apply in (kernel.apply_updates, reference.apply_updates):
        master = np.array([-0.0, 0.0, 0.5], dtype=np.float32)
        before = master.tobytes()
        apply(master, 1, 0, [(seeds, zeros), (seeds[:0], zeros[:0])])
        assert master.tobytes() == before


def test_members_are_added_in_their_order() -> None:
    ((seeds, coefficients),) = update_rows(4, [40])
    forward, backward = weights(5000), weights(5000)
    kernel.apply_updates(forward, 1, 0, [(seeds, coefficients)])
    kernel.apply_updates(backward, 1, 0, [(seeds[::-1].copy(), coefficients[::-1].copy())])
    assert forward.tobytes() != backward.tobytes()
    assert np.allclose(forward, backward, rtol=0, atol=1e-7)


def test_a_product_is_rounded_before_it_is_added() -> None:
    master, sigma = weights(20_000), np.float32(0.0123)
    normals = reference.normals(1, 2, 0, master.size)
    twice = master + sigma * normals
    once = (master.astype(np.float64) + np.float64(sigma) * normals).astype(np.float32)
    assert np.count_nonzero(twice != once) > 500, "the case does not tell a fused operation apart"
    assert (
        written(kernel.write_member, master, ServedDtype.FLOAT32, sigma=0.0123).tobytes() == twice.tobytes()
    )


@pytest.mark.parametrize("served", list(ServedDtype))
def test_a_digest_sees_any_change_exchange_or_shift(served: ServedDtype) -> None:
    stored = written(kernel.write_member, weights(300), served)
    digest = kernel.digest_served(stored, 1, 0)
    for position in (0, 150, 299):
        changed = stored.copy()
        changed.view(np.uint8)[position * stored.itemsize] ^= 1
        assert kernel.digest_served(changed, 1, 0) != digest
    exchanged = stored.copy()
    exchanged[[3, 200]] = stored[[200, 3]]
    assert kernel.digest_served(exchanged, 1, 0) != digest
    assert kernel.digest_served(stored, 1, 1) != digest
    assert kernel.digest_served(stored, 2, 0) != digest


FLAT = np.zeros(4, dtype=np.float32)


@pytest.mark.parametrize(
    ("master", "out", "sigma", "start", "message"),
    [
        (FLAT.astype(np.float64), np.zeros(4, np.float32), 1.0, 0, "master has dtype float64"),
        (FLAT, np.zeros(4, np.uint16), 1.0, 0, "out has dtype uint16"),
        (FLAT, np.zeros(5, np.float32), 1.0, 0, "master has 4 elements, out has 5"),
        (FLAT.reshape(2, 2), np.zeros(4, np.float32), 1.0, 0, "flat"),
        (FLAT[::2], np.zeros(2, np.float32), 1.0, 0, "flat"),
        (FLAT, np.frombuffer(bytes(16), np.float32), 1.0, 0, "out is read-only"),
        (FLAT, FLAT, 1.0, 0, "never be written over the master"),
        (FLAT, np.zeros(4, np.float32), float("nan"), 0, "sigma = nan"),
        (FLAT, np.zeros(4, np.float32), 1e39, 0, "sigma = 1e[+]39"),
        (FLAT, np.zeros(4, np.float32), 1.0, -1, "start = -1"),
    ],
)
def test_a_write_that_does_not_fit_is_refused(
    master: Float32s, out: NDArray[np.float32], sigma: float, start: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kernel.write_member(master, out, ServedDtype.FLOAT32, 1, 2, start, sigma)


@pytest.mark.parametrize(
    ("seeds", "coefficients", "message"),
    [
        (np.zeros(2, np.int64), np.ones(2, np.float32), "row 0: seeds are int64"),
        (np.zeros(2, np.uint64), np.ones(2, np.float64), "coefficients float64"),
        (np.zeros(2, np.uint64), np.ones(3, np.float32), r"row 0: \(2,\) seeds for \(3,\)"),
        (np.zeros(2, np.uint64), np.array([1, np.nan], np.float32), "row 0: coefficients must be finite"),
    ],
)
def test_an_update_that_does_not_fit_is_refused_before_anything_changes(
    seeds: NDArray[np.uint64], coefficients: Float32s, message: str
) -> None:
    master = weights(10)
    before = master.tobytes()
    with pytest.raises(ValueError, match=message):
        kernel.apply_updates(master, 1, 0, [(seeds, coefficients)])
    assert master.tobytes() == before
