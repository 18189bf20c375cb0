"""Every scorer of reasoning-gym is either one that was read, unchanged, or replaced by ours."""

import ast
import inspect
from types import ModuleType
from typing import Any

import pytest

from dartes.data.generators.reasoning_gym import NEEDS_SETTINGS
from dartes.errors import ConfigurationError
from dartes.tasks import puzzle_library
from dartes.tasks.puzzle_audit import AUDITED
from dartes.tasks.puzzle_library import library, library_scorer, scoring_modules, source_digest
from dartes.tasks.puzzle_own import OWN

FORBIDDEN = frozenset(
    {"__import__", "compile", "eval", "exec", "literal_eval", "open", "parse_expr", "sympify"}
)
# Its own function of that name: it reads logic, calls nothing, and is guarded.
OWN_PARSERS = frozenset({"reasoning_gym.logic.propositional_logic"})


def test_every_puzzle_of_the_library_is_sorted_and_none_twice() -> None:
    there = set(library().DATASETS) - NEEDS_SETTINGS
    assert not set(AUDITED) & set(OWN)
    assert set(AUDITED) | set(OWN) == there, "sort new puzzles: read their scorer, or write one"


@pytest.mark.parametrize("name", sorted(AUDITED))
def test_an_audited_scorer_has_the_source_that_was_read(name: str) -> None:
    assert source_digest(library().DATASETS[name][0]) == AUDITED[name]


def functions_of(module: ModuleType) -> dict[str, list[ast.FunctionDef]]:
    """Functions and methods of a module by name."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def names_called(function: ast.FunctionDef) -> set[str]:
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    plain = {call.id for call in calls if isinstance(call, ast.Name)}
    return plain | {call.attr for call in calls if isinstance(call, ast.Attribute)}


def reached_by_scoring(puzzle: type[Any]) -> set[str]:
    """The names that `score_answer` calls, and those that what it calls in the library calls."""
    functions: dict[str, list[ast.FunctionDef]] = {}
    for module in scoring_modules(puzzle):
        for name, found in functions_of(module).items():
            functions.setdefault(name, []).extend(found)
    reached: set[str] = set()
    waiting = {"score_answer"}
    while waiting:
        name = waiting.pop()
        for function in functions.get(name, []):
            new = names_called(function) - reached
            reached |= new
            waiting |= new
    return reached


@pytest.mark.parametrize("name", sorted(AUDITED))
def test_an_audited_scorer_reaches_nothing_that_runs_or_parses_code(name: str) -> None:
    puzzle = library().DATASETS[name][0]
    allowed = {"parse_expr"} if puzzle.__module__ in OWN_PARSERS else set()
    assert reached_by_scoring(puzzle) & FORBIDDEN <= allowed


@pytest.mark.parametrize("name", ["binary_matrix", "countdown", "simple_integration", "bitwise_arithmetic"])
def test_the_walk_finds_what_the_unsafe_scorers_run(name: str) -> None:
    assert reached_by_scoring(library().DATASETS[name][0]) & FORBIDDEN


def test_a_scorer_with_another_source_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    library_scorer.cache_clear()
    monkeypatch.setattr(puzzle_library, "AUDITED", {**AUDITED, "gcd": "0" * 16})
    with pytest.raises(
        ConfigurationError, match=r"'gcd' in reasoning-gym .* is not the one.*reasoning-gym==0\.1\.25"
    ):
        library_scorer("gcd")
