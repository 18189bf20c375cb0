"""The words of LaTeX and of units that reading a mathematical answer knows: tables, and nothing else."""

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LAYOUT: Final = _words(
    """
    left right displaystyle textstyle scriptstyle limits big Big bigg Bigg bigl bigr Bigl Bigr biggl
    biggr quad qquad thinspace degree
    """
)
"""Commands that change how an answer looks, not what it says."""

SYNONYMS: Final = {
    **dict.fromkeys(("dfrac", "tfrac", "cfrac"), "frac"),
    **dict.fromkeys(("dbinom", "tbinom"), "binom"),
    **dict.fromkeys(("le", "leqslant"), "leq"),
    **dict.fromkeys(("ge", "geqslant"), "geq"),
    **dict.fromkeys(("dots", "cdots"), "ldots"),
    **dict.fromkeys(_words("mbox textbf textit textrm textnormal textsf operatorname"), "text"),
    **dict.fromkeys(_words("mathrm mathbf mathit mathsf"), "text"),
    **dict.fromkeys(("lvert", "rvert"), "vert"),
    "ne": "neq",
    "varnothing": "emptyset",
    "infin": "infty",
    "colon": "mid",
    "bar": "overline",
    "approxeq": "approx",
    "simeq": "approx",
    "R": "mathbb{R}",
    "Reals": "mathbb{R}",
}
"""Commands that mean the same as another one."""

CHARACTERS: Final = {
    **dict.fromkeys(("cdot", "times", "ast"), "*"),
    **{"div": "/", "lt": "<", "gt": ">", "vert": "|"},
    **{"lbrace": "\\{", "rbrace": "\\}", "lbrack": "[", "rbrack": "]"},
    **{"lparen": "(", "rparen": ")", "langle": "(", "rangle": ")"},
}
"""Commands that mean the same as a character."""

UNICODE: Final = str.maketrans(
    {
        **{"\u2212": "-", "\u2013": "-", "\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u00b0": "^{\\circ}"},
        **{
            "\u03c0": "\\pi ",
            "\u221e": "\\infty ",
            "\u221a": "\\sqrt ",
            "\u222a": "\\cup ",
            "\u2208": "\\in ",
        },
        **{"\u2264": "\\leq ", "\u2265": "\\geq ", "\u2260": "\\neq ", "\u00b1": "\\pm "},
        **{"\u00a0": " ", "\u2009": " ", "\u2248": "\\approx "},
        **dict.fromkeys(("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff"), ""),
    }
)
"""Characters outside ASCII that have a LaTeX spelling."""

MULTIPLIERS: Final = _words(
    """
    dozen hundred thousand million billion trillion pi times plus minus over or and not maybe
    is isn was wrong false incorrect neither nor none nothing no never anything something else either
    otherwise except unless if but perhaps possibly more less than least most greater fewer another other
    any both all unknown about around approximately
    """
)
"""Words behind a value that change it, and so are no unit."""

UNITS: Final = _words(
    """
    mm cm dm m km in ft yd mi inch inches foot feet yard yards mile miles meter meters metre metres
    centimeter centimeters kilometer kilometers square cubic sq cu unit units s sec second seconds min
    minute minutes h hr hour hours day days week weeks month months year years kg g mg gram grams
    kilogram kilograms pound pounds lb lbs oz ounce ounces liter liters litre litres gallon gallons mph
    kmph per degree degrees radian radians rad dollar dollars cent cents euro euros people person
    student students way ways point points apples coins mL ml L N J W V A K Hz
    """
)
"""Words that may stand behind a number without being asked for."""

COMPUTED: Final = _words(
    """
    frac sqrt pi infty alpha beta gamma delta epsilon theta lambda mu nu rho sigma tau phi omega binom
    leq geq neq sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp lfloor rfloor
    lceil rceil pm mp emptyset mathbb cup cap in
    """
)
"""Commands that computer algebra is asked about. No sums, integrals or limits: they may never end."""
