"""Puzzles: each graded by its own scorer or by ours, and nothing that a model writes is executed."""

import json
import sys
from functools import cache
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dartes.data.builtin import builtin_rows
from dartes.data.generators.reasoning_gym import UNSTEADY
from dartes.errors import ConfigurationError
from dartes.rewards.pool import GradingPool
from dartes.tasks.base import JSON, Row, RowError, TaskSettings, UnreadableReferenceError
from dartes.tasks.puzzle import PuzzleTask, find_answer
from dartes.tasks.puzzle_audit import AUDITED
from dartes.tasks.puzzle_library import library
from dartes.tasks.puzzle_own import OWN

pytestmark = pytest.mark.slow

# Generators that take seconds for a single problem.
SLOW = frozenset(
    {
        "arc_agi",
        "futoshiki",
        "puzzle24",
        "sokoban",
        "zebra_puzzles",
        "intermediate_integration",
        "game_of_life",
    }
)


@cache
def task() -> PuzzleTask:
    """Built once, and not before a test runs: it loads the library."""
    return PuzzleTask.from_spec(TaskSettings("puzzle"))


@cache
def rows_of(name: str, count: int) -> list[Row]:
    return list(islice(builtin_rows("reasoning-gym-" + name.replace("_", "-"), "train"), count))


def row_of(dataset: str, answer: str | None, **metadata: JSON) -> dict[str, JSON]:
    return {"question": "?", "answer": answer, "metadata": json.dumps(metadata), "dataset": dataset}


def perturbed(answer: str) -> list[str]:
    return [
        answer + " ",
        answer + "x",
        "x" + answer,
        answer[:-1],
        answer[::-1],
        answer.upper(),
        answer + answer,
        "0",
    ]


@pytest.mark.parametrize("name", sorted(set(AUDITED) - UNSTEADY - SLOW))
def test_answers_are_scored_as_the_puzzles_own_scorer_scores_them(name: str) -> None:
    scorer: Any = library().create_dataset(name, seed=1, size=10)
    for row in rows_of(name, 2):
        task().check_row(row)
        answer = row["answer"]
        if not isinstance(answer, str):
            continue
        # Two own rules of the task: the metadata has been through JSON, and blanks around an answer are cut.
        entry = {"question": row["question"], "answer": answer, "metadata": json.loads(str(row["metadata"]))}
        if name in ("arc_agi", "rearc"):
            entry["metadata"]["output"] = tuple(map(tuple, entry["metadata"]["output"]))
        right = task().grade(row, f"<think>hm</think><answer>{answer}</answer>")
        assert right.passed
        assert right.score == pytest.approx(1.0)
        if name == "complex_arithmetic":
            continue  # guarded: see the test about what is no number
        for text in perturbed(answer):
            grade = task().grade(row, f"<answer>{text}</answer>")
            try:
                expected = scorer.score_answer(text.strip(), entry) if text.strip() else 0.0
            except ValueError:
                expected = 0.0
            assert grade.score == pytest.approx(expected), text
            assert grade.passed == (expected > 1.0 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW | UNSTEADY))
def test_the_right_answer_passes_for_the_puzzles_that_take_long_or_have_no_steady_generator(
    name: str,
) -> None:
    made = library().create_dataset(name, seed=1, size=5)
    for problem in (made[0], made[1]):
        row = row_of(name, problem["answer"], **json.loads(json.dumps(problem["metadata"], default=str)))
        task().check_row(row)
        assert task().grade(row, f"<answer>{problem['answer']}</answer>").passed
        assert not task().grade(row, "<answer>?</answer>").passed


@pytest.mark.parametrize("name", sorted(set(OWN) - UNSTEADY - SLOW))
def test_own_scorers_pass_the_right_answer_and_none_of_another_problem(name: str) -> None:
    rows = rows_of(name, 3)
    for row in rows:
        task().check_row(row)
        assert task().grade(row, f"<answer>{row['answer']}</answer>").passed
        others = {str(other["answer"]) for other in rows} - {str(row["answer"])}
        for text in [*others, "", "0", "nan", "[]", "!" + str(row["answer"]), "__import__('os')"]:
            if name == "n_queens" and text in json.loads(str(row["metadata"]))["valid_answers"]:
                continue
            assert not task().grade(row, f"<answer>{text}</answer>").passed, text


