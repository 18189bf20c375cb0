"""Reads numbers out of untrusted text: exact, bounded in length, ASCII digits only, never infinite or NaN."""

import re
from fractions import Fraction

NUMBER_LENGTH_LIMIT = 64
"""Characters of the longest number that is read; a longer one is not a number."""

# An exponent of two digits at most keeps the exact value small: Python would read `1e999999` as well.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?")


def parse_decimal(word: str) -> Fraction | None:
    """The exact value of a decimal number, commas dropped; None where `word` is not one."""
    digits = word.replace(",", "")
    if len(digits) > NUMBER_LENGTH_LIMIT or not _DECIMAL.fullmatch(digits):
        return None
    return Fraction(digits)
