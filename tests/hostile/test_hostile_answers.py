"""Every hostile answer against every task that parses answers: it fails, and the next is graded as ever.

Through the real pool of grader processes. A new task is one line in `TASKS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from dartes.rewards.opening import DEFAULT_GRADER
from dartes.rewards.pool import GradingPool
from dartes.tasks.base import JSON, Row, TaskSettings
from dartes.tasks.registry import task_named, task_names
from tests.hostile.corpus import wrapped

SECONDS = 20.0
"""Far more than any of these answers takes, so that a slow machine fails none."""


@dataclass(frozen=True, slots=True)
class Case:
    """A task's settings, a problem, and a right answer to it."""

    kind: str
    row: Row
    right: str
    options: Mapping[str, JSON]
    answer_format: str | None = None


def case(kind: str, row: Row, right: str, answer_format: str | None = None, **options: JSON) -> Case:
    """A line of the table."""
    return Case(kind, row, right, options, answer_format)


_GRID = "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1"

TASKS = [
    case("addition", {"a": 40, "b": 2}, "42"),
    case("arithmetic", {"question": "6 x 7", "answer": 42}, "42"),
    case("arithmetic", {"question": "6 x 7", "answer": 42}, "It is 42.", accept="NumberAtEnd"),
    case("gsm8k", {"question": "?", "answer": "#### 42"}, "hm</think>\n#### 42"),
    case("gsm8k", {"question": "?", "answer": "#### 42"}, "hm</think>\n#### **$42**.", accept="Lenient"),
    case("countdown", {"numbers": [6, 7], "target": 42}, "<answer>6*7</answer>"),
    case("countdown", {"nums": [6, 7], "target": 42}, "\\boxed{6*7}", "Boxed"),
    case("math", {"problem": "?", "answer": "42"}, "\\boxed{42}"),
    case("math", {"problem": "?", "answer": "\\sqrt{42}"}, "\\boxed{\\frac{42}{\\sqrt{42}}}"),
    case("math", {"problem": "?", "answer": "x^2+42"}, "\\boxed{42+x^2}"),
    case("multiple-choice", {"question": "?", "choices": list("wxyz"), "answer": 1}, "Answer: B"),
    case("multiple-choice", {"question": "?", "passage": "p", "answer": True}, "\\boxed{yes}"),
    case("conciseness", {"question": "?", "answer": "4"}, "4", toleranceCharacters=0),
    case("sudoku", {"puzzle": _GRID.replace("1 4", ". 4")}, f"<answer>{_GRID}</answer>"),
    case(
        "puzzle", {"question": "6 x 7", "answer": "42", "dataset": "basic_arithmetic"}, "<answer>42</answer>"
    ),
    case("puzzle", {"question": "6 + 7", "answer": "42", "dataset": "gcd"}, "<answer>42</answer>"),
    case("puzzle", {"question": "?", "answer": "42", "dataset": "gsm_symbolic"}, "<answer>42</answer>"),
    case("math", {"problem": "?", "answer": "42^{1005}"}, "\\boxed{42 \\cdot 42^{1004}}"),
    case(
        "ifeval",
        {
            "prompt": "Name a flower that starts with h.",
            "instruction_id_list": ["keywords:existence", "detectable_format:title"],
            "kwargs": [{"keywords": ["heliotrope"]}, {}],
        },
        "<<A flower>>\nheliotrope",
    ),
]
"""At least one line for each task that is graded by parsing."""


@pytest.mark.slow
@pytest.mark.parametrize("case", TASKS, ids=lambda it: it.kind)
def test_a_hostile_answer_never_passes_and_leaves_the_grader_whole(case: Case) -> None:
    settings = TaskSettings(case.kind, answer_format=case.answer_format, options=case.options)
    texts = wrapped()
    answers = [answer for text in texts.values() for answer in (text, case.right)]
    with GradingPool(settings, SECONDS) as pool:
        pool.grade([case.row], [case.right])
        before = pool.process_ids
        grades = pool.grade([case.row] * len(answers), answers)
        assert pool.process_ids == before, "a grader died"
    for name, hostile, right in zip(texts, grades[::2], grades[1::2], strict=True):
        assert not hostile.passed, name
        assert "raised" not in hostile.reason, (name, hostile.reason)
        assert right.passed, f"after {name}: {right.reason}"
    assert not Path("/tmp/owned").exists()


def test_every_task_that_parses_answers_is_in_the_table() -> None:
    graders = {name: getattr(task_named(name), "grader", DEFAULT_GRADER) for name in task_names()}
    parsing = {name for name, grader in graders.items() if grader == DEFAULT_GRADER}
    assert parsing <= {case.kind for case in TASKS}
