"""A streamed master: its chunks fit the staging buffer and are the stretch; its memory is pinned."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes_worker.weights.streamed import STAGING_BYTES, Staging, chunks, pin
from dartes_worker.weights.stretch import Stretch


def elements(stretch: Stretch, shift: int = 0) -> list[tuple[int, int]]:
    """(flat index in the checkpoint tensor, address in the served tensor) of every element, in order."""
    return [
        (row.start + j, shift + row.offset + j)
        for row in map(stretch.row, range(stretch.rows))
        for j in range(stretch.length)
    ]


@given(
    rows=st.integers(1, 12),
    length=st.integers(1, 40),
    gap=st.integers(0, 60),
    limit=st.integers(1, 100).map(lambda eights: 8 * eights),
)
def test_chunks_hold_each_element_of_a_stretch_once(rows: int, length: int, gap: int, limit: int) -> None:
    stretch = Stretch("c", "s", 5, 3, length, rows, length + 2 * gap, length + gap)
    cut = list(chunks(stretch, limit))
    assert [pair for chunk in cut for pair in elements(chunk.stretch, chunk.first)] == elements(stretch)
    for chunk in cut:
        last = max(address for _, address in elements(chunk.stretch))
        assert chunk.count <= limit
        assert last == chunk.count - 1


def test_rows_that_lie_close_cross_together_and_others_alone() -> None:
    close = Stretch("c", "s", 0, 0, 10, 50, 100, 20)
    far = Stretch("c", "s", 0, 0, 10, 50, 100, 21)
    assert len(list(chunks(close, 1000))) == 1
    assert len(list(chunks(far, 1000))) == 50


@pytest.mark.parametrize("nbytes", [0, 31, STAGING_BYTES + 1])
def test_a_staging_buffer_outside_its_bounds_is_refused(nbytes: int) -> None:
    with pytest.raises(ValueError, match="32 to 67108864"):
        Staging(torch.device("cpu"), nbytes)


def test_a_staging_buffer_holds_whole_blocks_and_no_more_than_it_may() -> None:
    size = Staging(torch.device("cpu"), 1000).buffer.numel()
    assert size % 8 == 0
    assert 0 < 4 * size <= 1000
    assert np.prod(Staging(torch.device("meta")).buffer.shape) * 4 == STAGING_BYTES


def runtime(calls: list[tuple[object, ...]], status: int = 0) -> SimpleNamespace:
    """Stands in for CUDA's runtime."""

    def register(*arguments: object) -> int:
        calls.append(("pin", *arguments))
        return status

    return SimpleNamespace(
        cudaHostRegister=register, cudaHostUnregister=lambda address: calls.append(("free", address))
    )


def test_memory_is_pinned_once_and_for_as_long_as_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime(calls))
    tensor = torch.zeros(100)
    address = tensor.data_ptr()
    pin(torch.zeros(0))
    pin(tensor)
    assert calls == [("pin", address, 400, 0)]
    del tensor
    assert calls[1:] == [("free", address)]


def test_memory_that_cannot_be_pinned_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime(calls, status=2))
    with pytest.raises(ConfigurationError, match=r"CUDA error 2.*engineOptions.masterPlacement"):
        pin(torch.zeros(100))
    assert len(calls) == 1
