"""The code task's layouts, on rows written for these tests in the columns of the data sets."""

import base64
import contextlib
import json
import pickle
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes.rewards.code import CodeGrader, open_code_grader
from dartes.rewards.opening import GraderContext, open_grader
from dartes.sandbox.runs import CheckedRun, ScriptRun
from dartes.tasks.base import (
    Grade,
    Message,
    Row,
    RowError,
    TaskSettings,
    UnreadableReferenceError,
    check_rows,
)
from dartes.tasks.code import CodeTask
from dartes.tasks.code_answers import last_block
from dartes.tasks.code_livecodebench import string_in_pickle
from dartes.tasks.code_verdicts import same_output

HUMANEVAL: Row = {
    "task_id": "Mine/0",
    "prompt": """from typing import List

def helper(x):
    return x + 1

def double(xs: List[int]) -> List[int]:
    '''Twice each number.'''
""",
    "canonical_solution": "    return [2 * x for x in xs]\n",
    "test": """
def check(candidate):
    assert candidate([]) == []
    for x in range(3):
        assert candidate([x]) == [2 * x], 'x'
    assert candidate([helper(1)]) == [4]
""",
    "entry_point": "double",
}
MBPP: Row = {
    "task_id": 1,
    "text": "Write a function that gives the larger of two numbers.",
    "code": "def larger(a, b):\n    return a if a > b else b",
    "test_list": [
        "assert larger(1, 2) == 2",
        "assert larger(2, 1) == 2",
        "assert math.isclose(larger(.1, .2), .2)",
    ],
    "test_setup_code": "",
    "challenge_test_list": [],
}
CLASSES: Row = {
    "prompt": "Write a class Point(x) and a function moved(point, by) that gives the new x.",
    "code": "class Point:\n    def __init__(self, x):\n        self.x = x\ndef moved(point, by):\n"
    "    return point.x + by",
    "test_list": ["assert moved(Point(1), 2) == 3", "assert moved(start, 5) == sqrt(25)"],
    "test_imports": ["from math import sqrt"],
    "test_setup_code": "start = Point(0)",
}
STDIN_TESTS = [
    {"input": "1 2\n", "output": "3\n", "testtype": "stdin"},
    {"input": "5 5\n", "output": "10\n", "testtype": "stdin"},
]
LIVECODEBENCH_STDIN: Row = {
    "question_title": "Sum",
    "question_content": "Two whole numbers stand on one line. Print their sum.",
    "starter_code": "",
    "public_test_cases": json.dumps(STDIN_TESTS[:1]),
    "private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(json.dumps(STDIN_TESTS[1:])))).decode(),
    "metadata": "{}",
}
LIVECODEBENCH_FUNCTION: Row = {
    "question_title": "Pairs",
    "question_content": "Give the ends of a list and its length.",
    "starter_code": "class Solution:\n    def ends(self, xs: List[int], extra: int) -> List[int]:\n        ",
    "public_test_cases": json.dumps(
        [{"input": "[4, 5, 6]\n7", "output": "[4, 6, 10]", "testtype": "functional"}]
    ),
    "private_test_cases": json.dumps([{"input": "[1]\n0", "output": "[1, 1, 1]", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "ends"}),
}
ENDS = """
class Solution:
    def ends(self, xs: List[int], extra: int):
        return (xs[0], xs[-1], len(xs) + extra)
"""
SUM = "a, b = map(int, input().split())\nprint(a + b)"


def block(program: str) -> str:
    return f"<think>\n```\nno\n```\n</think>\nSo:\n```python\n{program}\n```\n"


@pytest.fixture(scope="module")
def grader() -> Iterator[CodeGrader]:
    made = open_code_grader(TaskSettings("code", system="You program."), GraderContext(processes=2))
    yield made
    made.close()


def graded(grader: CodeGrader, row: Row, answer: str) -> Grade:
    return grader.grade([row], [answer])[0]


@pytest.mark.parametrize(
    ("row", "program"),
    [
        (HUMANEVAL, "def double(xs: List[int]):\n    return [x + x for x in xs]"),
        (HUMANEVAL, "    return [x + x for x in xs]"),
        (MBPP, MBPP["code"]),
        (CLASSES, CLASSES["code"]),
        (LIVECODEBENCH_STDIN, SUM),
        (LIVECODEBENCH_STDIN, SUM.replace("a + b", "f'  {a + b}.00 '")),
        (LIVECODEBENCH_FUNCTION, ENDS),
        (LIVECODEBENCH_FUNCTION, "def ends(xs, extra):\n    return [xs[0], xs[-1], len(xs) + extra]"),
    ],
)
def test_a_right_program_passes(grader: CodeGrader, row: Row, program: str) -> None:
    assert graded(grader, row, block(program)) == Grade(True, 1.0, 1.0)


@pytest.mark.parametrize(
    ("row", "program", "share", "reason"),
    [
        (HUMANEVAL, "def double(xs):\n    return xs", 1 / 3, "1 of 3 tests passed; test 2: not so: x"),
        (HUMANEVAL, "def double(xs):\n    raise KeyError('k')", 0.0, "0 of 3 tests passed; test 1: KeyError"),
        (HUMANEVAL, "def double(", 0.0, "0 of 3 tests passed; test 1: the program did not load: SyntaxError"),
        (HUMANEVAL, "raise SystemExit(0)", 0.0, "0 of 3 tests passed; test 1: the program did not load"),
        (MBPP, "def larger(a, b):\n    return b", 2 / 3, "2 of 3 tests passed; test 2: not so"),
        (MBPP, "def other(a, b):\n"
        "    return b", 0.0, "0 of 3 tests passed; test 1: NameError: name 'larger'"),
        (LIVECODEBENCH_STDIN, "print(3)", 0.5, "1 of 2 tests passed; another output"),
        (LIVECODEBENCH_STDIN, SUM + "\nexit(1)", 0.0, "0 of 2 tests passed; exit status 1"),
        (LIVECODEBENCH_STDIN, SUM + "\n1/0", 0.0, "0 of 2 tests passed; exit status 1: ZeroDivisionError"),
        (LIVECODEBENCH_FUNCTION, ENDS.replace("extra)", "'')"), 0.0, "0 of 2 tests passed; test 1: Type"),
        (LIVECODEBENCH_FUNCTION, ENDS.replace("+ extra", ""), 0.5, "1 of 2 tests passed; test 1: not so"),
    ],
)  # fmt: skip
def test_a_wrong_program_fails_with_its_share_and_reason(
    grader: CodeGrader, row: Row, program: str, share: float, reason: str
) -> None:
    grade = graded(grader, row, block(program))
    assert (grade.passed, grade.score, grade.auxiliary) == (False, 0.0, share)
    assert grade.reason.startswith(reason)


def test_the_last_block_counts_and_its_neighbours_are_graded_beside_it(grader: CodeGrader) -> None:
    wrong = block("print(0)")
    answers = [block(SUM) + wrong, wrong + block(SUM), "no program", ""]
    assert [g.passed for g in grader.grade([LIVECODEBENCH_STDIN] * 4, answers)] == [False, True, False, False]


@pytest.mark.parametrize(
    "program",
    [
        "import os\nos._exit(0)",
        "import os\nos.abort()",
        "import os\nos.kill(-1, 9)",
        "import os\nos.kill(os.getppid() or 1, 9)",
        "import sys\nfor _ in range(100): sys.stdout.write('x' * 10**6)",
        "while True: open('x', 'ab').write(bytes(10**6))",
        "x = 'x' * 10**13",
        "import socket\nsocket.socket()",
        "import sys\nsys.exit(0)",
        "\0",
        "\ud800",
    ],
)
@pytest.mark.parametrize("row", [HUMANEVAL, LIVECODEBENCH_STDIN])
def test_a_hostile_program_costs_its_own_answer_only(grader: CodeGrader, row: Row, program: str) -> None:
    right = SUM if row is LIVECODEBENCH_STDIN else "    return [x + x for x in xs]"
    grades = grader.grade([row] * 3, [block(right), block(program), block(right)])
    assert [grade.passed for grade in grades] == [True, False, True]
    assert grades[1].score == 0.0


@pytest.mark.slow
def test_a_program_that_takes_too_long_is_not_tried_again() -> None:
    made = open_code_grader(TaskSettings("code", options={"secondsPerTest": 1}), GraderContext())
    try:
        grade = graded(made, LIVECODEBENCH_STDIN, "while True: pass\n```")
    finally:
        made.close()
    assert grade == Grade.of("0 of 2 tests passed; took too much processor time")


def test_the_sandbox_is_found_by_the_task_and_the_task_itself_runs_nothing() -> None:
    settings = TaskSettings("code")
    made = open_grader(settings, GraderContext())
    made.close()
    with pytest.raises(ConfigurationError, match="sandbox only"):
        CodeTask.from_spec(settings).grade(HUMANEVAL, "")


def test_prompts_are_raw_or_chats() -> None:
    raw, chat = (CodeTask.from_spec(TaskSettings("code", system=system)) for system in (None, "You program."))
    assert raw.prompt(HUMANEVAL) == HUMANEVAL["prompt"]
    assert str(raw.prompt(MBPP)).endswith("\n```python\n")
    for row in (HUMANEVAL, MBPP, CLASSES, LIVECODEBENCH_STDIN, LIVECODEBENCH_FUNCTION):
        messages = chat.prompt(row)
        assert not isinstance(messages, str)
        system, user = messages
        assert system == Message("system", "You program.")
        text = str(row.get("text", row.get("question_content", row.get("prompt"))))
        assert text in user.content
    assert "assert larger(1, 2) == 2\nassert" in str(raw.prompt(MBPP))
    assert "def ends" in str(raw.prompt(LIVECODEBENCH_FUNCTION))


def test_a_raw_prompt_is_continued() -> None:
    raw = CodeTask.from_spec(TaskSettings("code"))
    head = str(HUMANEVAL["prompt"])
    assert program_of(raw, HUMANEVAL, "    return xs\n\nprint('more')") == (head + "    return xs\n",)
    assert program_of(raw, MBPP, "x = 1\n```\nand so on")[1] == "x = 1"
    own = CodeTask.from_spec(TaskSettings("code", prompt="Do {question_content}"))
    assert own.prompt(LIVECODEBENCH_STDIN) == f"Do {LIVECODEBENCH_STDIN['question_content']}"


def program_of(task: CodeTask, row: Row, answer: str) -> tuple[str, ...]:
    run = task.steps(row, answer)[0].run
    return (run.program,) if isinstance(run, ScriptRun) else run.program


def test_references_are_the_data_sets_solutions() -> None:
    task = CodeTask.from_spec(TaskSettings("code"))
    assert task.reference(HUMANEVAL) == HUMANEVAL["canonical_solution"]
    assert task.reference(MBPP) == MBPP["code"]
    assert task.reference(LIVECODEBENCH_STDIN) == ""


def test_options_bound_the_runs() -> None:
    options = {"secondsPerTest": 2, "memoryMiB": 256, "maxTests": 1}
    task = CodeTask.from_spec(TaskSettings("code", options=options))
    steps = task.steps(LIVECODEBENCH_STDIN, "")
    assert [(s.run.limits.seconds, s.run.limits.memory_mib) for s in steps] == [(2, 256)]
    assert isinstance(task.steps(MBPP, "")[0].run, CheckedRun)
    assert task.steps(MBPP, "")[0].tests == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"options": {"secondsPerTest": 0}},
            "task.options.secondsPerTest: must be a whole number from 1 to 600, not 0",
        ),
        ({"options": {"memoryMiB": "big"}}, "task.options.memoryMiB"),
        ({"options": {"tests": 1}}, "has no such option .it has: maxTests, memoryMiB, secondsPerTest"),
        ({"pass_threshold": 0.5}, "task.passThreshold"),
        ({"answer_format": "Tags"}, "task.answerFormat"),
    ],
)
def test_settings_that_the_task_does_not_have_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CodeTask.from_spec(TaskSettings("code", **settings))


