"""Small files in the layouts of hub data sets, written for the tests, and right answers to their problems.

Every row is this project's own; only names of columns and the form of values are those of the data sets.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]

GSM8K: Final[Sequence[Row]] = [
    {
        "question": f"A crate holds {a} jars and a shelf holds {b} crates. How many jars are on {c} shelves?",
        "answer": f"One shelf holds {a} * {b} = <<{a}*{b}={a * b}>>{a * b} jars.\n#### {a * b * c:,}",
    }
    for a, b, c in itertools.product((6, 12), (4, 9), (3, 50))
]

MATH: Final[Sequence[Row]] = [
    {
        "problem": f"Compute $\\frac{{{a}}}{{{b}}} + \\frac{{1}}{{{b}}}$.",
        "level": f"Level {1 + number % 5}",
        "type": "Prealgebra",
        "solution": f"The sum is $\\boxed{{\\frac{{{a + 1}}}{{{b}}}}}$.",
    }
    for number, (a, b) in enumerate(itertools.product((2, 3, 5, 7), (11, 13, 17, 19, 23)))
]

MATH_500: Final[Sequence[Row]] = [
    {
        "problem": f"Solve $x - {n} = 0$.",
        "solution": f"$x = \\boxed{{{n}}}$",
        "answer": str(n),
        "subject": "Algebra",
        "level": 1,
        "unique_id": f"test/algebra/{n}.json",
    }
    for n in (3, 14, 15)
]

MINERVA: Final[Sequence[Row]] = [
    {"question": f"A cube has edges of {n} cm. What is its volume in cubic cm?", "answer": str(n**3)}
    for n in (2, 3, 5)
]

OLYMPIADBENCH: Final[Sequence[Row]] = [
    {
        "question": f"Find all real $x$ with $x^2 = {n * n}$.",
        "solution": [f"Both roots of ${n * n}$ are real."],
        "final_answer": [f"${n},-{n}$"],
        "is_multiple_answer": True,
        "unit": None,
        "answer_type": "Numerical",
        "error": None,
    }
    for n in (4, 6)
]

AIME: Final[Sequence[Row]] = [
    {"ID": f"made-{n}", "Problem": f"What is ${n}^2$?", "Solution": "Multiply.", "Answer": n * n}
    for n in (11, 12)
]

AMC: Final[Sequence[Row]] = [
    {"id": n, "problem": f"What is half of {n}?", "answer": n / 2, "url": ""} for n in (10, 26)
]

_FUNCTIONS: Final[Sequence[tuple[str, str, str, Sequence[tuple[int, Any]]]]] = [
    ("twice", "twice a number", "2 * x", [(1, 2), (5, 10), (-3, -6)]),
    ("square", "the square of a number", "x * x", [(1, 1), (5, 25), (-3, 9)]),
    ("negated", "a number with the other sign", "-x", [(1, -1), (5, -5), (0, 0)]),
    ("is_even", "whether a number is even", "x % 2 == 0", [(1, False), (4, True), (0, True)]),
    ("successor", "the next whole number", "x + 1", [(1, 2), (5, 6), (-1, 0)]),
    ("digits", "how many digits a number has", "len(str(x))", [(1, 1), (55, 2), (123, 3)]),
]

MBPP: Final[Sequence[Row]] = [
    {
        "task_id": number,
        "text": f"Write a function {name} that returns {words}.",
        "code": f"def {name}(x):\n    return {body}",
        "test_list": [f"assert {name}({x}) == {value}" for x, value in pairs],
        "test_setup_code": "",
        "challenge_test_list": [],
    }
    for number, (name, words, body, pairs) in enumerate(_FUNCTIONS, start=1)
]

HUMANEVAL: Final[Sequence[Row]] = [
    {
        "task_id": f"Made/{number}",
        "prompt": f'def {name}(items: list) -> int:\n    """{words}"""\n',
        "canonical_solution": f"    return {body}\n",
        "test": f"def check(candidate):\n    assert candidate([3, 1, 2]) == {value}\n",
        "entry_point": name,
    }
    for number, (name, words, body, value) in enumerate(
        [
            ("largest", "Return the largest item.", "max(items)", 3),
            ("total", "Return the sum of the items.", "sum(items)", 6),
            ("smallest", "Return the smallest item.", "min(items)", 1),
            ("count", "Return how many items there are.", "len(items)", 3),
        ]
    )
]

BOOLQ: Final[Sequence[Row]] = [
    {
        "question": f"is {n} a multiple of three",
        "passage": f"The multiples of three up to thirty are known. {n} is a number.",
        "answer": n % 3 == 0,
    }
    for n in range(20, 30)
]

MMLU: Final[Sequence[Row]] = [
    {
        "question": f"Which is the result of {n} + {n}?",
        "subject": "elementary_mathematics",
        "choices": [str(2 * n + offset) for offset in (-2, 0, 1, 10)],
        "answer": 1,
    }
    for n in (7, 8, 9)
]

IFEVAL: Final[Sequence[Row]] = [
    {
        "key": 1000 + number,
        "prompt": f"Describe {thing}. {rule}",
        "instruction_id_list": [identifier],
        "kwargs": [{"num_words": None, "relation": None, "keywords": None, **arguments}],
    }
    for number, (thing, (rule, identifier, arguments)) in enumerate(
        itertools.product(
            ("a river", "a bridge", "the sea"),
            [
                ("Do not use any commas.", "punctuation:no_comma", {}),
                ("Write in lower case only.", "change_case:english_lowercase", {}),
                (
                    "Use at least 5 words.",
                    "length_constraints:number_words",
                    {"num_words": 5, "relation": "at least"},
                ),
            ],
        )
    )
]

PROMPTS: Final[Sequence[Row]] = [
    {
        "prompt": f"Suggest a name for a {animal}.",
        "prompt_id": str(number),
        "messages": [
            {"role": "user", "content": f"Suggest a name for a {animal}."},
            {"role": "assistant", "content": "Pip."},
        ],
    }
    for number, animal in enumerate(("cat", "dog", "horse", "parrot", "goat", "tortoise", "hen", "carp"))
]

FREE_ANSWERS: Final = ("Pip.", "I would call it Pip, as it is short and kind.", "No.", "Why not Juniper?")


def countdown_answer(numbers: Sequence[int], target: int) -> str:
    """An expression that reaches the target with each number once, by trying."""
    found = _reach([(n, str(n)) for n in numbers], target)
    assert found is not None, f"{numbers} do not reach {target}"
    return found


def _reach(values: list[tuple[float, str]], target: int) -> str | None:
    if len(values) == 1:
        return values[0][1] if abs(values[0][0] - target) < 1e-9 else None
    for i, j in itertools.permutations(range(len(values)), 2):
        (a, left), (b, right) = values[i], values[j]
        rest = [value for k, value in enumerate(values) if k not in (i, j)]
        for value, text in (
            (a + b, f"({left} + {right})"),
            (a - b, f"({left} - {right})"),
            (a * b, f"({left} * {right})"),
            *([(a / b, f"({left} / {right})")] if b else []),
        ):
            found = _reach([*rest, (value, text)], target)
            if found is not None:
                return found
    return None


def _number_after(text: str, mark: str) -> str:
    return text.rpartition(mark)[2].strip()


RIGHT: Final[Mapping[str, Callable[[Row], str]]] = {
    "addition": lambda row: str(row["a"] + row["b"]),
    "gsm8k": lambda row: f"I multiply.</think>\n#### {_number_after(row['answer'], '####')}",
    "countdown": lambda row: (
        f"I try.</think>\n<answer>{countdown_answer(row['numbers'], row['target'])}</answer>"
    ),
    "math": lambda row: f"So it is $\\boxed{{{_math_answer(row)}}}$.",
    "code": lambda row: f"{row.get('code') or row['canonical_solution']}\n```",
    "multiple-choice": lambda row: (
        f"\\boxed{{{'yes' if row['answer'] else 'no'}}}"
        if "passage" in row
        else f"answer: {'ABCD'[row['answer']]}"
    ),
    "ifeval": lambda row: "it is wide and slow and old",  # noqa: ARG005 - it follows all three rules
    "conciseness": lambda row: str(row["answer"]),
    "sudoku": lambda row: f"<answer>\n{row['solution']}\n</answer>",
    "python": lambda row: str(row["a"] + row["b"]),
    "puzzle": lambda row: f"<answer>{row['answer']}</answer>",
}
"""An answer that passes, by kind of task."""

WRONG: Final = ("I do not know.", "A thought, Perhaps.</think>\n#### none", "<answer></answer>")


def _math_answer(row: Row) -> str:
    if "final_answer" in row:
        return str(row["final_answer"][0]).strip("$")
    if "answer" in row or "Answer" in row:
        return str(row.get("answer", row.get("Answer")))
    solution: str = row["solution"]
    return solution[solution.index("\\boxed{") + 7 : solution.rindex("}")]
