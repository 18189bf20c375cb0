"""The journal file: what is written is read; any damage is found, with the iteration that it costs."""

import dataclasses
import errno
import hashlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dartes.ids import Iteration
from dartes.journal import (
    DamagedJournalError,
    JournalError,
    JournalHeader,
    JournalRow,
    append_row,
    chain,
    read_good_prefix,
    read_journal,
    row_hash,
    write_journal,
)

HEADER = JournalHeader(
    noise_version=1,
    run_seed=2**64 - 1,
    algorithm_digest="ab" * 32,
    algorithm_fields={"es.sigma": 0.001, "es.populationSize": 4, "dart.enabled": True},
    base_digest="cd" * 32,
    data_digest="ef" * 32,
    tensors=(("a.weight", (3, 5)), ("\u00e9", ())),
)


def row(iteration: int, members: int = 4) -> JournalRow:
    generator = np.random.default_rng(iteration)
    seeds = generator.integers(0, 2**64, members, dtype=np.uint64)
    coefficients = (generator.standard_normal(members) * 1e-4).astype(np.float32)
    return JournalRow(Iteration(iteration), 3, seeds, coefficients)


def rows(count: int, members: int = 4) -> list[JournalRow]:
    return [row(k, members) for k in range(count)]


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run.dartes"
    last = write_journal(path, HEADER, rows(5))
    journal = read_journal(path)
    assert journal.header == HEADER
    assert list(journal.rows) == rows(5)
    assert journal.hashes == chain(HEADER.hash(), rows(5))
    assert journal.last_hash == last == journal.hash_at(5)
    assert journal.hash_at(0) == HEADER.hash()
    assert list(tmp_path.iterdir()) == [path]


def test_the_chain_is_sha256_over_the_documented_bytes() -> None:
    seeds, coefficients = np.array([1, 2**63], dtype=np.uint64), np.array([0.5, -0.0], dtype=np.float32)
    raw = struct.pack("<QIIQQff", 7, 2, 2, 1, 2**63, 0.5, -0.0)
    assert JournalRow(Iteration(7), 2, seeds, coefficients).encode() == raw
    previous = bytes(range(32))
    expected = hashlib.sha256(previous + raw).digest()
    assert row_hash(previous, JournalRow(Iteration(7), 2, seeds, coefficients)) == expected
    text = json.dumps(json.loads(HEADER.encode()), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert HEADER.hash() == hashlib.sha256(text.encode()).digest()


def test_appending_gives_the_same_file_as_writing(tmp_path: Path) -> None:
    write_journal(tmp_path / "whole", HEADER, rows(6))
    previous = write_journal(tmp_path / "grown", HEADER, [])
    for item in rows(6):
        previous = append_row(tmp_path / "grown", previous, item)
    assert (tmp_path / "grown").read_bytes() == (tmp_path / "whole").read_bytes()
    assert previous == read_journal(tmp_path / "whole").last_hash


def test_a_row_is_never_appended_to_another_end(tmp_path: Path) -> None:
    path = tmp_path / "j"
    previous = write_journal(path, HEADER, rows(2))
    append_row(path, previous, row(2))
    with pytest.raises(DamagedJournalError, match="doesn't end with the row before iteration 2") as error:
        append_row(path, previous, row(2))
    assert error.value.iteration == 2
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedJournalError, match="cut short"):
        append_row(path, previous, row(3))


def test_a_failed_append_leaves_the_journal_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    previous = write_journal(path, HEADER, rows(2))
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        append_row(path, previous, row(2))
    assert path.read_bytes() == before


def test_a_thousand_iterations_of_forty_members_take_less_than_a_megabyte(tmp_path: Path) -> None:
    write_journal(tmp_path / "j", HEADER, rows(1000, 40))
    assert (tmp_path / "j").stat().st_size < 1_000_000
    assert len(read_journal(tmp_path / "j").rows) == 1000


