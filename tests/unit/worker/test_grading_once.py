"""The same answer to the same problem is graded once per iteration, and always gets the same grade."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dartes.rewards.pool import GradingPool
from dartes.tasks.base import Grade, Row
from dartes_worker import evaluate
from dartes_worker.evaluate import ProblemSet
from dartes_worker.setup import Equipment


class Counting:
    """A pool that notes what it is asked."""

    def __init__(self, pool: GradingPool) -> None:
        self._pool = pool
        self.asked: list[str] = []

    def grade(self, rows: Sequence[Row], completions: Sequence[str]) -> list[Grade]:
        self.asked += completions
        return self._pool.grade(rows, completions)


@pytest.fixture
def counted(equipment: Equipment) -> tuple[ProblemSet, Counting]:
    counting = Counting(equipment.train.pool)
    return replace(equipment.train, pool=counting, _grades={}, _graded_in=-1), counting  # type: ignore[arg-type]


def right(problems: ProblemSet, row: int) -> str:
    a, b = problems.dataset.rows[row]["a"], problems.dataset.rows[row]["b"]
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
    monkeypatch.setattr(evaluate, "REMEMBERED_CHARACTERS", 10)
    problems.grade([1], ["x" * 11], 0)
    problems.grade([1, 1], ["y", "x" * 11], 0)
    assert counting.asked == ["x" * 11, "y", "x" * 11]
