"""Finds the right name for a wrong one: another spelling, another place, or the nearest name.

It only reads the list of fields; it never guesses what a value should be.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from dartes.spec.fields import entries, pattern_path, schema_at
from dartes.spec.honoured import holds_honoured, is_honoured
from dartes.spec.problems import Location

# Words that people bring from elsewhere, where the nearest spelling would not find ours.
SYNONYMS = {
    "alpha": "learningRate",
    "lr": "learningRate",
    "members": "populationSize",
    "population": "populationSize",
    "steps": "iterations",
    "maxtokens": "maxNewTokens",
    "path": "source",
    "replaybuffer": "replay",
    "beta": "emaDecay",
    "kappa": "weightExponent",
    "rho": "ratio",
    "gpus": "gpusPerWorker",
}


SLIP_CUTOFF = 0.9
"""Likeness of a slip of the pen: the name beside it is meant then, not an exact one elsewhere."""


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name most like a word, whatever its case and underscores; None where none is near."""
    by_folded = {_folded(name): name for name in names}
    longer = [folded for folded in by_folded if len(word) > 3 and folded.startswith(_folded(word))]
    if len(longer) == 1:
        return by_folded[longer[0]]
    matches = get_close_matches(_folded(word), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None


def unknown_field(location: Location) -> str:
    """Say that a field is unknown, and which one may have been meant."""
    word = str(location[-1])
    parent = pattern_path(location[:-1])
    siblings = tuple(schema_at(location[:-1]).get("properties", {}))
    start = "unknown field"
    for candidate in (word, SYNONYMS.get(_folded(word), word)):
        exact = [name for name in siblings if _folded(name) == _folded(candidate)]
        if exact:
            return f"{start}; did you mean {exact[0]}?"
        slip = get_close_matches(_folded(candidate), map(_folded, siblings), n=1, cutoff=SLIP_CUTOFF)
        elsewhere = () if slip else _places(candidate, parent)
        if elsewhere:
            return f"{start} here; did you mean {' or '.join(elsewhere)}?"
    near = nearest(word, siblings)
    if near:
        return f"{start}; did you mean {near}?"
    near = nearest(word, (entry.name for entry in entries())) if len(word) > 4 else None
    places = _places(near, parent) if near else ()
    if near and places and len(places) <= 2:
        return f"{start} here; did you mean {' or '.join(places)}?"
    usable = [name for name in siblings if is_honoured((*parent, name)) or holds_honoured((*parent, name))]
    return f"{start}; allowed here: {', '.join(usable)}" if usable else f"{start}; nothing is allowed here"


def _places(word: str, parent: Sequence[str]) -> tuple[str, ...]:
    """Return the (at most three) nearest places of a name: those that share most of the path."""
    found = [entry for entry in entries() if _folded(entry.name) == _folded(word)]
    if not found:
        return ()

    def distance(path: Sequence[str]) -> tuple[int, int]:
        common = 0
        while common < min(len(path), len(parent)) and path[common] == parent[common]:
            common += 1
        return len(parent) - common, len(path)

    ordered = sorted(found, key=lambda entry: distance(entry.path))
    best = distance(ordered[0].path)
    return tuple(entry.text for entry in ordered if distance(entry.path) == best)[:3]


def meant(word: object, names: Iterable[str]) -> str:
    """Return `; did you mean X?` for a wrong choice, or nothing."""
    near = nearest(word, names) if isinstance(word, str) else None
    return f"; did you mean {near}?" if near and near != word else ""


def _folded(word: str) -> str:
    return "".join(character for character in word.lower() if character.isalnum())
