"""One spelling for answers that mean the same: LaTeX without its layout, and the numbers written in it.

Text in, text and plain values out. Nothing is evaluated, and all work is linear or nearly so in the length.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from dartes.tasks.math_words import CHARACTERS, LAYOUT, MULTIPLIERS, SYNONYMS, UNICODE, UNITS

LENGTH_LIMIT = 2000
"""Characters of the longest answer that is read; a longer one equals only itself."""

_DIGITS_LIMIT = 64

_TOKEN = re.compile(r"\\[A-Za-z]+\s*|\\[!,;:]\s*|\\.|\s+|.", re.DOTALL)
_DOUBLED = re.compile(r"\\\\(?=[A-Za-z])")

_DEGREES = re.compile(r"\^\{?\\circ ?\}?(?:\s*(?:\\text ?\{\s*[CF]\s*\}|[CF]\s*$))?")
_GROUPED_COMMA = re.compile(r"(?<=\d)\{,\}(?=\d{3})")
_BRACED_TEXT = re.compile(r"\\text ?\{([^{}]*)\}")
_PERCENT = re.compile(
    r"(?<=[0-9}])\s*(?:\\text ?\{\s*(?:percent|pct)(?:age)?\s*\}|(?:percent|pct)(?:age)?\b)"
)
_AND = re.compile(r",?\s*\\text ?\{\s*(?:,\s*)?(?:and|or)\s*\}|(\\text ?\{[^{}]*\})|,?\s+(?:and|or)\s+")
_EMPHASIS = re.compile(r"\*\*((?:[^*]|\*(?!\*))+)\*\*")
_TEXT_QUANTITY = re.compile(r"\\text\{([0-9][0-9.,/]*) ([A-Za-z ]+)\}\.?")
_SHORT_FRACTION = re.compile(r"\\frac ?(?:(\d)|\{([^{}]*)\}) ?(?:(\d)|\{([^{}]*)\})")
_SHORT_ROOT = re.compile(r"\\sqrt ?(\[[^\]\[{}]*\])? ?([0-9A-Za-z])")
_SHORT_SET = re.compile(r"\\mathbb ([A-Z])(?![A-Za-z])")
_SHORT_SCRIPT = re.compile(r"([\^_]) ?([0-9A-Za-z])")
_TRAILING_UNIT = re.compile(r"(?P<value>.*[0-9}).])\s*(?P<unit>[A-Za-z][A-Za-z\s./]*)(?:\^\{-?[0-9]\})?$")
_TRAILING_TEXT = re.compile(r"(?P<value>.+?)\s*\\text\{(?P<unit>[^{}]*)\}(?:\^\{-?[0-9]\})?$")


def normalise(text: str) -> str:
    """An answer in one spelling; equal results mean the same, the reverse need not hold."""
    stripped = text.strip()
    if len(stripped) > LENGTH_LIMIT:
        return stripped
    if emphasis := _EMPHASIS.fullmatch(stripped):
        stripped = emphasis[1].strip()
    if "\\begin" not in stripped:
        stripped = _DOUBLED.sub(r"\\", stripped)
    joined = "".join(_respelled(stripped.translate(UNICODE)))
    joined = _GROUPED_COMMA.sub(",", _DEGREES.sub("", joined))
    joined = _AND.sub(lambda m: m[1] or ",", _PERCENT.sub("%", joined))
    joined = _BRACED_TEXT.sub(_text_inside, joined)
    if (quantity := _TEXT_QUANTITY.fullmatch(joined.strip())) and set(quantity[2].split()) <= UNITS:
        joined = quantity[1]
    joined = _SHORT_SET.sub(r"\\mathbb{\1}", joined)
    joined = _SHORT_SCRIPT.sub(r"\1{\2}", joined)
    joined = _SHORT_ROOT.sub(lambda m: f"\\sqrt{m[1] or ''}{{{m[2]}}}", joined)
    joined = _SHORT_FRACTION.sub(lambda m: f"\\frac{{{m[1] or m[2] or ''}}}{{{m[3] or m[4] or ''}}}", joined)
    return _without_unit(joined.strip().removesuffix(".").strip())


def _respelled(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == "\\" and token[1:2].isalpha():
            name = token[1:].rstrip()
            if name in LAYOUT:
                continue
            name = SYNONYMS.get(name, name)
            yield CHARACTERS.get(name) or f"\\{name} "
        elif token == "\\\\":
            yield "\\cr "
        elif token.rstrip() in {"$", "\\$", "\\!", "\\,", "\\;", "\\:", "\\(", "\\)", "\\[", "\\]"}:
            continue
        elif token == "\\%":
            yield "%"
        elif token.isspace() or token in {"~", "\\ ", "\\\n"}:
            yield " "
        else:
            yield token


def _text_inside(match: re.Match[str]) -> str:
    inside = " ".join(match[1].split())
    if len(inside) == 1 and inside.isalnum():
        return inside
    return f"\\text{{{inside}}}" if inside else ""


def _without_unit(text: str) -> str:
    """Leave out a unit behind a value; a word that changes the value (dozen, million) stays."""
    if (found := _TRAILING_TEXT.match(text)) and re.search(r"[0-9A-Za-z]", found["value"]):
        words = set(re.findall(r"[a-z0-9]+", found["unit"].lower()))
        if not words & MULTIPLIERS and not any(word.isdigit() for word in words):
            return found["value"].strip()
    if (found := _TRAILING_UNIT.match(text)) and number(found["value"]):
        words = set(re.findall(r"[A-Za-z]+", found["unit"]))
        if words <= UNITS:
            return found["value"].strip()
    return text


def squeezed(text: str) -> str:
    """A normalised text without the spaces that separate nothing."""
    return _SPACES.sub("", text)


# A space stays between two digits (`3 1/2` is not `31/2`), behind a comma (`1, 234` is not `1,234`), and
# between a command and a letter.
_SPACES = re.compile(r"(?<![0-9,])(?<!\\cr)(?<![A-Za-z])\s+|\s+(?![0-9A-Za-z])|(?<=[0-9])\s+(?![0-9])")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written.

    Attributes
    ----------
    value
        What it says, exact; a percentage's value is the number before the sign.
    percent
        Whether a percent sign follows.
    places
        Digits behind the decimal point; None where it is not written as a decimal.
    significant
        Significant digits of a decimal; 0 where it is not one.
    """

    value: Fraction
    percent: bool = False
    places: int | None = None
    significant: int = 0


