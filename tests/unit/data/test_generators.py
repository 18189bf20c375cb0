"""Generated sets: solvable, each problem once, train and test apart, and the same for good."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import islice

import pytest

from dartes.data.builtin import builtin_rows
from dartes.data.generators.choices import choices_sums_rows
from dartes.data.generators.countdown import COUNTS, LARGEST_TARGET, SMALLEST_TARGET, countdown_problems
from dartes.data.generators.draws import Draws
from dartes.data.generators.splits import GIVE_UP_AFTER, Sieve, Split, split_of
from dartes.data.generators.sudoku import BLANKS, sudoku_rows
from dartes.tasks.base import Row, TaskSettings
from dartes.tasks.countdown import CountdownTask


def digest(rows: Iterable[Row]) -> str:
    return hashlib.sha256(json.dumps(list(rows), sort_keys=True).encode()).hexdigest()[:16]


def reachable(numbers: tuple[Fraction, ...]) -> set[Fraction]:
    """Every value that an expression with each number used once can have: slow, and shares no code."""
    if len(numbers) == 1:
        return {numbers[0]}
    values: set[Fraction] = set()
    places = range(len(numbers))
    for chosen in range(1, 2 ** (len(numbers) - 1)):
        left = reachable(tuple(numbers[p] for p in places if chosen >> p & 1))
        right = reachable(tuple(numbers[p] for p in places if not chosen >> p & 1))
        for a in left:
            for b in right:
                values |= {a + b, a - b, b - a, a * b}
                values |= {x / y for x, y in ((a, b), (b, a)) if y}
    return values


@pytest.mark.parametrize(
    ("name", "train", "test"),
    [
        ("countdown", "9ca6b03a476d3523", "6683a06850955251"),
        ("countdown-6", "a8a7eb05fa44234b", "b114ebf1c0f74f65"),
        ("sudoku-4x4", "a21a4997f4c7c605", "de8d6c242c0af7a5"),
        ("sudoku-9x9", "9eaec3151a1c2a12", "a1e146b828fc7650"),
        ("choices-sums", "5b538021e811ba70", "a159466b59fd4b06"),
    ],
)
def test_the_first_problems_never_change(name: str, train: str, test: str) -> None:
    assert digest(islice(builtin_rows(name, "train"), 20)) == train
    assert digest(islice(builtin_rows(name, "test"), 20)) == test


@pytest.mark.parametrize("size", [3, 4])
def test_a_brute_force_search_solves_every_small_countdown(size: int) -> None:
    for split in Split:
        for problem in islice(countdown_problems(split, (size,)), 60 if size == 3 else 8):
            assert len(problem.numbers) == size
            assert problem.target in reachable(tuple(map(Fraction, problem.numbers)))


@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_every_countdown_comes_from_a_solution_that_the_task_takes(size: int) -> None:
    task = CountdownTask.from_spec(TaskSettings("countdown"))
    for problem in islice(countdown_problems(Split.TRAIN, (size,)), 300):
        row: Row = {"numbers": list(problem.numbers), "target": problem.target}
        task.check_row(row)
        assert task.grade(row, f"<answer>{problem.solution}</answer>").passed
        assert SMALLEST_TARGET <= problem.target <= LARGEST_TARGET
        assert problem.target not in problem.numbers


@pytest.mark.slow
def test_a_countdown_set_has_so_many_problems_and_none_twice_in_any_order() -> None:
    train, test = (
        [
            (sorted(map(int, str(row["numbers"])[1:-1].split(","))), row["target"])
            for row in builtin_rows(name, split)
        ]
        for name, split in (("countdown-3", "train"), ("countdown-3", "test"))
    )
    assert (len(train), len(test)) == (COUNTS[Split.TRAIN], COUNTS[Split.TEST])
    assert len(set(map(str, train + test))) == len(train) + len(test)


def test_no_problem_of_one_countdown_set_is_tested_in_another() -> None:
    keys = {
        (name, split): {p.key for p in islice(countdown_problems(split, sizes), 500)}
        for name, sizes in (("3", (3,)), ("4", (4,)), ("mixed", (3, 4)))
        for split in Split
    }
    for one in ("3", "4", "mixed"):
        for other in ("3", "4", "mixed"):
            assert not keys[one, Split.TRAIN] & keys[other, Split.TEST]


def test_the_mixed_countdown_has_three_and_four_numbers() -> None:
    sizes = Counter(len(p.numbers) for p in islice(countdown_problems(Split.TRAIN, (3, 4)), 400))
    assert set(sizes) == {3, 4}
    assert min(sizes.values()) > 100


def completions(puzzle: list[int], size: int) -> int:
    """Solutions of a puzzle, counted cell after cell: slow, and shares no code."""
    root = int(size**0.5)
    if 0 not in puzzle:
        return 1
    place = puzzle.index(0)
    row, column = divmod(place, size)
    total = 0
    for digit in range(1, size + 1):
        if not any(
            puzzle[other] == digit
            and (
                other // size == row
                or other % size == column
                or (other // size // root == row // root and other % size // root == column // root)
            )
            for other in range(size * size)
        ):
            total += completions([*puzzle[:place], digit, *puzzle[place + 1 :]], size)
    return total


@pytest.mark.parametrize(("size", "count"), [(4, 40), (9, 3)])
def test_a_sudoku_has_one_solution_and_it_is_the_one_given(size: int, count: int) -> None:
    for split in Split:
        for row in islice(sudoku_rows(split, size), count):
            puzzle = [0 if cell == "." else int(cell) for cell in str(row["puzzle"]).split()]
            solution = [int(cell) for cell in str(row["solution"]).split()]
            assert row["size"] == size
            assert len(puzzle) == len(solution) == size * size
            assert all(given in (0, cell) for given, cell in zip(puzzle, solution, strict=True))
            assert 1 <= puzzle.count(0) <= BLANKS[size][1]
            assert completions(solution, size) == completions(puzzle, size) == 1


@pytest.mark.parametrize(("size", "column"), [(4, "puzzle"), (9, "solution")])
def test_no_sudoku_of_the_test_split_is_trained_on(size: int, column: str) -> None:
    train, test = ([row[column] for row in islice(sudoku_rows(split, size), 30)] for split in Split)
    assert len({*train, *test}) == 60


def test_choices_hold_the_sum_once_where_the_answer_says() -> None:
    positions: Counter[object] = Counter()
    for split in Split:
        for row in islice(choices_sums_rows(split), 300):
            choices, answer = row["choices"], row["answer"]
            assert isinstance(choices, list)
            assert isinstance(answer, int)
            a, b = map(int, str(row["question"]).split("+"))
            assert len(set(choices)) == 4
            assert choices[answer] == str(a + b)
            positions[answer] += 1
    assert set(positions) == {0, 1, 2, 3}
    assert min(positions.values()) > 100


def test_sums_of_the_test_choices_are_asked_in_no_order_in_training() -> None:
    train, test = (
        {tuple(sorted(str(row["question"]).split("+"))) for row in choices_sums_rows(split)}
        for split in Split
    )
    assert test
    assert not train & test
    assert len(train | test) == 55


@pytest.mark.parametrize("name", ["countdown-6", "choices-sums", "sudoku-4x4"])
def test_the_first_problems_cost_little(name: str) -> None:
    started = time.process_time()
    assert len(list(islice(builtin_rows(name, "test"), 100))) == 100
    assert time.process_time() - started < 1.0


def test_draws_are_fair_and_fixed() -> None:
    draws = Draws("a name")
    counts = Counter(draws.below(3) for _ in range(3_000))
    assert all(900 < counts[value] < 1_100 for value in range(3))
    assert {draws.between(4, 6) for _ in range(100)} == {4, 5, 6}
    assert sorted(draws.shuffled("abcdef")) == list("abcdef")
    assert [Draws(name).below(10**6) for name in ("first", "second")] == [798735, 473347]


def test_a_sieve_passes_each_problem_of_its_split_once_and_gives_up_in_the_end() -> None:
    ours = next(key for key in map(str, range(100)) if split_of(key) is Split.TRAIN)
    theirs = next(key for key in map(str, range(100)) if split_of(key) is Split.TEST)
    sieve = Sieve(Split.TRAIN)
    assert [sieve.admit(ours), sieve.admit(ours), sieve.admit(theirs)] == [True, False, False]
    assert not sieve.exhausted
    for _ in range(GIVE_UP_AFTER):
        sieve.admit(ours)
    assert sieve.exhausted
