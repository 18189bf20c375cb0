"""The same answer to the same problem is graded once per iteration, and always gets the same grade."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dartes.rewards.opening import Grader
from dartes.tasks.base import Grade, Row
from dartes_worker import problems as module
from dartes_worker.problems import ProblemSet
from dartes_worker.setup import Equipment


class Counting:
    """A pool that notes what it is asked."""

    def __init__(self, pool: Grader) -> None:
        self._pool = pool
        self.asked: list[str] = []

    def grade(self, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        self.asked += completions
        return self._pool.grade(rows, completions)

    def close(self) -> None:
        raise AssertionError("the pool is the fixture's")


@pytest.fixture
def counted(equipment: Equipment) -> tuple[ProblemSet, Counting]:
    (part,) = equipment.stages[0].parts
    counting = Counting(part.grader())
    own = replace(part, grader=lambda: counting)
    return replace(equipment.stages[0], parts=(own,), _grades={}, _graded_in=-1), counting


def right(problems: ProblemSet, row: int) -> str:
    problem = problems.parts[0].dataset.rows[row]
    a, b = problem["a"], problem["b"]
    assert isinstance(a, int)
    assert isinstance(b, int)
    return str(a + b)


def test_members_that_agree_cost_one_grading(counted: tuple[ProblemSet, Counting]) -> None:
    problems, counting = counted
    answers = [right(problems, 4), "?", "?"]
    first = problems.grade([4, 5, 5], answers, 0)
    again = problems.grade([4, 5, 6], answers, 0)
    assert counting.asked == [*answers[:2], "?"], "only problem 6 is new in the second call"
    assert [grade.passed for grade in first] == [True, False, False]
    assert again[:2] == first[:2]


def test_the_same_answer_to_another_problem_is_graded_for_that_problem(
    counted: tuple[ProblemSet, Counting],
) -> None:
    problems, _ = counted
    other = next(row for row in range(32) if right(problems, row) != right(problems, 0))
    grades = problems.grade([0, other, 0], [right(problems, 0)] * 3, 0)
    assert [grade.passed for grade in grades] == [True, False, True]


def test_another_iteration_grades_anew(counted: tuple[ProblemSet, Counting]) -> None:
    problems, counting = counted
    assert problems.grade([1], ["?"], 0) == problems.grade([1], ["?"], 1)
    assert counting.asked == ["?", "?"]


def test_what_is_kept_is_bounded(
    counted: tuple[ProblemSet, Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    problems, counting = counted
    monkeypatch.setattr(module, "REMEMBERED_CHARACTERS", 10)
    problems.grade([1], ["x" * 11], 0)
    problems.grade([1, 1], ["y", "x" * 11], 0)
    assert counting.asked == ["x" * 11, "y", "x" * 11]
