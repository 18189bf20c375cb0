"""Known answers of `docs/noise.md`, from a second implementation in plain Python that shares no code.

The hard-coded numbers are the contract: if one of them has to change, the noise version has to change.
"""

import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from dartes.noise import ServedDtype, kernel, reference, tensor_id
from dartes.noise.philox import philox4x32, philox4x32_block
from dartes.noise.streams import Purpose, WordSource, below, shuffled, word, words
from dartes.noise.table import TABLE_FILE, TABLE_SHA256

SPECIFICATION = Path(__file__).parents[3] / "docs" / "noise.md"

EMBEDDING = "model.embed_tokens.weight"
QUERY = "model.layers.0.self_attn.q_proj.weight"

PHILOX = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Counter, key and result of the generator's published vectors (Random123, philox4x32-10)."""


def plain_philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox 4x32-10 by the paper's round function, one multiplication at a time."""
    c, k = list(counter), list(key)
    for round_number in range(10):
        if round_number:
            k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
        high_0, low_0 = divmod(0xD2511F53 * c[0], 2**32)
        high_1, low_1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high_1 ^ c[1] ^ k[0], low_1, high_0 ^ c[3] ^ k[1], low_0]
    return c


def plain_bits16(seed: int, name: str, index: int) -> int:
    (identity,) = struct.unpack("<Q", hashlib.sha256(name.encode()).digest()[:8])
    block, lane = divmod(index, 8)
    counter = [block % 2**32, block // 2**32, identity % 2**32, identity // 2**32]
    drawn = plain_philox(counter, [seed % 2**32, seed // 2**32])
    return int(struct.unpack("<8H", struct.pack("<4I", *drawn))[lane])


def plain_normal(seed: int, name: str, index: int) -> float:
    with TABLE_FILE.open("rb") as table:
        table.seek(4 * plain_bits16(seed, name, index))
        return float(struct.unpack("<f", table.read(4))[0])


def round32(value: float) -> float:
    """Nearest float32. A double holds a product of two exactly, and a sum of two may be rounded twice."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def bits32(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def from_bits32(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def plain_bfloat16(value: float) -> int:
    """The nearer of the two bfloat16 around a finite value, the even one where both are as near."""
    below_it = bits32(value) >> 16
    distances = [abs(from_bits32(c << 16) - value) for c in (below_it, below_it + 1)]
    if distances[0] == distances[1]:
        return below_it + below_it % 2
    return below_it if distances[0] < distances[1] else below_it + 1


def plain_mix64(identity: int, index: int, bits: int) -> int:
    x = (identity + index * 0x9E3779B97F4A7C15 + bits * 0xD1B54A32D192ED03) % 2**64
    x = (x ^ x // 2**30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x // 2**27) * 0x94D049BB133111EB % 2**64
    return x ^ x // 2**31


def plain_word(run_seed: int, purpose: int, stage: int, step: int, k: int) -> int:
    counter = [k // 2, purpose + 256 * stage, step % 2**32, step // 2**32]
    drawn = plain_philox(counter, [run_seed % 2**32, run_seed // 2**32])
    return drawn[2 * (k % 2)] + 2**32 * drawn[2 * (k % 2) + 1]


TENSOR_IDS = [
    (EMBEDDING, 0x2AE5039BAC43D4FC),
    (QUERY, 0x2211FFE7C71EA125),
    ("lm_head.weight", 0xACBEFDF95EB86678),
]

NORMALS = [
    (0x0, EMBEDDING, 0, 0x1C71, 0xBF9C3F15),
    (0x0, EMBEDDING, 1, 0x1719, 0xBFAB6F5E),
    (0x0, EMBEDDING, 2, 0x4523, 0xBF1CD344),
    (0x0, EMBEDDING, 3, 0xC701, 0x3F436A17),
    (0x0, EMBEDDING, 4, 0xEEE3, 0x3FBFF7EB),
    (0x0, EMBEDDING, 5, 0x8488, 0x3D35DED7),
    (0x0, EMBEDDING, 6, 0x1C54, 0xBF9C8BC1),
    (0x0, EMBEDDING, 7, 0x341C, 0xBF54381E),
    (0x1, EMBEDDING, 0, 0x609A, 0xBE9FF708),
    (0x0123456789ABCDEF, QUERY, 1000003, 0x2A2E, 0xBF799C63),
    (0xFFFFFFFFFFFFFFFF, QUERY, 34359738374, 0x3F24, 0xBF2F6108),
    (0x8000000000000000, "lm_head.weight", 1099511627775, 0x8D8B, 0x3E0835D8),
]
"""Seed, name, flat index, the 16 random bits, the float32 bits of the normal."""

MEMBERS = [
    (0x3CA3D70A, 0.001, 0x3C9BDA3A, 0x3C9C, 0x24DF),
    (0xBD23D70A, 0.001, 0xBD27D572, 0xBD28, 0xA93F),
    (0x3CA3D70A, -0.001, 0x3CABD3DA, 0x3CAC, 0x255F),
    (0x80000000, 0.0015, 0xBABFB37F, 0xBAC0, 0x95FE),
    (0x3F800000, 0.0015, 0x3F7FA026, 0x3F80, 0x3BFD),
]
"""Master bits, sigma, and the served bits in float32, bfloat16 and float16 at MEMBER_ADDRESS."""

MEMBER_ADDRESS = (0x0123456789ABCDEF, QUERY, 1000003)

UPDATE_ROWS = [
    ([1, 2, 3], [1e-4, -2.5e-5, 3e-4]),
    ([4, 5], [0.0, 0.0]),
    ([2**64 - 1, 0], [-1e-3, 0.0]),
]

UPDATES = [
    (0x3CA3D70A, 0, 0x3CA8F57B),
    (0x3CA3D70A, 7, 0x3CA32CC5),
    (0x3CA3D70A, 13, 0x3CA094C2),
    (0x3CA3D70A, 1000003, 0x3CA90233),
    (0x80000000, 0, 0x3A23CE17),
    (0x80000000, 7, 0xB8AA45B4),
    (0x80000000, 13, 0xB9D09207),
    (0x80000000, 1000003, 0x3A256520),
]
"""Master bits, flat index in EMBEDDING, master bits after UPDATE_ROWS."""

MIXES = [
    (0, 0x00000000, 0x294130F748E2BBD4),
    (0, 0x3F800000, 0x95BF0BF695EB46D3),
    (5, 0x80000000, 0x50ED8F401B7DA30D),
    (34359738374, 0xFFFFFFFF, 0x731F7289C532A5AC),
]
"""Flat index in EMBEDDING, bits, mix64."""

DIGEST_BITS = (0x3CA3D70A, 0x80000000, 0x3FC00000)
DIGEST_START = 5
DIGEST = 0x155CB21C97F4F46A

WORDS = [
    (0, 1, 0, 0, 0, 0xEA2362496AD0C5EC),
    (0, 1, 0, 0, 1, 0x074944B373A459F5),
    (42, 1, 0, 7, 2, 0xEB759A920655BF9D),
    (42, 2, 1, 3, 0, 0xEC8160075ADB6CA4),
    (2**64 - 1, 5, 2**24 - 1, 2**64 - 1, 2**33 - 1, 0x0742FD6C4068A761),
]
"""Run seed, purpose, stage, step, k, word."""

SHUFFLE = [6, 2, 3, 1, 5, 0, 9, 4, 8, 7]
"""Shuffle of ten, run seed 42, epoch shuffle, stage 0, epoch 1."""


@pytest.mark.parametrize(("counter", "key", "result"), PHILOX)
def test_philox_gives_the_published_vectors(
    counter: tuple[int, int, int, int], key: tuple[int, int], result: tuple[int, ...]
) -> None:
    assert philox4x32_block(*key, *counter) == result
    assert tuple(int(w[0]) for w in philox4x32(*key, *counter)) == result
    assert tuple(plain_philox(list(counter), list(key))) == result


@pytest.mark.parametrize(("name", "expected"), TENSOR_IDS)
def test_a_tensor_id_is_the_start_of_the_hash_of_its_name(name: str, expected: int) -> None:
    assert tensor_id(name) == expected


@pytest.mark.parametrize(("seed", "name", "index", "bits16", "bits"), NORMALS)
def test_normals_are_those_of_the_specification(
    seed: int, name: str, index: int, bits16: int, bits: int
) -> None:
    assert plain_bits16(seed, name, index) == bits16
    assert bits32(plain_normal(seed, name, index)) == bits
    assert reference.table_indices(seed, tensor_id(name), index, 1).tolist() == [bits16]
    assert reference.normals(seed, tensor_id(name), index, 1).view(np.uint32).tolist() == [bits]


@pytest.mark.parametrize(("master_bits", "sigma", "expected32", "expected_b16", "expected_f16"), MEMBERS)
def test_a_member_is_that_of_the_specification(
    master_bits: int, sigma: float, expected32: int, expected_b16: int, expected_f16: int
) -> None:
    seed, name, index = MEMBER_ADDRESS
    plain = round32(from_bits32(master_bits) + round32(round32(sigma) * plain_normal(seed, name, index)))
    assert bits32(plain) == expected32
    assert plain_bfloat16(plain) == expected_b16
    assert struct.unpack("<H", struct.pack("<e", plain))[0] == expected_f16

    master = np.array([master_bits], dtype=np.uint32).view(np.float32)
    for served, expected in [
        (ServedDtype.FLOAT32, expected32),
        (ServedDtype.BFLOAT16, expected_b16),
        (ServedDtype.FLOAT16, expected_f16),
    ]:
        for write in (reference.write_member, kernel.write_member):
            out = np.zeros(1, dtype=served.storage)
            write(master, out, served, seed, tensor_id(name), index, np.float32(sigma))
            assert int.from_bytes(out.tobytes(), "little") == expected


@pytest.mark.parametrize(("master_bits", "index", "expected"), UPDATES)
def test_an_update_is_that_of_the_specification(master_bits: int, index: int, expected: int) -> None:
    plain = from_bits32(master_bits)
    for seeds, coefficients in UPDATE_ROWS:
        if any(coefficients):
            acc = 0.0
            for seed, coefficient in zip(seeds, coefficients, strict=True):
                acc = round32(acc + round32(round32(coefficient) * plain_normal(seed, EMBEDDING, index)))
            plain = round32(plain + acc)
    assert bits32(plain) == expected

    rows = [(np.array(s, dtype=np.uint64), np.array(c, dtype=np.float32)) for s, c in UPDATE_ROWS]
    for apply in (reference.apply_updates, kernel.apply_updates):
        master = np.array([master_bits], dtype=np.uint32).view(np.float32)
        apply(master, tensor_id(EMBEDDING), index, rows)
        assert master.view(np.uint32).tolist() == [expected]


@pytest.mark.parametrize(("index", "bits", "expected"), MIXES)
def test_mix64_is_that_of_the_specification(index: int, bits: int, expected: int) -> None:
    identity = tensor_id(EMBEDDING)
    value = np.array([bits], dtype=np.uint32).view(np.float32)
    assert plain_mix64(identity, index, bits) == expected
    assert reference.mix64(identity, index, bits) == expected
    assert reference.digest_fp32(value, identity, index) == expected
    assert kernel.digest_fp32(value, identity, index) == expected


def test_a_digest_is_the_sum_of_its_elements() -> None:
    values = np.array(DIGEST_BITS, dtype=np.uint32).view(np.float32)
    assert kernel.digest_fp32(values, tensor_id(EMBEDDING), DIGEST_START) == DIGEST


@pytest.mark.parametrize(("run_seed", "purpose", "stage", "step", "k", "expected"), WORDS)
def test_stream_words_are_those_of_the_specification(
    run_seed: int, purpose: int, stage: int, step: int, k: int, expected: int
) -> None:
    assert plain_word(run_seed, purpose, stage, step, k) == expected
    assert word(run_seed, Purpose(purpose), stage, step, k) == expected
    assert words(run_seed, Purpose(purpose), stage, step, k, 1).tolist() == [expected]


def test_a_shuffle_is_that_of_the_specification() -> None:
    by_word = sorted(range(10), key=lambda k: (plain_word(42, 2, 0, 1, k), k))
    assert by_word == SHUFFLE
    assert shuffled(42, Purpose.EPOCH_SHUFFLE, 0, 1, 10).tolist() == SHUFFLE


def test_an_integer_draw_takes_the_words_of_its_stream_in_order() -> None:
    source = WordSource(42, Purpose.REPLAY_DRAW, 0, 9)
    drawn = [below(source, 1000) for _ in range(300)]
    assert drawn == [plain_word(42, 3, 0, 9, k) % 1000 for k in range(300)]


def test_the_specification_shows_these_very_numbers() -> None:
    text = SPECIFICATION.read_text(encoding="utf-8").upper()
    shown = [TABLE_SHA256, f"0x{DIGEST:016X}", *(f"0x{w[-1]:016X}" for w in WORDS)]
    shown += [f"0x{value:016X}" for _, value in TENSOR_IDS]
    shown += [f"0x{value:08X}" for _, _, result in PHILOX for value in result]
    shown += [f"0x{bits16:04X} | 0x{bits:08X}" for *_, bits16, bits in NORMALS]
    shown += [f"0x{m:08X} | {sigma} | 0x{a:08X} | 0x{b:04X} | 0x{c:04X}" for m, sigma, a, b, c in MEMBERS]
    shown += [f"0x{m:08X} | {index} | 0x{after:08X}" for m, index, after in UPDATES]
    shown += [f"{index} | 0x{bits:08X} | 0x{mixed:016X}" for index, bits, mixed in MIXES]
    assert [value for value in shown if value.upper() not in text] == []
