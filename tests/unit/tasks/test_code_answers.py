"""Which part of an answer is its program, for answers as chat models write them."""

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.rewards.code import CodeGrader, open_code_grader
from dartes.rewards.opening import GraderContext
from dartes.tasks import code_livecodebench
from dartes.tasks.base import Row, TaskSettings
from dartes.tasks.code import CodeTask
from dartes.tasks.code_answers import (
    begins_as_continuation,
    continuation,
    defines,
    last_block,
    last_script,
    opened_fence,
)
from dartes.tasks.code_checks import LONGEST_REMEMBERED, count_asserts

HUMANEVAL: Row = {
    "prompt": 'def triple(x):\n    """Three times x."""\n',
    "test": "def check(candidate):\n    assert candidate(2) == 6\n    assert candidate(0) == 0\n",
    "entry_point": "triple",
}
MBPP: Row = {
    "text": "Write a function that multiplies a number by three.",
    "test_list": ["assert triple(2) == 6", "assert triple(start) == 0"],
    "test_setup_code": "start = 0",
}
FUNCTION: Row = {
    "question_content": "Give three times a number.",
    "starter_code": "class Solution:\n    def triple(self, x: int) -> int:\n        ",
    "public_test_cases": '[{"input": "2", "output": "6", "testtype": "functional"}]',
    "metadata": '{"func_name": "triple"}',
}
STDIN: Row = {
    "question_content": "Read a number and print three times it.",
    "public_test_cases": '[{"input": "2\\n", "output": "6\\n", "testtype": "stdin"}]',
}
PLAIN = "def triple(x):\n    return 3 * x"
METHOD = "class Solution:\n    def triple(self, x: int) -> int:\n        return 3 * x"
SCRIPT = "def solve():\n    x = int(input())\n    print(3 * x)\n\nsolve()"

USAGE = {
    "triple": "start = 5\nprint(triple(start))",
    "Solution": "print(Solution().triple(5))",
    "solve": "# reads from the keyboard\nsolve()\nprint(solve() is None)",
}
ROWS = [
    (HUMANEVAL, PLAIN, USAGE["triple"]),
    (MBPP, PLAIN, USAGE["triple"]),
    (FUNCTION, METHOD, USAGE["Solution"]),
    (FUNCTION, PLAIN, USAGE["triple"]),
    (STDIN, SCRIPT, USAGE["solve"]),
]
ROW_IDS = ["humaneval", "mbpp", "method", "function", "stdin"]
BEHIND = {
    "nothing": "",
    "an example": "\n\nExample usage:\n```python\n{usage}\n```\n",
    "an example that never closes": "\n\nExample usage:\n```python\n{usage}",
    "an output": "\n\nIt prints:\n```\n15\n```\n",
    "a labelled output": "\n\n**Output**\n```text\n15\n```",
    "a sample": "\n\nFor example:\n```\nInput: 5\nOutput: 15\n```",
    "a shell": "\n\nRun it with\n```bash\npython answer.py\n```\n",
    "a shell and its output": "\n\n```console\n$ python answer.py\n15\n```\n~~~output\n15\n~~~\n",
    "data": '\n\n```json\n{{"triple": 15}}\n```',
    "code on one line": "\n\nCall\n```triple(5)```\nand see.",
}
FENCES = {
    "backticks": "Here it is:\n\n```python\n{program}\n```",
    "no word": "Here it is:\n```\n{program}\n```",
    "a version": "```Python3\n{program}\n```",
    "a title": '``` py title="answer.py"\n{program}\n```',
    "braces": "```{{.python .numberLines}}\n{program}\n```",
    "tildes": "Here it is:\n~~~python\n{program}\n~~~",
    "four backticks": "````python\n{program}\n````",
    "a longer end": "```python\n{program}\n`````",
    "carriage returns": "```python\r\n{program}\r\n```\r",
}


@pytest.fixture(scope="module")
def grader() -> Iterator[CodeGrader]:
    made = open_code_grader(TaskSettings("code", system="You program."), GraderContext())
    yield made
    made.close()


