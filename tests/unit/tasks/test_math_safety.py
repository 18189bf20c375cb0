"""Boxes with code, or with more than fits in memory: nothing runs, nothing hangs, the time is bounded."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dartes.tasks.base import TaskSettings
from dartes.tasks.math import MathTask
from dartes.tasks.math_bounds import refusal
from dartes.tasks.math_equality import equal
from dartes.tasks.math_symbolic import OutOfTimeError, time_limit

pytestmark = pytest.mark.slow

TASK = MathTask.from_spec(TaskSettings("math"))


def passes(reference: str, answer: str) -> bool:
    row = {"problem": "?", "answer": reference}
    TASK.check_row(row)
    return TASK.grade(row, f"So it is \\boxed{{{answer}}}.").passed


HUGE = [
    "9^{9^{9^9}}",
    "9^{9^{9}}",
    "2^{999*999*999}",
    "((9^{999})^{999})^{999}",
    "(x+y+z)^{1000}",
    "e^{e^{e^{99}}}",
    "\\binom{10^9}{10^8}",
    "\\binom{1000}{500}",
    "(((99)!)!)!",
    "10000!",
    "5!!",
    "x^{-9999}",
    "1e999999999",
    "9" * 30,
    "(" * 13 + "1" + ")" * 13,
    "x" * 400,
    "\\int_0^1 x dx",
    "\\sum_{n=1}^{9} n",
    "\\operatorname{eye}(9999)",
    "\\lim_{x\\to 0} x",
    "__import__('os').system('id')",
    "x'",
    "a;b",
    "a@b",
    "{",
    "\\variable{x}",
    "f.__class__",
    "lambda:1",
    "5_3",
    "\\gcd(1,2)",
    "\\text{a}",
]


@pytest.mark.parametrize("text", HUGE)
def test_what_is_too_large_or_no_expression_never_reaches_algebra(text: str) -> None:
    assert refusal(text)
    assert not equal("\\sqrt{2}", text)


@pytest.mark.parametrize(
    "text",
    [
        "x^{2}+1",
        "\\frac{\\sqrt{3}}{2}",
        "2^{1000}",
        "e^{x^{2}}",
        "50!",
        "\\binom{10}{3}",
        "(x+1)^{12}",
        "x_{1}",
    ],
)
def test_ordinary_expressions_reach_algebra(text: str) -> None:
    assert refusal(text) == ""


@pytest.mark.parametrize(
    "payload",
    [
        "__import__('os').mkdir('{path}')",
        "\\text{{__import__('os').mkdir('{path}')}}",
        'f(__import__("os").mkdir("{path}"))',
        "1.__class__.__base__.__subclasses__()",
        "x_{{__import__('os').mkdir('{path}')}}",
        "\\operatorname{{__import__('os').mkdir}}('{path}')",
        "\\variable{{__import__('os').mkdir('{path}')}}",
        "exec(open('{path}','w').write('x'))",
    ],
)
def test_code_in_a_box_is_never_run(payload: str, tmp_path: Path) -> None:
    target = tmp_path / "made"
    answer = payload.format(path=target) if "{path}" in payload else payload
    assert not passes("\\sqrt{2}", answer)
    assert not passes("x+1", answer)
    assert not os.path.lexists(target)


SEALED = """
import os
from dartes.tasks.math import MathTask
from dartes.tasks.math_equality import equal
from sympy import sympify

MathTask.prepare()
for attempt in (lambda: sympify("1+1"), lambda: os.system("true"), os.fork):
    try:
        attempt()
    except Exception as error:
        print(type(error).__name__)
print(equal("x^2-1", "(x-1)(x+1)"), equal("\\\\tan x", "\\\\frac{\\\\sin x}{\\\\cos x}"))
"""


def test_a_prepared_process_computes_but_runs_no_text_and_no_program() -> None:
    done = subprocess.run([sys.executable, "-c", SEALED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ValueError", "PermissionError", "PermissionError", "True", "True"]


def test_a_computation_is_ended_by_its_cpu_time() -> None:
    with pytest.raises(OutOfTimeError):
        _spin(0.05)
    with time_limit(5.0):
        pass


def _spin(cpu_seconds: float) -> None:
    with time_limit(cpu_seconds):
        while True:
            pass


def test_without_a_main_thread_there_is_no_limit() -> None:
    done: list[bool] = []

    def work() -> None:
        with time_limit(0.001):
            done.append(sum(range(10**6)) > 0)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