def changed(row: Row, **columns: Any) -> Row:
    return {name: value for name, value in {**row, **columns}.items() if value is not None}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q", "answer": "a"}, "of no layout of code problems .there are: answer, question"),
        (changed(HUMANEVAL, entry_point="a b"), "column 'entry_point' must be the name of a function"),
        (changed(HUMANEVAL, test=5), "column 'test' must hold text"),
        (changed(MBPP, test_list="assert 1"), "column 'test_list' must hold a list of texts"),
        (changed(MBPP, test_list=[]), "at least one test"),
        (changed(LIVECODEBENCH_FUNCTION, metadata="{}"), "func_name"),
        (changed(LIVECODEBENCH_FUNCTION, metadata="{"), "column 'metadata' must be JSON"),
        (changed(LIVECODEBENCH_STDIN, public_test_cases="", private_test_cases=""), "hold no test"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(row: Row, message: str) -> None:
    with pytest.raises(RowError, match=message) as error:
        CodeTask.from_spec(TaskSettings("code")).check_row(row)
    assert not isinstance(error.value, UnreadableReferenceError)


@pytest.mark.parametrize(
    "row",
    [
        changed(HUMANEVAL, test="def check(:"),
        changed(MBPP, test_list=["assert ("]),
        changed(LIVECODEBENCH_STDIN, private_test_cases="not base 64!"),
        changed(
            LIVECODEBENCH_STDIN,
            private_test_cases=base64.b64encode(zlib.compress(pickle.dumps([1]))).decode(),
        ),
        changed(LIVECODEBENCH_STDIN, public_test_cases='[{"input": 1}]'),
        changed(LIVECODEBENCH_STDIN, public_test_cases="[" * 10**5),
        changed(
            LIVECODEBENCH_FUNCTION,
            private_test_cases='[{"input": "x", "output": "1", "testtype": "functional"}]',
        ),
    ],
)
def test_tests_that_cannot_be_read_are_an_unreadable_reference_and_never_pass(
    grader: CodeGrader, row: Row
) -> None:
    with pytest.raises(UnreadableReferenceError):
        CodeTask.from_spec(TaskSettings("code")).check_row(row)
    grade = graded(grader, row, block(SUM))
    assert not grade.passed
    assert grade.reason.startswith("the tests cannot be read")


def test_good_rows_are_checked_without_a_word() -> None:
    task = CodeTask.from_spec(TaskSettings("code"))
    assert (
        check_rows(task, [HUMANEVAL, MBPP, CLASSES, LIVECODEBENCH_STDIN, LIVECODEBENCH_FUNCTION], "mine")
        == []
    )


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('executed')",))


@pytest.mark.parametrize("value", [Evil(), ["a"], {"a": 1}, 5, ("a", "b"), b"bytes"])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_anything_but_a_text_is_refused_unread(value: object, protocol: int) -> None:
    with pytest.raises(ValueError, match="pickle of"):
        string_in_pickle(pickle.dumps(value, protocol))


@given(st.text(), st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_a_pickled_text_is_read_as_it_was(text: str, protocol: int) -> None:
    assert string_in_pickle(pickle.dumps(text, protocol)) == text


@given(st.binary())
def test_no_bytes_do_worse_than_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(string_in_pickle(data), str)


def test_tests_that_unpack_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dartes.tasks.code_livecodebench.LARGEST_TESTS", 1000)
    bomb = base64.b64encode(zlib.compress(pickle.dumps("[" + " " * 10**6 + "]"))).decode()
    with pytest.raises(UnreadableReferenceError, match="more than"):
        CodeTask.from_spec(TaskSettings("code")).check_row(
            changed(LIVECODEBENCH_STDIN, private_test_cases=bomb)
        )


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        ("1 2\n3", "1 2\n3\n", True),
        (" a \n b", "a\nb", True),
        ("1.0 2", "1 2.00", True),
        ("1e3", "1000", True),
        ("0.1", "0.10000001", False),
        ("a b", "a  b", False),
        ("1\n\n2", "1\n2", False),
        ("", "\n", True),
        ("nan", "NaN", False),
        ("inf", "Infinity", False),
        ("1" * 500, "1" * 500 + ".0", False),
        ("YES", "yes", False),
        ("1_000", "1000", True),
    ],
)
def test_outputs_are_compared_line_by_line_and_numbers_by_value(
    found: str, expected: str, same: bool
) -> None:
    assert same_output(found, expected) is same


