"""Updates and digests: the kernels' bits are those of the CPU kernels."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dartes.noise import ServedDtype
from dartes.noise.reference import UpdateRow
from dartes_worker.kernels.digest import digest
from dartes_worker.kernels.update import apply_updates, packed
from dartes_worker.weights.stretch import Stretch
from tests.unit.kernels.interpreted.kit import (
    KEY,
    SIZE,
    STRETCHES,
    digest_by_cpu,
    row_of,
    served_tensor,
    stretch,
    updated_by_cpu,
    weights,
)

CPU = torch.device("cpu")

ROWS: dict[str, list[UpdateRow]] = {
    "one member": [row_of(1e-3)],
    "differing sizes": [row_of(1e-4, -2.5e-5, 3e-4), row_of(-1e-3, seed=4), row_of(*[1e-5] * 7, seed=5)],
    "zero rows among others": [row_of(0.0, -0.0), row_of(1e-3, 0.0, -2e-3), row_of(0.0), row_of(0.0, 5e-4)],
    "tiny and huge": [row_of(1e-42, -1e-45), row_of(1e30, -1e30, 1.0)],
}


def check(part: Stretch, rows: list[UpdateRow], blocks: int | None = None) -> None:
    values = weights()
    master = torch.from_numpy(values.copy())
    apply_updates(master, part, KEY, packed(rows, CPU), blocks)
    expected = updated_by_cpu(values, part, rows)
    assert np.array_equal(master.numpy().view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("part", STRETCHES.values(), ids=STRETCHES)
def test_updates_have_the_bits_of_the_cpu_kernel_wherever_they_are(part: Stretch) -> None:
    check(part, ROWS["differing sizes"])


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_updates_have_the_bits_of_the_cpu_kernel_whatever_the_rows(rows: list[UpdateRow]) -> None:
    check(STRETCHES["end in a block"], rows)
    check(STRETCHES["columns"], rows)


@pytest.mark.parametrize("blocks", [4, 128])
def test_the_tiles_that_a_device_uses_change_no_bit(blocks: int) -> None:
    check(stretch(5, 1, 37, 5, 100, 41), ROWS["differing sizes"], blocks)


@pytest.mark.parametrize("rows", [[], [row_of(0.0, -0.0)], [row_of()]], ids=["none", "zeros", "no member"])
def test_rows_without_effect_leave_a_negative_zero_as_it_is(rows: list[UpdateRow]) -> None:
    master = torch.full((16,), -0.0)
    apply_updates(master, stretch(0, 0, 16), KEY, packed(rows, CPU))
    assert bool(torch.signbit(master).all())


def test_many_iterations_in_one_pass_equal_one_after_the_other() -> None:
    rows = ROWS["differing sizes"]
    one, other = torch.from_numpy(weights()), torch.from_numpy(weights())
    apply_updates(one, STRETCHES["columns"], KEY, packed(rows, CPU))
    for row in rows:
        apply_updates(other, STRETCHES["columns"], KEY, packed([row], CPU))
    assert torch.equal(one.view(torch.int32), other.view(torch.int32))


@given(
    start=st.integers(0, 2**61),
    length=st.integers(1, 500),
    members=st.lists(st.lists(st.floats(-1, 1, width=32), max_size=4), max_size=4),
)
@settings(max_examples=30)
def test_any_rows_have_the_bits_of_the_cpu_kernel(
    start: int, length: int, members: list[list[float]]
) -> None:
    check(stretch(start, 3, length), [row_of(*row, seed=k) for k, row in enumerate(members)])


def test_rows_that_cannot_be_applied_are_refused() -> None:
    seeds = np.zeros(2, dtype=np.uint64)
    cases = [
        ((seeds.astype(np.int64), np.zeros(2, np.float32)), "uint64 and float32"),
        ((seeds, np.zeros(2)), "uint64 and float32"),
        ((seeds, np.zeros(3, np.float32)), "seeds for"),
        ((seeds, np.array([1, np.nan], np.float32)), "finite"),
    ]
    for row, message in cases:
        with pytest.raises(ValueError, match=f"row 1: .*{message}"):
            packed([row_of(1.0), row], CPU)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="float32, not"):
        apply_updates(torch.zeros(8).half(), stretch(0, 0, 8), KEY, packed([row_of(1.0)], CPU))


@pytest.mark.parametrize("part", STRETCHES.values(), ids=STRETCHES)
@pytest.mark.parametrize("served", list(ServedDtype))
def test_digests_are_those_of_the_cpu_kernel(served: ServedDtype, part: Stretch) -> None:
    master = torch.from_numpy(weights())
    stored = served_tensor(served, wide=False)
    stored.view(torch.int32 if served is ServedDtype.FLOAT32 else torch.int16).copy_(
        torch.from_numpy(np.random.default_rng(2).integers(-(2**15), 2**15, SIZE))
    )
    assert digest(master, served, part, KEY) == digest_by_cpu(master, served, part)
    assert digest(stored, served, part, KEY) == digest_by_cpu(stored, served, part)


def test_digests_of_parts_add_up_whatever_the_tiles() -> None:
    master = torch.from_numpy(weights())
    whole = digest(master, ServedDtype.FLOAT32, stretch(3, 0, SIZE), KEY)
    parts = [
        digest(master, ServedDtype.FLOAT32, stretch(3 + at, at, 1500), KEY, 128)
        for at in range(0, SIZE, 1500)
    ]
    assert sum(parts) % 2**64 == whole


def test_a_changed_or_exchanged_element_changes_the_digest() -> None:
    master = torch.from_numpy(weights())
    part = STRETCHES["columns"]
    before = digest(master, ServedDtype.FLOAT32, part, KEY)
    inside, other = part.offset + part.target_step, part.offset + part.target_step + 1
    master[[inside, other]] = master[[other, inside]]
    assert digest(master, ServedDtype.FLOAT32, part, KEY) != before
    master[[inside, other]] = master[[other, inside]]
    master.view(torch.int32)[inside] ^= 1
    assert digest(master, ServedDtype.FLOAT32, part, KEY) != before


def test_a_digest_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="bfloat16 or float32, not of torch.float16"):
        digest(torch.zeros(8).half(), ServedDtype.BFLOAT16, stretch(0, 0, 8), KEY)