def chosen(row: Row, answer: str) -> str:
    """The source of an answer that defines what is asked for, or is the script."""
    run = CodeTask.from_spec(TaskSettings("code", system="You program.")).steps(row, answer)[0].run
    sources = (run.program,) if isinstance(run.program, str) else run.program
    return sources[0] if len(sources) == 1 else sources[1]


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize(("row", "program", "usage"), ROWS, ids=ROW_IDS)
def test_what_stands_behind_a_solution_does_not_matter(
    row: Row, program: str, usage: str, behind: str
) -> None:
    answer = f"A first idea:\n```python\nx = 3\n```\nSo:\n```python\n{program}\n```"
    assert chosen(row, answer + BEHIND[behind].format(usage=usage)) == program


@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize(("row", "program", "usage"), ROWS, ids=ROW_IDS)
def test_a_solution_may_be_fenced_in_any_way(row: Row, program: str, usage: str, fence: str) -> None:
    answer = FENCES[fence].format(program=program) + BEHIND["an output"]
    assert chosen(row, answer).rstrip("\r") == program, usage


@pytest.mark.parametrize("indent", ["   ", "      ", "\t"])
@pytest.mark.parametrize(("row", "program", "usage"), ROWS, ids=ROW_IDS)
def test_a_block_in_a_list_loses_the_indent_of_its_fence(
    row: Row, program: str, usage: str, indent: str
) -> None:
    block = "\n".join(indent + line for line in f"```python\n{program}\n```".split("\n"))
    example = "\n".join(indent + line for line in f"```python\n{usage}\n```".split("\n"))
    assert chosen(row, f"1. Write this:\n\n{block}\n\n2. Then try\n\n{example}") == program


@pytest.mark.parametrize("behind", BEHIND)
def test_ordinary_answers_pass(grader: CodeGrader, behind: str) -> None:
    answers = [f"So:\n\n```python\n{p}\n```{BEHIND[behind].format(usage=u)}" for _, p, u in ROWS]
    grades = grader.grade([row for row, _, _ in ROWS], answers)
    assert [grade.reason for grade in grades] == [""] * len(ROWS)


def test_a_program_may_begin_with_a_future_import(grader: CodeGrader) -> None:
    answers = [f"```python\nfrom __future__ import annotations\n{p}\n```" for _, p, _ in ROWS]
    grades = grader.grade([row for row, _, _ in ROWS], answers)
    assert [grade.reason for grade in grades] == [""] * len(ROWS)


def test_fences_in_a_docstring_do_not_end_a_block() -> None:
    inside = 'def f():\n    """Like this:\n\n    ```python\n    f()\n    ```\n    """\n    return 1'
    assert last_block(f"```python\n{inside}\n```") == inside
    at_margin = inside.replace("\n    ", "\n").replace("\n```python", "\n```")
    assert last_block(f"````python\n{at_margin}\n````") == at_margin
    assert last_block(f"~~~\n{at_margin}\n~~~") == at_margin


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```bash\nls\n```", None),
        ("```c++\nint f;\n```\n```python-repl\n>>> f\n```\n```pycon\n>>> f\n```", None),
        ("```python\na\n```\n```text\nb", "a"),
        ("```markdown\nSo:\n```python\na\n```\n```", "a"),
        ("~~~~~~~~\nTitle\n```python\na\n```\nMore.", "a"),
        ("```python\na\n```\nBetter:\n```python\nb", "a"),
        ("```bash\nls\n```\n```python\nb", "b"),
        ("```python\na\n~~~\n````\n", "a\n~~~"),
    ],
)
def test_only_blocks_in_python_count(text: str, found: str | None) -> None:
    assert last_block(text) == found


def test_the_last_definition_counts_and_without_any_the_last_block() -> None:
    def define_f(source: str) -> int:
        return int(defines(source, "f"))

    first, second = "def f(): return 1", "def f(): return 2"
    both = f"```python\n{first}\n```\nBetter:\n```python\n{second}\n```\n```python\nf()\n```"
    assert last_block(both, define_f) == second
    assert last_block(f"```python\nf()\n```\nSo:\n```python\n{first}", define_f) == first
    assert last_block("```python\ng()\n```\n```python\nf()\n```", define_f) == "f()"


def test_the_block_that_defines_most_of_what_the_tests_call_counts() -> None:
    row = {"text": "t", "test_list": ["assert moved(Point(1)) == 2"]}
    whole = "class Point:\n    pass\ndef moved(p):\n    return 2"
    assert chosen(row, f"```python\n{whole}\n```\nTry:\n```python\nPoint = str\n```") == whole


