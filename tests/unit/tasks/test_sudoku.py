"""Sudoku: any legal completion of the given grid passes, wherever in the answer the last grid stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dartes.data.builtin import builtin_rows
from dartes.errors import ConfigurationError
from dartes.tasks.base import JSON, RowError, TaskSettings
from dartes.tasks.sudoku import SudokuTask, find_grid, is_completion

TASK = SudokuTask.from_spec(TaskSettings("sudoku"))
PUZZLE = "1 . . .\n. . . 2\n. 3 . .\n. . . ."
ROW: dict[str, JSON] = {"puzzle": PUZZLE}
RIGHT = "1 2 3 4\n3 4 1 2\n2 3 4 1\n4 1 2 3"
DRAWN = """
\u250c\u2500\u2500\u2500\u2500\u2500\u252c\u2500\u2500\u2500\u2500\u2500\u2510
\u2502 1 2 \u2502 3 4 \u2502
\u2502 3 4 \u2502 1 2 \u2502
\u251c\u2500\u2500\u2500\u2500\u2500\u253c\u2500\u2500\u2500\u2500\u2500\u2524
\u2502 2 3 \u2502 4 1 \u2502
\u2502 4 1 \u2502 2 3 \u2502
\u2514\u2500\u2500\u2500\u2500\u2500\u2534\u2500\u2500\u2500\u2500\u2500\u2518
"""
OTHER = "1 2 4 3\n3 4 1 2\n2 3 1 4\n4 1 3 2"


def legal(puzzle: str, answer: str) -> bool:
    """An independent check on texts of 16 or 81 digits: compare every two cells that may not be equal."""
    size = {16: 4, 81: 9}[len(puzzle)]
    root = int(size**0.5)
    if len(answer) != len(puzzle) or any(cell not in "123456789"[:size] for cell in answer):
        return False
    for a in range(size * size):
        if puzzle[a] not in ("0", answer[a]):
            return False
        for b in range(a):
            row_a, column_a, row_b, column_b = a // size, a % size, b // size, b % size
            box = row_a // root == row_b // root and column_a // root == column_b // root
            if (row_a == row_b or column_a == column_b or box) and answer[a] == answer[b]:
                return False
    return True


@pytest.mark.parametrize(
    "answer",
    [
        f"<answer>{RIGHT}</answer>",
        f"<answer>\n{RIGHT.replace(' ', '')}\n</answer>",
        f"Here it is:\n{RIGHT}\nDone.",
        f"{OTHER.replace('4', '3')}\n<answer>{RIGHT}</answer>\n1 1 1 1",
        "| 1 2 | 3 4 |\n| 3 4 | 1 2 |\n+-----+-----+\n| 2 3 | 4 1 |\n| 4 1 | 2 3 |",
        "[[1, 2, 3, 4],\n[3, 4, 1, 2],\n[2, 3, 4, 1],\n[4, 1, 2, 3]]",
        "[[1,2,3,4],[3,4,1,2],[2,3,4,1],[4,1,2,3]]",
        "So grid = [[1, 2, 3, 4], [3, 4, 1, 2], [2, 3, 4, 1], [4, 1, 2, 3]].",
        DRAWN,
        DRAWN.translate(str.maketrans("\u2502\u2500", "\u2551\u2550")),
        "1 2 | 3 4\n3 4 | 1 2\n=========\n2 3 | 4 1\n4 1 | 2 3",
        "1 2 3 4\n3 4 1 2\n\u2014\u2014\u2014\u2014\n2 3 4 1\n4 1 2 3",
        "Row 1: 1 2 3 4\nRow 2: 3 4 1 2\nRow 3: 2 3 4 1\nRow 4: 4 1 2 3",
        "- **Row 1:** 1 2 3 4\n- **Row 2:** 3 4 1 2\n- **Row 3:** 2 3 4 1\n- **Row 4:** 4 1 2 3",
        "**1** 2 3 4\n3 4 1 **2**\n2 **3** 4 1\n4 1 2 3",
        "1 & 2 & 3 & 4 \\\\\n3 & 4 & 1 & 2 \\\\\n2 & 3 & 4 & 1 \\\\\n4 & 1 & 2 & 3",
        "\\begin{array}{cc|cc} 1&2&3&4\\\\3&4&1&2\\\\ \\hline 2&3&4&1\\\\4&1&2&3 \\end{array}",
        "| 1 | 2 | 3 | 4 |\n|---|:-:|---|---|\n| 3 | 4 | 1 | 2 |\n| 2 | 3 | 4 | 1 |\n| 4 | 1 | 2 | 3 |",
    ],
)
def test_a_legal_completion_passes_in_any_plain_form(answer: str) -> None:
    grade = TASK.grade(ROW, answer)
    assert grade.passed
    assert grade.auxiliary == 1.0
    assert grade.answer == "1234341223414123"


def test_any_legal_completion_passes_whatever_the_solution_column_says() -> None:
    puzzle = "1 . . .\n. . . 2\n. 3 . .\n. . . ."
    row: dict[str, JSON] = {"puzzle": puzzle, "solution": RIGHT}
    assert TASK.grade(row, RIGHT).passed
    second = "1 2 3 4\n3 4 1 2\n4 3 2 1\n2 1 4 3"
    assert legal(puzzle.replace(".", "0").replace(" ", "").replace("\n", ""), "".join(second.split()))
    assert TASK.grade(row, second).passed


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "no grid"),
        ("1 2 3 4", "no grid"),
        ("1 2 3 4\nand\n3 4 1 2\n2 3 4 1\n4 1 2 3", "no grid"),
        (RIGHT.replace("1", "."), "no grid"),
        (RIGHT.replace("4", "5"), "no grid"),
        (f"<answer></answer>{RIGHT}", "no grid"),
        ("Row 2: 1 2 3 4\nRow 1: 3 4 1 2\nRow 3: 2 3 4 1\nRow 4: 4 1 2 3", "no grid"),
        ("Row 1: 1 2 3 4\nRow 2: 3 4 1 2\nRow 3:\nRow 3: 2 3 4 1\nRow 4: 4 1 2 3", "no grid"),
        ("Row 1 2 3 4\n3 4 1 2\n2 3 4 1\n4 1 2 3", "no grid"),
        ("1 2 3 4\n3 4 1 2\n_ _ _ _\n2 3 4 1\n4 1 2 3", "no grid"),
        ("1 * 2 3 4\n3 4 1 2\n2 3 4 1\n4 1 2 3", "no grid"),
        ("[[1,2,3,4],[3,4,1,2],[2,3,4,1]]", "no grid"),
        ("[[1,2,3,4],[3,4,1,2],[2,3,4,1],[4,1,2,2]]", "not a legal completion"),
        (DRAWN.replace("2 3 \u2502 4 1", "2 3 \u2502   1"), "no grid"),
        (DRAWN.replace("4 1 \u2502 2 3", "4 1 \u2502 2 2"), "not a legal completion"),
        ("2 1 3 4\n3 4 1 2\n1 3 4 1\n4 2 2 3", "changes a given digit"),
        ("1 2 3 4\n3 4 1 2\n2 3 4 1\n4 1 2 2", "not a legal completion"),
        (f"{RIGHT}\n<answer>{OTHER}</answer>".replace("4 1 3 2", "4 1 3 3"), "not a legal completion"),
    ],
)
def test_anything_else_fails_with_a_reason(answer: str, reason: str) -> None:
    grade = TASK.grade(ROW, answer)
    assert not grade.passed
    assert grade.score == 0.0
    assert grade.reason == reason


def test_the_auxiliary_score_is_the_share_of_blanks_filled_as_the_solution_says() -> None:
    row: dict[str, JSON] = {"puzzle": PUZZLE, "solution": RIGHT}
    assert TASK.grade(row, "1 2 3 4\n3 4 1 2\n2 3 4 1\n4 1 2 2").auxiliary == pytest.approx(12 / 13)
    assert TASK.grade(row, "1 1 1 1\n1 1 1 2\n1 3 1 1\n1 1 1 1").auxiliary == pytest.approx(3 / 13)
    assert TASK.grade(row, "2 2 3 4\n3 4 1 2\n2 3 4 1\n4 1 2 3").auxiliary == 0.0


def test_without_a_solution_the_auxiliary_score_is_the_share_of_blanks_in_no_conflict() -> None:
    grade = TASK.grade(ROW, "1 2 3 4\n3 4 1 2\n2 3 4 1\n4 1 2 2")
    assert not grade.passed
    # The last 2 meets those in its row, column and box; three blanks and one given are in conflict.
    assert 0.5 < grade.auxiliary < 1.0


def test_generated_puzzles_pass_with_their_solution_and_fail_with_two_cells_swapped() -> None:
    for name in ("sudoku-4x4", "sudoku-9x9"):
        row = next(iter(builtin_rows(name, "test")))
        TASK.check_row(row)
        solution = str(row["solution"])
        assert TASK.reference(row) == solution
        assert TASK.grade(row, f"<answer>{solution}</answer>").passed
        lines = solution.splitlines()
        assert not TASK.grade(row, "\n".join([lines[1], lines[0], *lines[2:]])).passed


def test_the_prompt_is_a_chat_with_the_grid_in_one_form() -> None:
    packed: dict[str, JSON] = {"puzzle": "1000000203000000", "size": 99}
    for row in (ROW, packed):
        prompt = TASK.prompt(row)
        assert not isinstance(prompt, str)
        assert PUZZLE in prompt[-1].content
        assert "4 boxes of 2 by 2" in prompt[-1].content


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"grid": PUZZLE}, r"column 'puzzle' is missing \(there are: grid\)"),
        ({"puzzle": 12}, "column 'puzzle' must hold text"),
        ({"puzzle": "1 2 3"}, "column 'puzzle' must be 4 rows of 4 or 9 rows of 9 digits"),
        ({"puzzle": "5" + "." * 15}, "must be 4 rows of 4"),
        ({"puzzle": "11" + "." * 14}, "has a digit twice in a row, column or box"),
        ({"puzzle": PUZZLE, "solution": RIGHT[:-1] + "2"}, "'solution' is no legal completion"),
        ({"puzzle": PUZZLE, "solution": "1" * 81}, "'solution' is no legal completion"),
        ({"puzzle": PUZZLE, "solution": "."}, "column 'solution' must be"),
    ],
)
def test_a_row_without_a_puzzle_is_refused(row: dict[str, JSON], message: str) -> None:
    with pytest.raises(RowError, match=message):
        TASK.check_row(row)


def test_settings_that_it_does_not_have_are_refused() -> None:
    for settings in (
        TaskSettings("sudoku", pass_threshold=0.5),
        TaskSettings("sudoku", options={"size": 4}),
        TaskSettings("sudoku", answer_format="Tags"),
    ):
        with pytest.raises(ConfigurationError):
            SudokuTask.from_spec(settings)


@given(st.text() | st.text(alphabet="1234 \n.|<answer>/0[],*=\\&:\u2502\u2500", max_size=80))
def test_any_text_gets_a_grade_that_a_slow_check_agrees_with(completion: str) -> None:
    grade = TASK.grade(ROW, completion)
    assert 0.0 <= grade.auxiliary <= 1.0
    assert grade.passed == legal("1000000203000000", grade.answer)


@given(st.lists(st.permutations("1234"), min_size=4, max_size=4))
def test_a_grid_passes_exactly_when_a_slow_check_says_so(rows: list[list[str]]) -> None:
    text = "\n".join(" ".join(row) for row in rows)
    packed = "".join("".join(row) for row in rows)
    puzzle = packed[0] + "0" * 15
    grid = find_grid(text, 4)
    assert grid is not None
    assert is_completion(tuple(map(int, puzzle)), grid) == legal(puzzle, packed)
    assert TASK.grade({"puzzle": puzzle}, text).passed == legal(puzzle, packed)
