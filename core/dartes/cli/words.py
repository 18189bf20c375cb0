"""Figures of evaluations in words, and text of a model made safe for a terminal. Imports nothing heavy."""

import unicodedata
from collections.abc import Mapping
from typing import Any


def share_words(point: Mapping[str, Any]) -> str:
    """An accuracy with its 95 % interval, such as `61.2 % [58.1, 64.2]`; else a mean score and why."""
    if point["accuracy"] is None:
        return f"mean score {point['mean_score']:.4g} (no base: {point['no_base']})"
    low, high = point["interval95"]
    return f"{100 * point['accuracy']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def sample_words(point: Mapping[str, Any]) -> str:
    """What several samples give together, such as `, pass@8 71.0 %, maj@8 64.0 %`; empty for one."""
    samples = point.get("samples", 1)
    if samples == 1 or point["pass_at_k"] is None:
        return ""
    words = f", pass@{samples} {100 * point['pass_at_k'][str(samples)]:.1f} %"
    majority = point["maj_at_k"]
    return words if majority is None else f"{words}, maj@{samples} {100 * majority:.1f} %"


def forgotten_words(change: Mapping[str, Any]) -> str:
    """What was lost since the base model, such as `2.1 points [0.2, 4.0]`; less than 0 is a gain."""
    low, high = change["interval95"]
    return f"{_lost(change['points'])} points [{_lost(high)}, {_lost(low)}]"


def printable(text: str, indent: str = "") -> str:
    """Text of a model or of data for a terminal: what could steer it is written as an escape.

    Line ends and tabs stay; every line begins with `indent`. Control, format, surrogate and unassigned
    characters, and separators of lines that are none to a terminal, become `\\x1b` or `\\u202e`.
    """
    return "\n".join(
        indent + (line if line.isprintable() else "".join(map(_shown, line))) for line in text.split("\n")
    )


def _lost(points: float) -> str:
    return f"{round(-points, 1) or 0.0:.1f}"  # no minus sign before a zero


def _shown(character: str) -> str:
    if character == "\t" or (character.isprintable() or unicodedata.category(character) == "Zs"):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
