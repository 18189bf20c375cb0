"""Compiled kernels that came with an installation are put where the compiler looks, whole or not at all."""

import logging
import os
from pathlib import Path

import pytest

from dartes.noise.shipped_kernels import CACHE, SHIPPED, unpack_shipped_kernels


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    folder = tmp_path / "shipped/noise_1"
    folder.mkdir(parents=True)
    (folder / "kernel.nbi").write_bytes(b"index")
    (folder / "kernel.1.nbc").write_bytes(b"code")
    return folder.parent


def test_shipped_kernels_are_copied_to_the_empty_cache(shipped: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache/numba"
    unpack_shipped_kernels({SHIPPED: str(shipped), CACHE: str(cache)})
    assert (cache / "noise_1/kernel.nbi").read_bytes() == b"index"
    assert [path.name for path in cache.iterdir()] == ["noise_1"]


def test_a_cache_that_has_kernels_is_left_as_it_is(shipped: Path, tmp_path: Path) -> None:
    own = tmp_path / "cache/noise_1"
    own.mkdir(parents=True)
    (own / "kernel.nbi").write_bytes(b"compiled here")
    unpack_shipped_kernels({SHIPPED: str(shipped), CACHE: str(own.parent)})
    assert (own / "kernel.nbi").read_bytes() == b"compiled here"
    assert not (own / "kernel.1.nbc").exists()


@pytest.mark.parametrize("present", [SHIPPED, CACHE])
def test_nothing_happens_without_both_folders(shipped: Path, present: str) -> None:
    before = sorted(shipped.parent.rglob("*"))
    unpack_shipped_kernels({present: str(shipped)})
    assert sorted(shipped.parent.rglob("*")) == before


def test_a_cache_that_cannot_be_written_is_told_and_no_error(
    shipped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with caplog.at_level(logging.WARNING):
        unpack_shipped_kernels({SHIPPED: str(shipped), CACHE: str(blocked)})
    assert "compiled anew" in caplog.text


def test_a_process_that_was_killed_while_copying_is_no_obstacle(shipped: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / f"noise_1.{os.getpid() + 1}").mkdir(parents=True)
    unpack_shipped_kernels({SHIPPED: str(shipped), CACHE: str(cache)})
    assert (cache / "noise_1/kernel.1.nbc").exists()
