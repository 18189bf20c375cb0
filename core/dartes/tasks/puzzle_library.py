"""The scorers of `reasoning-gym` that may see a model's text, and the guards in front of some of them.

A scorer is used only where its source was read: that source, with the library's modules it calls, must have
the digest recorded in `puzzle_audit`. A new version with another scorer is refused, not trusted.
"""

import hashlib
import inspect
import io
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Any, TypeAlias

from dartes.errors import ConfigurationError
from dartes.tasks.base import JSON
from dartes.tasks.puzzle_audit import AUDITED, AUDITED_VERSION

Scorer: TypeAlias = Callable[[str, str | None, Mapping[str, JSON]], float]
"""Scores an answer, given the reference answer (None where there is none) and the metadata: 0 to 1."""

ROOT = "reasoning_gym"
_NOT_SCORING = ("reasoning_gym.coaching", "reasoning_gym.factory")
DIGEST_DIGITS = 16

SCORER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)
"""What a scorer may raise for an answer it did not expect, or for metadata that it cannot use."""

REQUIRED_METADATA: Mapping[str, tuple[str, ...]] = {
    "boxnet": ("initial_state",),
    "graph_color": ("puzzle",),
    "propositional_logic": ("premises", "variables"),
    "rubiks_cube": ("cube_size", "scramble_moves"),
    "rush_hour": ("board_config",),
}
"""Puzzles without a reference answer, and what their scorers read instead."""

_GUARDS: Mapping[str, re.Pattern[str]] = {
    # "nan" is at no distance from anything.
    "complex_arithmetic": re.compile(r"[0-9\sijIJ.()+-]{1,100}"),
    # Each new name doubles the truth table, and names in lower case are not checked against the puzzle's.
    "propositional_logic": re.compile(r"[A-Z\s()\u2227\u2228\u00ac\u2192\u2194]{1,400}"),
    # A move is repeated as often as the number behind it says.
    "rubiks_cube": re.compile(r"(?!.*[0-9]{3})[\x20-\x7e\n]{1,1000}", re.DOTALL),
    "rush_hour": re.compile(r"(?!.*[0-9]{3})[\x20-\x7e\n]{1,1000}", re.DOTALL),
}
"""What an answer must look like to reach a scorer that is only safe with such answers."""

_SOKOBAN = f"{ROOT}.games.contrib.sokoban.src"
_IMPORTED_LATE: Mapping[str, tuple[str, ...]] = {
    f"{ROOT}.games.sokoban": tuple(f"{_SOKOBAN}.{part}" for part in ("box", "game", "player", "utils")),
}
"""Modules that a puzzle's module imports while it runs, so that they do not show among its names."""

_GRIDS_OF_TUPLES = frozenset({"arc_agi", "rearc"})


@cache
def library() -> Any:
    """The library's factory; raises `ConfigurationError` where it is not installed."""
    try:
        import_module(ROOT)
    except ImportError as error:
        raise ConfigurationError(
            f"task.kind: task 'puzzle' needs the reasoning-gym library ({error}); "
            "install it with: pip install '.[tasks]' in a clone"
        ) from error
    return import_module(f"{ROOT}.factory")


@cache
def library_scorer(name: str) -> Scorer:
    """The library's own scorer of a puzzle, behind its guard.

    Raises
    ------
    ConfigurationError
        Where the installed library's scorer is not the one that was read.
    """
    puzzle, settings = library().DATASETS[name]
    found = source_digest(puzzle)
    if found != AUDITED[name]:
        raise ConfigurationError(
            f"task.kind: the scorer of puzzle '{name}' in reasoning-gym {version('reasoning-gym')} is not "
            f"the one that was checked for safety; install reasoning-gym=={AUDITED_VERSION}"
        )
    scorer = puzzle(config=settings()).score_answer
    guard = _GUARDS.get(name)

    def score(answer: str, reference: str | None, metadata: Mapping[str, JSON]) -> float:
        if guard is not None and not guard.fullmatch(answer):
            return 0.0
        if reference is not None and not reference.strip() and answer.strip():
            return 0.0  # an empty reference: some scorers take whatever they cannot read for as empty
        entry = {"question": "", "answer": reference, "metadata": _as_made(name, metadata)}
        with redirect_stdout(io.StringIO()):  # some print what they find wrong
            return float(scorer(answer, entry))

    return score


def source_digest(puzzle: type[Any]) -> str:
    """A digest of the sources that scoring an answer to this puzzle runs, within the library."""
    digest = hashlib.sha256()
    for module in scoring_modules(puzzle):
        digest.update(inspect.getsource(module).encode())
    return digest.hexdigest()[:DIGEST_DIGITS]


def scoring_modules(puzzle: type[Any]) -> list[ModuleType]:
    """The library's modules that a puzzle's class, its bases and what they import come from, sorted."""
    own = {base.__module__ for base in puzzle.__mro__ if base.__module__.startswith(ROOT)}
    used = set(own)
    for name in own:
        used.update(import_module(late).__name__ for late in _IMPORTED_LATE.get(name, ()))
        for value in vars(sys.modules[name]).values():
            home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(home, str) and home.startswith(f"{ROOT}."):
                used.add(home)
    return [sys.modules[name] for name in sorted(used) if not name.startswith(_NOT_SCORING)]


def _as_made(name: str, metadata: Mapping[str, JSON]) -> dict[str, Any]:
    """Metadata as the generator made it: JSON has turned its tuples into lists."""
    made: dict[str, Any] = dict(metadata)
    if name in _GRIDS_OF_TUPLES and isinstance(made.get("output"), list):
        made["output"] = tuple(tuple(row) for row in made["output"])
    return made