_UNSIGNED = r"(?:[0-9]{1,3}(?:[, ][0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_PLAIN_NUMBER = re.compile(rf"([+-]?)\s*({_UNSIGNED})")
_FRACTION = re.compile(
    rf"([+-]?)\s*(?:([0-9]+)\s*(?=\\frac)|([0-9]+)\s+(?=[0-9]+/))?"
    rf"(?:\\frac ?\{{\s*([+-]?{_UNSIGNED})\s*\}}\s*\{{\s*([+-]?{_UNSIGNED})\s*\}}"
    rf"|({_UNSIGNED})\s*/\s*({_UNSIGNED}))"
)
_SCIENTIFIC = re.compile(
    rf"([+-]?)\s*(?:(?:({_UNSIGNED})\s*\*\s*)?10\s*\^\s*\{{\s*([+-]?[0-9]{{1,2}})\s*\}}"
    rf"|({_UNSIGNED})[eE]([+-]?[0-9]{{1,2}}))"
)
_REPEATING = re.compile(r"([+-]?)([0-9]*)\.([0-9]*)\\overline ?\{([0-9]+)\}")


def number(text: str) -> Number | None:
    """The number that a text is: whole, decimal, repeating, fraction, mixed, power of ten, or percent."""
    bare = text.strip()
    percent = bare.endswith("%")
    bare = bare.removesuffix("%").rstrip()
    while bare[:1] == "{" and bare[-1:] == "}" and "}" not in bare[:-1]:
        bare = bare[1:-1].strip()
    if not bare or len(bare) > 4 * _DIGITS_LIMIT:
        return None
    if match := _PLAIN_NUMBER.fullmatch(bare):
        return _decimal(match[1], match[2], 0, percent)
    if match := _SCIENTIFIC.fullmatch(bare):
        return _decimal(match[1], match[2] or match[4] or "1", int(match[3] or match[5]), percent)
    if match := _REPEATING.fullmatch(bare):
        return _repeating(match[1], match[2], match[3], match[4], percent)
    match = _FRACTION.fullmatch(bare)
    if match is None:
        return None
    sign, whole, above, below = match[1], match[2] or match[3], match[4] or match[6], match[5] or match[7]
    if whole and (above[0] in "+-" or below[0] in "+-"):
        return None
    first, second, third = (_fraction(part) for part in (whole or "0", above, below))
    if first is None or second is None or not third:
        return None
    value = first + second / third
    return Number(-value if sign == "-" else value, percent)


def _repeating(sign: str, whole: str, fixed: str, period: str, percent: bool) -> Number | None:
    if len(whole + fixed + period) > _DIGITS_LIMIT:
        return None
    value = Fraction(int(whole or "0")) + Fraction(int(fixed or "0"), 10 ** len(fixed))
    value += Fraction(int(period), 10 ** len(fixed) * (10 ** len(period) - 1))
    return Number(-value if sign == "-" else value, percent)


def _fraction(digits: str) -> Fraction | None:
    plain = digits.replace(",", "").replace(" ", "")
    return Fraction(plain) if len(plain) <= _DIGITS_LIMIT else None


def _decimal(sign: str, digits: str, exponent: int, percent: bool) -> Number | None:
    value = _fraction(digits)
    if value is None:
        return None
    value = value * Fraction(10) ** exponent
    _, point, behind = digits.partition(".")
    significant = len(digits.replace(",", "").replace(" ", "").replace(".", "").lstrip("0")) if point else 0
    places = len(behind) - exponent if point else None
    return Number(-value if sign == "-" else value, percent, places, significant)