@given(st.text(alphabet="1 .\ne-`nas", max_size=30), st.text(alphabet="1 .\ne-`nas", max_size=30))
def test_comparing_is_symmetric_and_finds_each_output_like_itself(one: str, other: str) -> None:
    assert same_output(one, one)
    assert same_output(one, other) == same_output(other, one)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```python\na = 1\n```\nThat is it.", "a = 1"),
        # A prompt that has opened a block, and a model that opens one again.
        ("```python\n```python\na = 1\n```", "a = 1"),
        ("Words.\n```python\na = 1", "a = 1"),
        ("```\na = 1", "a = 1"),
        # The end of what a raw prompt began, with words after it.
        ("    return 1\n```", None),
        ("    return 1\n```\nThis returns 1.", None),
        ("a = 1", None),
        ("```\na\n```\n```\nb\n```", "b"),
    ],
)
def test_the_program_is_found_where_a_reader_would_find_it(text: str, found: str | None) -> None:
    assert last_block(text) == found


@pytest.mark.parametrize("end", ["", "\n```", "\n```\nThis doubles every item.", "\n\nprint(f([1]))"])
def test_what_stands_behind_a_continued_function_does_not_matter(grader: CodeGrader, end: str) -> None:
    assert graded(grader, HUMANEVAL, "    return [x + x for x in xs]" + end).passed
