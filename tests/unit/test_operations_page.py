"""docs/operations.md names a test for each of its rows, and its commands are such that a shell reads them."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
TABLES = ("## Upgrading", "## What goes, and what stays")
CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = [text for language, text in CODE.findall(PAGE) if not language]


def rows(heading: str) -> list[str]:
    """The rows of the first table under a heading, without its head."""
    lines = PAGE.partition(f"\n{heading}\n")[2].partition("\n## ")[0].splitlines()
    table = [line for line in lines if line.startswith("| ")]
    assert table, f"no table under {heading}"
    return table[1:]


@pytest.mark.parametrize("heading", TABLES)
def test_each_row_names_a_test_that_there_is(heading: str) -> None:
    there = {
        name
        for file in (ROOT / "tests" / "cluster").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    for row in rows(heading):
        named = set(re.findall(r"`(test_\w+)`", row))
        assert named, f"no test in: {row}"
        assert named <= there, f"there is no {named - there}"


def test_each_test_of_an_upgrade_or_an_uninstall_stands_on_the_page() -> None:
    for name in ("test_upgrades.py", "test_uninstall.py"):
        text = (ROOT / "tests" / "cluster" / name).read_text(encoding="utf-8")
        for test in re.findall(r"^def (test_\w+)", text, re.MULTILINE):
            assert f"`{test}`" in PAGE, f"{name}: {test}"


@pytest.mark.parametrize("commands", COMMANDS, ids=range(len(COMMANDS)))
def test_a_shell_understands_the_commands(commands: str) -> None:
    done = subprocess.run(["bash", "-n", "-c", commands], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
