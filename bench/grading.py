"""How fast answers are graded: 10,000 answers to GSM8K problems, and as many to mathematics problems.

Through the pool of grader processes that a worker uses, two of them. Answers are of the length that models
write, about 1,000 characters; half of them are right. A mathematics batch is 30 members' answers to the same
problems, so that answers repeat as they do in a run.

Usage: python -m bench.grading [--answers 10000] [--processes 2]
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.common import Figure, Row, all_reached, report
from dartes.rewards.pool import GradingPool
from dartes.tasks.base import Row as Problem
from dartes.tasks.base import TaskSettings

SECONDS_PER_ANSWER: Final = 5.0
GSM8K_SECONDS: Final = 2.0
ANSWER_CHARACTERS: Final = 1000
MEMBERS: Final = 30
REPEATS: Final = 3

NUMBERS: Final = (
    "17",
    "\\frac{3}{8}",
    "-4",
    "1,250",
    "0.75",
    "2\\frac{1}{3}",
    "60^\\circ",
    "45\\%",
    "12\\text{ cm}",
)
FORMS: Final = (
    "(2, -3)",
    "[1, \\infty)",
    "1, 4, 9",
    "\\{3, 5\\}",
    "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}",
    "\\text{odd}",
)
ALGEBRA: Final = (
    ("\\frac{\\sqrt{3}}{2}", "\\frac{3}{2\\sqrt{3}}"),
    ("x^2 + 2x + 1", "(x+1)^2"),
    ("2\\pi r", "r \\cdot 2 \\pi"),
    ("y = 3x - 2", "3x - y = 2"),
    ("\\sqrt{50}", "5\\sqrt{2}"),
)
"""What references of MATH are made of: two thirds numbers, a fifth lists and intervals, the rest algebra."""


@dataclass(frozen=True)
class Batch:
    """Answers to grade, and how many of them are right."""

    task: str
    rows: Sequence[Problem]
    answers: Sequence[str]
    right: int


def filler(draw: random.Random, characters: int) -> str:
    """Working of a given length, with numbers in it."""
    words = (
        "so",
        "we",
        "have",
        "then",
        "add",
        "of",
        "the",
        "each",
        "left",
        "12",
        "= 48",
        "3 x 16",
        "$7",
        "\\frac{1}{2}",
    )
    text = ""
    while len(text) < characters:
        text += draw.choice(words) + (".\n" if draw.random() < 0.1 else " ")
    return text


def gsm8k(count: int, draw: random.Random) -> Batch:
    """Thoughts in think tags and a number behind the mark."""
    rows: list[Problem] = []
    answers = []
    for index in range(count):
        value = draw.randrange(2000)
        rows.append({"question": filler(draw, 200), "answer": f"{filler(draw, 300)}\n#### {value}"})
        said = value if index % 2 else value + 1
        answers.append(f"{filler(draw, ANSWER_CHARACTERS)}</think>\n#### {said:,}")
    return Batch("gsm8k", rows, answers, count // 2)


def math(count: int, draw: random.Random) -> Batch:
    """Boxes with numbers, lists and algebra; a wrong answer is another problem's right one, or close."""
    rows: list[Problem] = []
    answers: list[str] = []
    right = 0
    while len(answers) < count:
        kind = draw.random()
        same = draw.choice(NUMBERS if kind < 2 / 3 else FORMS)
        reference, written = (same, same) if kind < 13 / 15 else draw.choice(ALGEBRA)
        for _ in range(min(MEMBERS, count - len(answers))):
            is_right = draw.random() < 0.5
            wrong = draw.choice(
                (
                    str(draw.randrange(200, 300)),
                    "x + 1",
                    f"\\frac{{{draw.randrange(1, 9)}}}{{7}}",
                    "\\sqrt{2}",
                )
            )
            answers.append(f"{filler(draw, ANSWER_CHARACTERS)} \\boxed{{{written if is_right else wrong}}}")
            rows.append({"problem": filler(draw, 200), "answer": reference})
            right += is_right
    return Batch("math", rows, answers, right)


def seconds_to_grade(batch: Batch, processes: int) -> float:
    """Wall time for the batch, in warm graders; the median of several fresh pools."""
    times = []
    for _ in range(REPEATS):
        with GradingPool(TaskSettings(batch.task), SECONDS_PER_ANSWER, processes) as pool:
            pool.grade(batch.rows[:processes], batch.answers[:processes])
            start = time.perf_counter()
            grades = pool.grade(batch.rows, batch.answers)
            times.append(time.perf_counter() - start)
        passed = sum(grade.passed for grade in grades)
        if passed != batch.right:
            raise RuntimeError(f"{batch.task}: {passed} answers passed, {batch.right} are right")
    return median(times)


def main() -> int:
    """Measure, print and write; 1 if grading is too slow."""
    parser = argparse.ArgumentParser(prog="python -m bench.grading", description=__doc__)
    parser.add_argument("--answers", type=int, default=10_000, help="in each batch")
    parser.add_argument("--processes", type=int, default=2, help="grader processes")
    options = parser.parse_args()
    if options.answers < 2 or options.processes < 1:
        parser.error("at least 2 answers and 1 process")
    batches = [gsm8k(options.answers, random.Random(1)), math(options.answers, random.Random(2))]
    rows: list[Row] = []
    for batch in batches:
        seconds = seconds_to_grade(batch, options.processes)
        rows.append(
            {
                "task": batch.task,
                "answers": len(batch.answers),
                "mean characters": round(sum(map(len, batch.answers)) / len(batch.answers)),
                "right": batch.right,
                "seconds": round(seconds, 3),
                "answers per second": round(len(batch.answers) / seconds),
            }
        )
    measured = float(str(rows[0]["seconds"]))
    as_asked = (options.answers, options.processes) == (10_000, 2)
    figures = [
        Figure(
            "10,000 GSM8K answers on two cores",
            f"at most {GSM8K_SECONDS:.0f} s",
            f"{measured:.2f} s",
            measured <= GSM8K_SECONDS if as_asked else None,
        ),
        Figure("as many mathematics answers", "no figure asked", f"{rows[1]['seconds']} s", None),
    ]
    meta = {"processes": options.processes, "repeats": REPEATS, "members per problem (math)": MEMBERS}
    report("grading", rows, meta, figures)
    return 0 if all_reached(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