def _raw() -> tuple[bytes, int]:
    """A journal of 5 rows as bytes, and the offset of its first row."""
    header = HEADER.encode()
    raw = bytearray(b"dartesJ\x01" + struct.pack("<I", len(header)) + header + HEADER.hash())
    first = len(raw)
    previous = HEADER.hash()
    for item in rows(5):
        previous = row_hash(previous, item)
        raw += struct.pack("<I", len(item.encode())) + item.encode() + previous
    return bytes(raw), first


ROW_BYTES = 4 + 16 + 12 * 4 + 32


def test_the_file_layout_is_the_documented_one(tmp_path: Path) -> None:
    write_journal(tmp_path / "j", HEADER, rows(5))
    assert (tmp_path / "j").read_bytes() == _raw()[0]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_damage_is_found_with_its_iteration(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw, first = _raw()
    path = tmp_path_factory.mktemp("j") / "run.dartes"
    kind = data.draw(st.sampled_from(["flip", "cut", "grow", "drop"]))
    position = data.draw(st.integers(0, len(raw) - 1))
    if kind == "flip":
        damaged = (
            raw[:position] + bytes([raw[position] ^ data.draw(st.integers(1, 255))]) + raw[position + 1 :]
        )
    elif kind == "cut":
        damaged = raw[:position]
    elif kind == "grow":
        position = len(raw)
        damaged = raw + data.draw(st.binary(min_size=1, max_size=200))
    else:
        damaged = raw[:position] + raw[position + 1 :]
    path.write_bytes(damaged)
    # A cut between two rows leaves a shorter but whole journal.
    whole = kind == "cut" and position >= first and (position - first) % ROW_BYTES == 0
    lost = (position - first) // ROW_BYTES
    if whole:
        assert list(read_journal(path).rows) == rows(lost)
        return
    with pytest.raises(JournalError) as error:
        read_journal(path)
    assert str(path) in str(error.value)
    if position < first:
        with pytest.raises(JournalError):
            read_good_prefix(path)
        return
    good = read_good_prefix(path)
    # Dropping a byte that equals its neighbour shows only where the next row begins.
    assert len(good.journal.rows) == lost or (kind == "drop" and len(good.journal.rows) == lost + 1)
    assert list(good.journal.rows) == rows(len(good.journal.rows))
    assert isinstance(error.value, DamagedJournalError)
    assert error.value.iteration == len(good.journal.rows)
    assert f"damaged at iteration {error.value.iteration}" in str(good.lost)


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=400))
def test_arbitrary_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.mktemp("j") / "run.dartes"
    for content in (raw, b"dartesJ\x01" + raw):
        path.write_bytes(content)
        with pytest.raises(JournalError):
            read_journal(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{}", "format_version None"),
        (b"[]", "format_version None"),
        (
            HEADER.encode().replace(b'"format_version":1', b'"format_version":2'),
            "use the version that wrote it",
        ),
        (HEADER.encode().replace(b'"noise_version":1', b'"noise_version":-1'), "isn't a whole number"),
        (HEADER.encode().replace(b'"run_seed":1844', b'"run_seed":91844'), "isn't a whole number"),
        (HEADER.encode().replace(b'"run_seed"', b'"run_sead"'), "field missing"),
        (HEADER.encode().replace(b"0.001", b"NaN"), "wrong type"),
        (HEADER.encode().replace(b"0.001", b"0.0010"), "a form that this version doesn't know"),
        (HEADER.encode() + b" ", "a form that this version doesn't know"),
        (HEADER.encode().replace(b'"ab', b'"\\ud800ab'), "wrong type"),
        (b"[" * 50_000, "not JSON"),
    ],
)
def test_an_untrusted_header_is_refused_even_with_a_good_hash(
    tmp_path: Path, header: bytes, message: str
) -> None:
    raw = b"dartesJ\x01" + struct.pack("<I", len(header)) + header + hashlib.sha256(header).digest()
    (tmp_path / "j").write_bytes(raw)
    with pytest.raises(DamagedJournalError, match=message):
        read_journal(tmp_path / "j")