@pytest.mark.parametrize(
    ("dataset", "reference", "metadata", "right", "wrong"),
    [
        ("countdown", "3*5+7", {"numbers": [3, 5, 7], "target": 22}, "7 + 5*3", "22"),
        ("puzzle24", "4*6*1*1", {"numbers": [4, 6, 1, 1]}, "(4 * 6) / 1 * 1", "4*6"),
        ("bitwise_arithmetic", "0xa", {"problem": "(0x5 + 0x5)"}, "10", "0xb"),
        ("simple_integration", "x**2 + C", {"variable": "x"}, "C + x*x + 3", "x**2 + x"),
        ("polynomial_multiplication", "x**2 - 1", {}, "(x - 1)*(x + 1)", "x**2 + 1"),
        ("number_sorting", '["1.0", "2.5"]', {}, "[1, 2.5]", "[2.5, 1]"),
        ("coin_flip", "0.25", {}, "1/4", "0.2"),
        ("game_of_life_halting", "False", {}, "false", "True"),
        ("spell_backward", "cba", {}, "CBA", "cbax"),
        ("letter_jumble", "two words", {}, "Two words", "two words more"),
        ("codeio", '{"a": 1}', {}, '{"a":1}', '{"a": true}'),
        ("spiral_matrix", "1 2 3", {}, "1 2 3", "[1, 2, 3]"),
        ("gsm_symbolic", "20", {}, "20.0", "not 20"),
        ("gsm_symbolic", "20", {}, "$20", "20 or 21"),
        ("gsm_symbolic", "20", {}, "The answer is 20.", "The answer is not 20."),
        ("gsm_symbolic", "1020", {}, "1,020 dollars", "20"),
        ("gsm_symbolic", "20", {}, "20 apples", "20 million"),
        ("gsm_symbolic", "20", {}, "\\boxed{20}", "20 is wrong"),
        ("gsm_symbolic", "20", {}, "20%", "-20"),
        ("word_sorting", "a, b", {"sorted_words": ["a", "b"]}, "a,b", "c, d"),
    ],
)
def test_own_scorers_take_other_forms_of_the_right_answer_only(
    dataset: str, reference: str, metadata: dict[str, JSON], right: str, wrong: str
) -> None:
    row = row_of(dataset, reference, **metadata)
    task().check_row(row)
    assert task().grade(row, f"<answer>{right}</answer>").passed
    grade = task().grade(row, f"<answer>{wrong}</answer>")
    assert not grade.passed
    assert grade.score == 0.0


@pytest.mark.parametrize(
    ("dataset", "reference", "metadata", "answer"),
    [
        ("complex_arithmetic", "1.0 + 2.0i", {"result": [1, 2]}, "nan"),
        ("polynomial_equations", "", {}, "no solution at all"),
        ("coin_flip", "0.25", {}, "1e999999999"),
        ("figlet_font", "waterproofing", {}, "waterproofxxxxx"),
    ],
)
def test_answers_that_fool_the_librarys_scorer_do_not_pass(
    dataset: str, reference: str, metadata: dict[str, JSON], answer: str
) -> None:
    row = row_of(dataset, reference, **metadata)
    assert not task().grade(row, f"<answer>{answer}</answer>").passed


def test_a_puzzle_that_many_answers_solve_is_scored_without_a_reference() -> None:
    cube, color = rows_of("rubiks_cube", 1)[0], rows_of("graph_color", 1)[0]
    for row, key in ((cube, "example_correct_answer"), (color, "possible_answer")):
        task().check_row(row)
        solution = json.loads(str(row["metadata"]))[key]
        text = solution if isinstance(solution, str) else json.dumps(solution)
        assert task().grade(row, f"<answer>{text}</answer>").passed
        assert not task().grade(row, "<answer>R</answer>").passed
    assert not task().grade(cube, "<answer>R99999999999</answer>").passed


def test_partial_credit_is_the_score_and_a_threshold_may_pass_it() -> None:
    row = row_of("word_sorting", "a, b", sorted_words=["a", "b"])
    grade = task().grade(row, "<answer>a, c</answer>")
    assert (grade.passed, grade.score, grade.auxiliary) == (False, 0.5, 0.5)
    assert grade.reason == "scored 0.5 by the rules of word_sorting"
    hedged = task().grade(row, "<answer>a, b, b, a</answer>")
    assert (hedged.passed, hedged.score) == (False, 0.5)
    assert task().grade(row, "<answer>b, a</answer>").score == 0.2
    half = PuzzleTask.from_spec(TaskSettings("puzzle", pass_threshold=0.5))
    assert half.grade(row, "<answer>a, c</answer>").passed
    with pytest.raises(ConfigurationError, match="task.passThreshold: must be above 0 and at most 1"):
        PuzzleTask.from_spec(TaskSettings("puzzle", pass_threshold=1.5))


@pytest.mark.parametrize(
    ("text", "whole", "answer"),
    [
        ("<answer>1</answer><answer> 2\n</answer>.", False, "2"),
        ("<think>1</think>\nIt is\n2\n", False, "2"),
        ("<think>1</think>\n1\n2\n", True, "1\n2"),
        ("<answer></answer>3", False, ""),
        ("", False, ""),
    ],
)
def test_the_answer_is_the_last_block_else_what_follows_the_thinking(
    text: str, whole: bool, answer: str
) -> None:
    assert find_answer(text, whole=whole) == answer


