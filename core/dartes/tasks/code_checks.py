"""Reads the test code of a data set: its asserts become counted tests, its free names the program's.

Parses, never executes: what comes out is text for the sandbox.
"""

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from dartes.tasks.base import UnreadableReferenceError

SITE = "__site__"
"""The name under which the checker offers `with __site__(i):`, which marks test `i`."""

LONGEST_REMEMBERED = 16_384
"""Characters of a test that is kept once it was read, so that what is kept stays within some 20 MiB."""

MODULES = frozenset(
    {
        "cmath", "collections", "datetime", "decimal", "fractions", "functools", "heapq", "itertools", "math",
        "operator", "random", "re", "statistics", "string", "sys",
    }
)  # fmt: skip
"""Modules that a test may use without importing them, as some do that relied on a solution's imports."""


@dataclass(frozen=True, slots=True)
class CountedTest:
    """Test code whose asserts are marked, their number, and the names that it neither binds nor imports."""

    source: str
    sites: int
    free_names: frozenset[str]


def count_asserts(source: str, last_call: str = "") -> CountedTest:
    """Mark each assert of a test as a test of its own; `last_call` runs behind them.

    Code without any assert is one test as a whole. Raises `UnreadableReferenceError` where it is not Python.
    """
    count = _remembered if len(source) <= LONGEST_REMEMBERED else _count
    return count(source, last_call)


def _count(source: str, last_call: str) -> CountedTest:
    tree = _parsed(source + (f"\n{last_call}\n" if last_call else ""))
    marker = _Marker()
    marked = marker.visit(tree)
    if marker.count == 0:
        marked = ast.Module([_site(0, marked.body)], [])
        marker.count = 1
    text = ast.unparse(ast.fix_missing_locations(marked))
    return CountedTest(text, marker.count, frozenset(_free_names(tree)))


_remembered = lru_cache(maxsize=512)(_count)


def imports_of(source: str) -> str:
    """The import statements at the top of some code, without the rest."""
    kept = [node for node in _parsed(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(ast.unparse(node) for node in kept)


def names_bound(source: str) -> frozenset[str]:
    """The names that some code imports or assigns."""
    return frozenset(_bound(ast.walk(_parsed(source))))


class _Marker(ast.NodeTransformer):
    def __init__(self) -> None:
        self.count = 0

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.count += 1
        return _site(self.count - 1, [node])


def _site(number: int, body: list[ast.stmt]) -> ast.With:
    call = ast.Call(ast.Name(SITE, ast.Load()), [ast.Constant(number)], [])
    return ast.With([ast.withitem(call, None)], body)


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableReferenceError(f"the tests are not Python: {type(error).__name__}: {error}") from None


def _free_names(tree: ast.Module) -> set[str]:
    nodes = list(ast.walk(tree))
    loaded = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return loaded - _bound(nodes) - set(dir(builtins)) - {SITE}


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    bound: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return bound
