"""Multiple-choice questions over sums of two digits, in MMLU's columns.

For a model that is to learn the form of an answer: the arithmetic is as small as it can be.
"""

from collections.abc import Iterator
from itertools import islice

from dartes.data.generators.draws import Draws
from dartes.data.generators.splits import Split, numbered
from dartes.tasks.base import Row

CHOICES = 4
COUNTS = {Split.TRAIN: 4_000, Split.TEST: 500}
TEST_PAIRS = 15
"""Of the 55 pairs of digits, in any order, those whose sums only the test split asks for."""


def choices_sums_rows(split: Split) -> Iterator[Row]:
    """Rows with `question`, `choices` (four texts), `answer` (0 to 3) and `subject`; none twice."""
    pairs = Draws("choices-sums/pairs").shuffled([(a, b) for a in range(10) for b in range(a, 10)])
    kept = pairs[:TEST_PAIRS] if split is Split.TEST else pairs[TEST_PAIRS:]
    return islice(_rows(split, kept), COUNTS[split])


def _rows(split: Split, pairs: list[tuple[int, int]]) -> Iterator[Row]:
    seen = set()
    for name in numbered(split, "choices-sums"):
        draws = Draws(name)
        a, b = draws.shuffled(draws.choose(pairs))
        nearby = [value for value in range(max(0, a + b - 5), a + b + 6) if value != a + b]
        values = draws.shuffled([a + b, *draws.shuffled(nearby)[: CHOICES - 1]])
        row = (a, b, *values)
        if row not in seen:
            seen.add(row)
            yield {
                "question": f"{a}+{b}",
                "subject": "sums of two digits",
                "choices": [str(value) for value in values],
                "answer": values.index(a + b),
            }
