"""Pages that promise something name the test of it: that test is there, and a star says that it is long."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
NAMED = re.compile(r"`(test(?:_[a-z0-9]+){4,})`(\*?)")
"""Names that are sentences; others are columns of data sets, or files."""
STARRED = ROOT / "docs" / "failure-modes.md"


def is_full(marks: list[ast.expr]) -> bool:
    """Whether `pytest.mark.full` is among some marks; that of single parameters leaves the others."""
    flat = [each for mark in marks for each in (mark.elts if isinstance(mark, ast.List) else [mark])]
    return any(ast.unparse(mark) == "pytest.mark.full" for mark in flat)


def functions_of(file: Path) -> dict[str, bool]:
    """The tests of a file, and whether each runs in `make test-cluster-full` only."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    whole = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    return {
        node.name: is_full([*whole, *node.decorator_list])
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.fixture(scope="module")
def there() -> dict[str, bool]:
    """All tests by name."""
    return {
        name: full
        for file in (ROOT / "tests").rglob("test_*.py")
        for name, full in functions_of(file).items()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_test_that_a_page_names_is_there(page: Path, there: dict[str, bool]) -> None:
    named = {name for name, _ in NAMED.findall(page.read_text(encoding="utf-8"))}
    assert named <= there.keys(), f"there is no {', '.join(sorted(named - there.keys()))}"


def test_a_star_says_that_a_test_runs_among_all_cluster_tests_only(there: dict[str, bool]) -> None:
    named = NAMED.findall(STARRED.read_text(encoding="utf-8"))
    wrong = [name for name, star in named if name in there and bool(star) != there[name]]
    assert not wrong, f"the star of {', '.join(wrong)} is wrong"


def test_every_row_of_a_table_with_tests_names_one_or_a_page() -> None:
    text = STARRED.read_text(encoding="utf-8")
    tables = re.findall(r"^\|[^\n]*\btest\b[^\n]*\|\n\|[-|]+\n((?:\|[^\n]*\n)+)", text, re.MULTILINE)
    assert len(tables) >= 10
    for row in "".join(tables).splitlines():
        assert "`test_" in row or ".md#" in row or "operations.md" in row, row