def test_lengths_are_bounded_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b"dartesJ\x01" + b"\xff" * 60)
    with pytest.raises(DamagedJournalError, match="a header of 4294967295 bytes"):
        read_journal(tmp_path / "j")
    raw, first = _raw()
    (tmp_path / "j").write_bytes(raw[:first] + b"\xff" * 60)
    with pytest.raises(DamagedJournalError, match="iteration 0: a row of 4294967295 bytes, at most"):
        read_journal(tmp_path / "j")


def test_rows_stand_in_order(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="row of iteration 2 where 1 must stand"):
        write_journal(tmp_path / "j", HEADER, [row(0), row(2)])
    assert not list(tmp_path.iterdir())
    previous = write_journal(tmp_path / "j", HEADER, [row(0)])
    append_row(tmp_path / "j", previous, row(2))
    with pytest.raises(DamagedJournalError, match="iteration 1: the row says iteration 2"):
        read_journal(tmp_path / "j")


def test_another_file_and_a_missing_one_are_named(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("hello")
    with pytest.raises(JournalError, match="j: not a journal"):
        read_journal(tmp_path / "j")
    with pytest.raises(JournalError, match="absent: can't be read: No such file"):
        read_journal(tmp_path / "absent")
    write_journal(tmp_path / "j", HEADER, rows(2))
    with pytest.raises(JournalError, match="has 2 iterations, 3 was asked for"):
        read_journal(tmp_path / "j").hash_at(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"coefficients": np.array([1, np.nan, 0, 0], dtype=np.float32)},
            "row 0: a coefficient isn't finite",
        ),
        ({"coefficients": np.zeros(3, dtype=np.float32)}, r"\(4,\) seeds and \(3,\) coefficients"),
        ({"seeds": np.zeros(0, np.uint64), "coefficients": np.zeros(0, np.float32)}, "1 to 1048576"),
        ({"iteration": -1}, "out of range"),
        ({"stage": 2**24}, "out of range"),
    ],
)
def test_a_row_that_cannot_be_replayed_is_not_made(change: dict[str, object], message: str) -> None:
    with pytest.raises(JournalError, match=message):
        dataclasses.replace(row(0), **change)  # type: ignore[arg-type]


def test_rows_are_immutable_and_equal_by_their_bits() -> None:
    seeds, coefficients = np.array([1], dtype=np.uint64), np.array([0.0], dtype=np.float32)
    one = JournalRow(Iteration(0), 0, seeds, coefficients)
    seeds[0] = 9
    assert one.seeds[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        one.coefficients[0] = 1
    assert one != JournalRow(Iteration(0), 0, one.seeds, -one.coefficients)
    assert hash(one) == hash(JournalRow(Iteration(0), 0, one.seeds, one.coefficients))


APPEND_UNDER_A_LIMIT = """
import resource, signal, sys
from pathlib import Path
from dartes.journal import JournalRow, append_row

path, limit, previous, raw = sys.argv[1:]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
try:
    append_row(Path(path), bytes.fromhex(previous), JournalRow.decode(bytes.fromhex(raw)))
except OSError as error:
    print(error.errno)
"""


def test_a_row_that_the_disk_takes_only_in_part_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "j.dartes"
    previous = write_journal(path, HEADER, rows(2))
    size = path.stat().st_size
    arguments = [str(path), str(size + 10), previous.hex(), row(2).encode().hex()]
    done = subprocess.run(
        [sys.executable, "-c", APPEND_UNDER_A_LIMIT, *arguments], capture_output=True, check=True, text=True
    )
    assert int(done.stdout) == errno.EFBIG
    assert path.stat().st_size == size
    append_row(path, previous, row(2))
    assert list(read_journal(path).rows) == rows(3)
