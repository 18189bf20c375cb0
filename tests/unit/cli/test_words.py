"""Figures in words, and text that cannot steer a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.cli.words import forgotten_words, printable, sample_words, share_words


def test_a_share_stands_with_its_interval() -> None:
    assert share_words({"accuracy": 0.612, "interval95": [0.581, 0.642]}) == "61.2 % [58.1, 64.2]"


def test_samples_are_told_only_where_there_are_several() -> None:
    assert sample_words({}) == ""
    several = {"samples": 8, "pass_at_k": {"1": 0.1, "8": 0.71}, "maj_at_k": 0.64}
    assert sample_words(several) == ", pass@8 71.0 %, maj@8 64.0 %"
    assert sample_words(several | {"maj_at_k": None}) == ", pass@8 71.0 %"


def test_a_fall_is_what_was_forgotten_and_zero_has_no_sign() -> None:
    assert forgotten_words({"points": -2.06, "interval95": [-4.0, 0.2]}) == "2.1 points [-0.2, 4.0]"
    assert forgotten_words({"points": 0.0, "interval95": [-1.0, 1.0]}) == "0.0 points [-1.0, 1.0]"
    assert forgotten_words({"points": 0.01, "interval95": [-1.0, 3.0]}).startswith("0.0 points")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢字 ∑", "plain é 漢字 ∑"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\u202eevil", "\\u202eevil"),
        ("line\u2028end\x85", "line\\u2028end\\x85"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_could_steer_a_terminal_is_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_every_line_is_indented_and_nothing_but_tabs_controls(text: str) -> None:
    lines = printable(text, "  ").split("\n")
    assert len(lines) == text.count("\n") + 1
    for line in lines:
        assert line.startswith("  ")
        assert all(c == "\t" or c.isprintable() or c.isspace() for c in line)
        assert not any(c in line for c in "\r\x1b\x0b\x0c\x1c\x85\u2028\u2029")
        line.encode("utf-8")