@pytest.mark.parametrize(
    ("source", "it_does"),
    [
        ("def f(x): ...", True),
        ("async def f(): ...", True),
        ("class f:", True),
        ("f = g", True),
        ("f: Callable[..., int] = g", True),
        ("x = 1\nf=g", True),
        ("def ff(): ...", False),
        ("    def f(): ...", False),
        ("f == 1", False),
        ("f(1)", False),
        ("from answer import f", False),
    ],
)
def test_a_name_is_defined_at_the_left_margin(source: str, it_does: bool) -> None:
    assert defines(source, "f") is it_does


def test_the_last_whole_script_counts() -> None:
    helper = "def find(x):\n    return x"
    whole = "def find(x):\n    return 2 * x\ns = input()\nprint(find(s), s.find('a'))"
    other = "s = input()\nprint(s.find('b'))"
    assert (
        last_script(f"```python\n{helper}\n```\n```python\n{whole}\n```\n```python\n{helper}\n```") == whole
    )
    assert last_script(f"```python\n{whole}\n```\nOr:\n```python\n{other}\n```\n```\n3\n```") == other
    assert last_script(f"```\n{helper}\n```") == helper
    assert last_script("words") is None


@pytest.mark.parametrize(
    "end",
    [
        "\n```\n\nFor example:\n```python\nprint(triple(1))\n```",
        "\n```\nOutput:\n```\n3\n```",
        "\n\n```bash\nls\n```",
    ],
)
def test_blocks_behind_a_continued_function_do_not_matter(end: str) -> None:
    head = HUMANEVAL["prompt"]
    assert chosen(HUMANEVAL, "    return 3 * x" + end).rstrip() == f"{head}    return 3 * x"
    assert chosen(HUMANEVAL, "```python\n    return 3 * x\n```") == f"{head}    return 3 * x"
    assert not begins_as_continuation(" So:\n    return 3 * x")


@pytest.mark.parametrize(
    "text",
    [
        " " * 65_000 + "```",
        "f" + " " * 65_000,
        "f:" * 32_000,
        "f:\n" * 20_000,
        "```py\n" * 10_000,
        "`" * 65_000,
        "```\n\n```\n" * 7_000,
        "~~~py\nf(\n~~~\n" * 5_000,
        (" " * 30 + "\n") * 2_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_finding_a_program_takes_time_in_proportion_to_the_answer(text: str) -> None:
    begun = time.process_time()
    last_script(text)
    last_block(text, lambda source: int(defines(source, "f")))
    defines(text, "f")
    begins_as_continuation(text)
    assert time.process_time() - begun < 2.0


@given(st.text(alphabet="`~ap\ty \n", max_size=60))
def test_finding_a_program_never_fails_and_invents_nothing(text: str) -> None:
    opened = opened_fence("```python")
    for found in (last_block(text), last_block(opened + text), last_script(text)):
        lines = {"", *(line.strip() for line in text.split("\n"))}
        assert found is None or all(line.strip() in lines for line in found.split("\n"))
    assert text.startswith(continuation(text))


def test_checking_rows_keeps_nothing_and_grading_the_tests_of_one_row_only() -> None:
    remembered = code_livecodebench._remembered_tests
    remembered.cache_clear()
    task = CodeTask.from_spec(TaskSettings("code"))
    rows = [{**STDIN, "private_test_cases": f'[{{"input": "{n}", "output": "{n}"}}]'} for n in range(5)]
    for row in rows:
        task.check_row(row)
    assert remembered.cache_info().currsize == 0
    for row in rows:
        assert len(task.steps(row, "")) == 2
    assert remembered.cache_info().currsize == 2


def test_long_tests_are_not_remembered() -> None:
    short = "assert f() == 1"
    assert count_asserts(short) is count_asserts(short)
    long = f"assert f() == 1  # {'x' * LONGEST_REMEMBERED}"
    assert count_asserts(long) is not count_asserts(long)


def test_all_tests_of_a_script_share_its_source() -> None:
    row = {**STDIN, "private_test_cases": STDIN["public_test_cases"]}
    first, second = (step.run for step in CodeTask.from_spec(TaskSettings("code")).steps(row, "x = 1\n```"))
    assert first.program is second.program