def test_the_puzzle_may_be_named_by_column_metadata_or_option() -> None:
    named = PuzzleTask.from_spec(TaskSettings("puzzle", options={"dataset": "chain-sum"}))
    bare: dict[str, JSON] = {"question": "1 + 1 =", "answer": "2"}
    assert named.grade(bare, "2").passed
    assert task().grade({**bare, "dataset": "chain_sum"}, "2").passed
    assert task().grade({**bare, "metadata": {"source_dataset": "chain_sum"}}, "2").passed
    with pytest.raises(
        RowError, match=r"no puzzle is named.*task.options.dataset \(columns there are: answer, q"
    ):
        task().check_row(bare)
    with pytest.raises(
        ConfigurationError, match=r"task.options.dataset: no puzzle is named 'chains' \(close"
    ):
        PuzzleTask.from_spec(TaskSettings("puzzle", options={"dataset": "chains"}))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answer": "2"}, "column 'question' is missing"),
        ({"question": "?", "dataset": "gcd"}, "column 'answer' is missing"),
        ({"question": "?", "answer": 2, "dataset": "gcd"}, "'answer' must hold text, or null"),
        ({"question": "?", "answer": "2", "dataset": "gdc"}, "no puzzle is named 'gdc' .close to it: gcd"),
        ({"question": "?", "answer": "2", "dataset": "gcd", "metadata": "{"}, "'metadata' is not JSON"),
        ({"question": "?", "answer": "2", "dataset": "gcd", "metadata": "[1]"}, "must hold a JSON object"),
        (row_of("rush_hour", None, size=6), r"'metadata' lacks board_config of .* \(there are: size"),
        (row_of("gcd", None, value=3), "'answer' is null, and puzzle 'gcd' has one right answer"),
    ],
)
def test_a_row_that_cannot_be_scored_is_refused(row: dict[str, JSON], message: str) -> None:
    with pytest.raises(RowError, match=message):
        task().check_row(row)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (row_of("countdown", "3*5+7"), "cannot use this row .KeyError"),
        (row_of("countdown", "3*5+8", numbers=[3, 5, 7], target=22), "gets 0 from the scorer"),
        (row_of("word_sorting", "b, a", sorted_words=["a", "b"]), "gets 0.2 from the scorer"),
    ],
)
def test_a_reference_that_does_not_pass_by_its_own_scorer_is_unreadable(row: Row, message: str) -> None:
    with pytest.raises(UnreadableReferenceError, match=message):
        task().check_row(row)


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ConfigurationError, match=r"pip install '\.\[tasks\]' in a clone"):
        library.__wrapped__()


def test_the_prompt_is_a_chat_with_the_question_and_the_tags() -> None:
    prompt = task().prompt(row_of("gcd", "2"))
    assert not isinstance(prompt, str)
    assert prompt[-1].content.startswith("?\n")
    assert "<answer>" in prompt[-1].content


def test_the_pool_grades_puzzles_and_survives_hostile_answers() -> None:
    names = ("countdown", "rubiks_cube", "coin_flip", "propositional_logic", "binary_matrix", "game_of_life")
    rows = [rows_of(name, 1)[0] for name in names]
    hostile = [
        "__import__('os')._exit(1)",
        "9**9**9**9",
        "1e999999999",
        "R999999999",
        "[" * 9_000,
        "¬" * 9_000,
    ]
    with GradingPool(TaskSettings("puzzle"), 20.0) as pool:
        before = pool.process_ids
        for text in hostile:
            assert not any(
                grade.passed for grade in pool.grade(rows, [f"<answer>{text}</answer>"] * len(rows))
            )
        right = rows_of("gcd", 1)[0]
        assert pool.grade([right], [f"<answer>{right['answer']}</answer>"])[0].passed
        assert pool.process_ids == before


FUZZED = ("gcd", "countdown", "complex_arithmetic", "cryptarithm", "graph_color", "rush_hour", "mini_sudoku")


@settings(max_examples=60)
@given(st.text() | st.text(alphabet="0123456789+-*/()[]{}:,.=\"'eE infa<>\n", max_size=60))
def test_any_answer_gets_a_grade(text: str) -> None:
    for name in FUZZED:
        row = rows_of(name, 1)[0]
        for answer in (text, f"<answer>{text}</answer>"):
            grade = task().grade(row, answer)
            assert 0.0 <= grade.score <= 1.0
            assert grade.score == grade.auxiliary
            assert grade.passed == (not grade.reason)
