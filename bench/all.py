"""All measurements of this folder in sequence, then one table of every figure: what `make bench` runs.

Each script runs as a process of its own; what it asked for and measured is read from the results that it
wrote. Exit code 1 where one missed its figure or did not run through.

Usage: python -m bench.all [NAME ...] [--smollm2 MODEL_DIR]
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.common import RESULTS, Figure, figure_row, format_table
from bench.runs_support import ROOT, add_model_option

NOT_BENCHES: Final = ("__init__", "all", "common", "gpu_check")
TAKE_A_MODEL: Final = (
    "memory",
    "overhead",
    "vllm_join",
    "vllm_memory",
    "vllm_published",
    "vllm_throughput",
)
"""Scripts that measure SmolLM2 too, where there is one."""


@dataclass(frozen=True)
class Outcome:
    """How one script ended."""

    name: str
    code: int
    seconds: float
    figures: tuple[Figure, ...]


def bench_names() -> list[str]:
    """Every script of this folder; helpers end in `_support`."""
    names = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in names if name not in NOT_BENCHES and not name.endswith("_support"))


def run_bench(name: str, arguments: Sequence[str]) -> Outcome:
    """Run one script, whose output goes to ours."""
    print(f"== {name}", flush=True)
    started, began = time.monotonic(), time.time()
    code = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *arguments], cwd=ROOT, check=False
    ).returncode
    seconds = time.monotonic() - started
    return Outcome(name, code, seconds, tuple(figures_of(name, code, began)))


def figures_of(name: str, code: int, began: float) -> list[Figure]:
    """The figures that a script wrote since `began`; its exit code stands for one where it wrote none."""
    path = RESULTS / f"{name}.json"
    if not path.exists() or path.stat().st_mtime < began:
        return [Figure(name, "results", "it wrote none", False)]
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    figures = [Figure(**figure) for figure in document.get("figures", [])]
    if not figures:
        return [Figure(name, "exit code 0", f"{code}; see {path.name}", code == 0)]
    if code != 0 and all(figure.reached is not False for figure in figures):
        figures.append(Figure(name, "exit code 0", str(code), False))
    return figures


def main() -> int:
    """Run them all; 1 if any figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.all", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="some of them (default: all)")
    add_model_option(parser)
    options = parser.parse_args()
    known = bench_names()
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"no such measurement: {', '.join(unknown)}; there are {', '.join(known)}")
    model = [] if options.smollm2 is None else ["--smollm2", str(options.smollm2.absolute())]
    outcomes = [run_bench(name, model if name in TAKE_A_MODEL else []) for name in options.names or known]
    print("== all")
    rows = [
        {"measurement": outcome.name, **figure_row(figure)}
        for outcome in outcomes
        for figure in outcome.figures
    ]
    print(format_table(rows))
    for outcome in outcomes:
        print(f"{outcome.name}: {outcome.seconds:.0f} s")
    missed = [outcome.name for outcome in outcomes if any(f.reached is False for f in outcome.figures)]
    print(f"missed: {', '.join(missed)}" if missed else "every figure that was measured is reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
