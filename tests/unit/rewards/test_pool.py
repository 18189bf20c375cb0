"""A pool grades like the task itself; an answer that hangs or kills its grader costs itself only."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dartes.rewards import pool as pool_module
from dartes.rewards import protocol
from dartes.rewards.pool import ANSWER_LIMIT, GradingPool, next_request
from dartes.rewards.process import GraderStartError
from dartes.rewards.protocol import FRAME_HEADER_BYTES
from dartes.spec.task import TaskSpec
from dartes.tasks.base import Row, TaskSettings
from dartes.tasks.countdown import CountdownTask

pytestmark = pytest.mark.slow

LIMIT = 0.2
ROW: Row = {"a": 1, "b": 2}


@pytest.fixture
def hostile_pool(hostile_module: str) -> Iterator[GradingPool]:
    with GradingPool(TaskSettings("addition"), LIMIT, address=f"{hostile_module}:HostileTask") as pool:
        yield pool


@pytest.fixture(scope="module")
def countdown_pool() -> Iterator[GradingPool]:
    with GradingPool(TaskSpec(kind="countdown"), 20.0) as pool:
        yield pool


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.lists(st.text() | st.just("hm</think>\n<answer>3*5+7</answer>"), max_size=8))
def test_a_pool_gives_the_grades_that_the_task_gives(
    countdown_pool: GradingPool, completions: list[str]
) -> None:
    row: Row = {"numbers": [3, 5, 7], "target": 22}
    task = CountdownTask.from_spec(TaskSettings("countdown"))
    assert countdown_pool.grade([row] * len(completions), completions) == [
        task.grade(row, completion) for completion in completions
    ]


@pytest.mark.parametrize(
    "completion", ["", "\ud800\udfff", "<answer>95**88**77</answer>", "<answer>" + "(" * 10**6, "é\x00\n"]
)
def test_no_answer_of_a_model_troubles_the_graders(countdown_pool: GradingPool, completion: str) -> None:
    row: Row = {"numbers": [95, 88, 77], "target": 1}
    bad, good = countdown_pool.grade([row, row], [completion, "<answer>95-88-77</answer>"])
    assert not bad.passed
    assert "died" not in bad.reason
    assert good.reason == "misses the target"


def test_an_answer_is_cut_before_it_is_sent() -> None:
    row: Row = {"question": "q", "answer": "5"}
    with GradingPool(TaskSpec(kind="gsm8k"), 20.0) as pool:
        kept, cut = pool.grade([row] * 2, ["#### 5 ".ljust(10**6), " " * ANSWER_LIMIT + "#### 5"])
    assert kept.passed
    assert not cut.passed


def test_rows_of_many_bytes_are_sent_in_requests_of_bounded_size(
    hostile_pool: GradingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "FRAME_LIMIT", 10_000)
    monkeypatch.setattr(pool_module, "CHUNK_BYTES", 8_000)
    monkeypatch.setattr(pool_module, "PAIR_LIMIT", 9_900)
    rows: list[Row] = [{**ROW, "text": "€" * (1_500 if number == 4 else 300)} for number in range(9)]
    grades = hostile_pool.grade(rows, ["3", "4"] * 4 + ["3"])
    assert [grade.passed for grade in grades] == [True, False] * 4 + [True]


def test_a_row_too_large_for_any_request_fails_its_answer_only(
    hostile_pool: GradingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "FRAME_LIMIT", 10_000)
    monkeypatch.setattr(pool_module, "CHUNK_BYTES", 8_000)
    monkeypatch.setattr(pool_module, "PAIR_LIMIT", 9_900)
    grades = hostile_pool.grade([ROW, {**ROW, "text": "€" * 2_000}, ROW], ["3", "3", "3"])
    assert [grade.passed for grade in grades] == [True, False, True]
    assert grades[1].reason == "its problem has more than the 9,900 bytes that are graded"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=200), st.text(max_size=200)), max_size=12), st.booleans())
def test_no_request_is_larger_than_its_limit_and_each_answer_is_in_one(
    pairs: list[tuple[str, str]], careful: bool
) -> None:
    rows: list[Row] = [{"text": text} for text, _ in pairs]
    answers = [answer for _, answer in pairs]
    done = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "FRAME_LIMIT", 5_000)
        patch.setattr(pool_module, "CHUNK_BYTES", 1_000)
        patch.setattr(pool_module, "PAIR_LIMIT", 4_900)
        while done < len(rows):
            request = next_request(rows, answers, done, 1.5, careful)
            count = len(request.rows)
            assert count > 0
            whole = [1.5, careful, rows[done : done + count], answers[done : done + count]]
            assert json.loads(request.encode()[FRAME_HEADER_BYTES:]) == whole
            done += count


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("hang", "timed out"),
        ("hang with a child", "timed out"),
        ("exit", "grader died (exit code 0)"),
        ("die", "grader died (exit code 3)"),
        ("crash", "grader died (signal SIGSEGV)"),
        ("forge", "grader died: it sent something that is not a grade"),
        ("raise", "the grader raised ValueError: boo"),
        ("recurse", "the grader raised RecursionError"),
        ("eat", "the grader raised MemoryError"),
        ("write", "the grader raised OSError"),
        ("nan", "the grader gave a score that is not a finite number"),
        ("print", "not the sum"),
        ("unreadable", "the reference cannot be read: column 'b' says nothing"),
        ("prepared", "the grader raised ValueError: 1"),
    ],
)
def test_a_hostile_answer_fails_with_its_reason_and_the_others_are_graded(
    hostile_pool: GradingPool, tmp_path: Path, command: str, reason: str
) -> None:
    row = {**ROW, "marker": str(tmp_path / "file")}
    grades = hostile_pool.grade([row] * 5, ["3", "4", command, "3", "4"])
    assert [grade.passed for grade in grades] == [True, False, False, True, False]
    assert grades[2].reason.startswith(reason)
    assert (grades[2].score, grades[2].auxiliary) == (0.0, 0.0)
    assert [grade.passed for grade in hostile_pool.grade([ROW], ["3"])] == [True]


def test_each_hostile_answer_of_a_batch_costs_itself_only(hostile_pool: GradingPool) -> None:
    commands = ["die", "3", "exit", "exit", "3", "hang"]
    assert [grade.passed for grade in hostile_pool.grade([ROW] * 6, commands)] == [
        command == "3" for command in commands
    ]


def test_a_grader_killed_from_outside_costs_no_answer(hostile_pool: GradingPool, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    marker.mkdir()
    grades = hostile_pool.grade([ROW, {**ROW, "marker": str(marker)}, ROW], ["3", "die once", "3"])
    assert not marker.exists()
    assert [grade.passed for grade in grades] == [True, True, True]


def test_a_grader_inherits_no_environment_and_no_open_files(hostile_pool: GradingPool) -> None:
    said = hostile_pool.grade([ROW], ["environment"])[0].reason.rpartition(": ")[2]
    assert (
        said == "LC_ALL OMP_NUM_THREADS OPENBLAS_NUM_THREADS PATH PYTHONDONTWRITEBYTECODE PYTHONPATH 6"
    )  # 0-2, the two pipes, and the listing itself


def test_a_batch_is_divided_among_processes_and_comes_back_in_order(hostile_module: str) -> None:
    address = f"{hostile_module}:HostileTask"
    with GradingPool(TaskSettings("addition"), LIMIT, processes=3, address=address) as pool:
        answers = ["3" if i % 3 else "die" if i == 6 else str(i) for i in range(20)]
        grades = pool.grade([ROW] * 20, answers)
        assert [grade.passed for grade in grades] == [answer == "3" for answer in answers]
        assert pool.grade([], []) == []


def test_a_task_that_cannot_be_built_ends_the_pool_with_what_the_grader_said(hostile_module: str) -> None:
    with (
        GradingPool(TaskSettings("addition"), LIMIT, address=f"{hostile_module}:BrokenTask") as pool,
        pytest.raises(GraderStartError, match=r"(?s)does not start: .*this task cannot be built"),
    ):
        pool.grade([ROW], ["3"])


def test_closing_a_pool_leaves_no_process(hostile_module: str) -> None:
    pool = GradingPool(TaskSettings("addition"), LIMIT, address=f"{hostile_module}:HostileTask")
    pool.grade([ROW], ["3"])
    process_id = pool.process_ids[0]
    os.kill(process_id, 0)
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)
    pool.close()


def test_a_pool_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="at least one process"):
        GradingPool(TaskSettings("addition"), LIMIT, processes=0)
    with (
        GradingPool(TaskSettings("addition"), LIMIT) as pool,
        pytest.raises(ValueError, match="1 rows for 2"),
    ):
        pool.grade([ROW], ["3", "4"])
