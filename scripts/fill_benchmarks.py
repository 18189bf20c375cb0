"""Put the tables of bench/results/*.json into docs/benchmarks.md; `--check` only compares.

The page is written by hand but for the blocks between `<!-- results: NAME -->` and `<!-- end -->`, each of
which gets what the last `python -m bench.NAME` measured, with machine, date and command.

    python scripts/fill_benchmarks.py [--check]
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "bench" / "results"
BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(document: dict[str, Any]) -> str:
    """The results of one benchmark as Markdown: a table, then where, when and how they were measured."""
    rows: list[dict[str, Any]] = document["rows"]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [_line(columns), _line(["---"] * len(columns))]
    lines += [_line([_text(row.get(column)) for column in columns]) for row in rows]
    machine = document["machine"]
    lines += [
        "",
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB; "
        f"{document['measured_at'][:10]}, `{document['command']}`",
    ]
    return "\n".join(lines) + "\n"


def filled(page: str) -> str:
    """The page with every block filled; one without results stays empty, which is said on standard error."""

    def fill(match: re.Match[str]) -> str:
        path = RESULTS / f"{match[2]}.json"
        if not path.exists():
            print(f"docs/benchmarks.md: no results yet of `python -m bench.{match[2]}`", file=sys.stderr)
            return match[1] + match[3]
        return match[1] + table(json.loads(path.read_text(encoding="utf-8"))) + match[3]

    return BLOCK.sub(fill, page)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def main(arguments: list[str]) -> int:
    """Fill or compare; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="exit 1 where the page is not what the results say"
    )
    check = parser.parse_args(arguments).check
    present = PAGE.read_text(encoding="utf-8")
    fresh = filled(present)
    if check and fresh != present:
        print("docs/benchmarks.md is not what bench/results says; run `make generate`")
        return 1
    if not check:
        PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
