"""A snapshot gives back exactly what was written, or is refused; a failed write leaves the old one."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file

from dartes.checkpoint import (
    Snapshot,
    SnapshotError,
    digest_arrays,
    read_snapshot,
    weight_digest,
    write_snapshot,
)
from dartes.ids import Iteration
from dartes.noise import kernel, reference, tensor_id

SHAPES = [("a.weight", (3, 5)), ("b", ()), ("c", (0,))]
HASH = bytes(range(32))


def arrays(seed: int = 1) -> dict[str, NDArray[np.float32]]:
    generator = np.random.default_rng(seed)
    return {name: generator.standard_normal(int(np.prod(shape)), dtype=np.float32) for name, shape in SHAPES}


def written(path: Path, seed: int = 1) -> Path:
    write_snapshot(path, Iteration(12), HASH, SHAPES, arrays(seed))
    return path


def values(snapshot: Snapshot) -> dict[str, bytes]:
    return {i.name: snapshot.read_f32(i.name, 0, i.count).tobytes() for i in snapshot.tensors.values()}


def test_a_snapshot_gives_back_weights_and_version(tmp_path: Path) -> None:
    digest = write_snapshot(tmp_path / "s", Iteration(12), HASH, SHAPES, arrays())
    snapshot = read_snapshot(tmp_path / "s")
    assert (snapshot.iteration, snapshot.row_hash, snapshot.digest) == (12, HASH, digest.total)
    assert values(snapshot) == {name: array.tobytes() for name, array in arrays().items()}
    assert snapshot.read_f32("a.weight", 4, 3).tobytes() == arrays()["a.weight"][4:7].tobytes()
    assert list(tmp_path.iterdir()) == [tmp_path / "s"]


def test_other_tools_can_read_the_weights(tmp_path: Path) -> None:
    loaded = load_file(written(tmp_path / "s"))
    assert {name: array.shape for name, array in loaded.items()} == dict(SHAPES)
    assert loaded["a.weight"].tobytes() == arrays()["a.weight"].tobytes()


def test_the_digest_is_that_of_the_noise_contract() -> None:
    parts = {name: reference.digest_fp32(array, tensor_id(name), 0) for name, array in arrays().items()}
    assert digest_arrays(SHAPES, arrays()) == weight_digest(SHAPES, parts)


def test_the_total_is_the_sha256_of_the_documented_lines() -> None:
    lines = b'["a",[2,3],"00000000000000ff"]\n["\\u00e9",[],"0000000000000005"]\n'
    digest = weight_digest([("\u00e9", ()), ("a", (2, 3))], {"\u00e9": 5, "a": 2**64 + 255})
    assert digest.total == hashlib.sha256(lines).hexdigest()
    assert digest.tensors == {"a": 255, "\u00e9": 5}


def test_the_digest_names_the_tensor_that_differs() -> None:
    changed = arrays()
    changed["a.weight"][7] += 1
    before = digest_arrays(SHAPES, arrays())
    assert digest_arrays(SHAPES, changed).differing(before) == ("a.weight",)
    swapped = arrays()
    swapped["a.weight"][[0, 1]] = swapped["a.weight"][[1, 0]]
    assert digest_arrays(SHAPES, swapped).total != before.total


def test_neither_pieces_nor_threads_change_the_digest(tmp_path: Path) -> None:
    size = 2**21 + 77
    large = {"w": np.random.default_rng(3).standard_normal(size, dtype=np.float32)}
    shapes = [("w", (size,))]
    expected = weight_digest(shapes, {"w": kernel.digest_fp32(large["w"], tensor_id("w"), 0)})
    for threads in (1, 3):
        assert digest_arrays(shapes, large, threads) == expected
        assert write_snapshot(tmp_path / "s", Iteration(1), HASH, shapes, large, threads=threads) == expected
        snapshot = read_snapshot(tmp_path / "s", threads=threads)
        assert snapshot.digest == expected.total
    assert snapshot.read_f32("w", 0, size).tobytes() == large["w"].tobytes()


@settings(max_examples=150, deadline=None)
@given(position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_flipped_byte_never_gives_other_weights(
    tmp_path_factory: pytest.TempPathFactory, position: int, flip: int
) -> None:
    path = written(tmp_path_factory.mktemp("flip") / "s")
    raw = bytearray(path.read_bytes())
    raw[position % len(raw)] ^= flip
    path.write_bytes(raw)
    try:
        snapshot = read_snapshot(path)
    except SnapshotError:
        return
    assert values(snapshot) == {name: array.tobytes() for name, array in arrays().items()}
    assert (snapshot.iteration, snapshot.row_hash) == (12, HASH)


@pytest.mark.parametrize("offset", [-1, -10, -30])
def test_a_damaged_weight_is_named_with_its_file(tmp_path: Path, offset: int) -> None:
    path = written(tmp_path / "s")
    raw = bytearray(path.read_bytes())
    raw[offset] ^= 0x10
    path.write_bytes(raw)
    with pytest.raises(SnapshotError, match=r"s: damaged: the weights' digest is .* delete it"):
        read_snapshot(path)


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_snapshot_is_refused(tmp_path: Path, keep: int) -> None:
    path = written(tmp_path / "s")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(SnapshotError, match=r"truncated|too short"):
        read_snapshot(path)


def test_a_missing_snapshot_and_another_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="can't be read"):
        read_snapshot(tmp_path / "absent")
    from safetensors.numpy import save_file

    save_file({"w": np.ones(2, dtype=np.float32)}, tmp_path / "other")
    with pytest.raises(SnapshotError, match="not a snapshot"):
        read_snapshot(tmp_path / "other")


def test_a_failed_write_keeps_the_old_snapshot_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "s")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_snapshot(path, Iteration(13), HASH, SHAPES, arrays(seed=2))
    monkeypatch.undo()
    assert read_snapshot(path).iteration == 12
    assert list(tmp_path.iterdir()) == [tmp_path / "s"]
