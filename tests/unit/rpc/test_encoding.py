"""Bits and scores as they travel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.rpc.encoding import EncodingError, pack_bits, pack_floats, unpack_bits, unpack_floats


@given(st.lists(st.booleans(), max_size=70))
def test_bits_survive(bits: list[bool]) -> None:
    packed = pack_bits(np.array(bits, np.bool_))
    assert len(packed) == (len(bits) + 7) // 8
    assert unpack_bits(packed, len(bits)).tolist() == bits


def test_the_first_bit_is_the_least_significant_one() -> None:
    assert pack_bits(np.array([True, False, True])) == b"\x05"


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
def test_scores_survive_bit_by_bit(scores: list[float]) -> None:
    array = np.array(scores, np.float32)
    assert unpack_floats(pack_floats(array), len(scores)).tobytes() == array.tobytes()


def test_a_payload_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(EncodingError, match="1 bytes of bits for 9 positions; expected 2"):
        unpack_bits(b"\x00", 9)
    with pytest.raises(EncodingError, match="5 bytes of float32 for 1 positions; expected 4"):
        unpack_floats(b"\x00" * 5, 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(EncodingError, match="not a finite number"):
        unpack_floats(pack_floats(np.array([0.0, value], np.float32)), 2)
