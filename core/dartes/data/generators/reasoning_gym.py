"""Problems of any generator of the `reasoning-gym` library, by name, as rows with their metadata.

The library draws from Python's `random`, so these sets are the same only where library and Python are: a
job's digest tells. Generators that give other problems in every process are refused.
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from difflib import get_close_matches
from importlib import import_module
from itertools import count, islice
from typing import Any

from dartes.data.errors import DatasetError
from dartes.data.generators.splits import Sieve, Split
from dartes.tasks.base import Row

PREFIX = "reasoning-gym-"
COUNTS = {Split.TRAIN: 20_000, Split.TEST: 2_000}
CHUNK = 500
"""Problems that are asked of one generator object; some prepare all of theirs at once."""

FIRST_SEED = {Split.TRAIN: 0, Split.TEST: 1 << 30}

UNSTEADY = frozenset(
    {
        "codeio",
        "isomorphic_strings",
        "knight_swap",
        "list_functions",
        "polynomial_multiplication",
        "ransom_note",
        "word_ladder",
    }
)
"""Generators that walk over sets of texts or draw without a seed: each process gets other problems."""

NEEDS_SETTINGS = frozenset({"composite"})


def reasoning_gym_rows(name: str, split: Split) -> Iterator[Row]:
    """Rows with `question`, `answer` (null where any right answer counts), `metadata` (JSON) and `dataset`.

    `name` is the part behind the prefix, with `-` or `_`. Raises `DatasetError` for a name that the library
    does not have, or whose generator cannot be used, and where the library is missing.
    """
    factory = _factory()
    generator = name.replace("-", "_")
    _refuse(generator, factory.DATASETS)
    return islice(_rows(factory, generator, split), COUNTS[split])


def _refuse(generator: str, there: Mapping[str, object]) -> None:
    source = f"dataset.source: builtin://{PREFIX}{generator.replace('_', '-')}"
    if generator not in there:
        usable = sorted(set(there) - UNSTEADY - NEEDS_SETTINGS)
        close = get_close_matches(generator, usable, n=5, cutoff=0.5) or usable[:5]
        names = ", ".join(PREFIX + other.replace("_", "-") for other in close)
        raise DatasetError(
            f"{source}: reasoning-gym has no generator '{generator}' (close to it: {names}; "
            f"there are {len(usable)} in all)"
        )
    if generator in NEEDS_SETTINGS:
        raise DatasetError(f"{source}: '{generator}' is no generator of its own; use the ones it is made of")
    if generator in UNSTEADY:
        raise DatasetError(
            f"{source}: this generator gives other problems in every process, so the parts of a job would "
            "not agree; write its problems to a .jsonl file once and use that file"
        )


def _rows(factory: Any, generator: str, split: Split) -> Iterator[Row]:
    sieve = Sieve(split)
    for chunk in count():
        made = factory.create_dataset(generator, seed=FIRST_SEED[split] + chunk * CHUNK, size=CHUNK)
        for index in range(CHUNK):
            with redirect_stdout(io.StringIO()):  # some print while they make a problem
                problem = made[index]
            question, answer = str(problem["question"]), problem["answer"]
            if sieve.admit(f"{generator}/{question}"):
                yield {
                    "question": question,
                    "answer": None if answer is None else str(answer),
                    "metadata": json.dumps(problem["metadata"], default=str),
                    "dataset": generator,
                }
            if sieve.exhausted:
                return


def _factory() -> Any:
    try:
        import_module("reasoning_gym")
    except ImportError as error:
        raise DatasetError(
            f"dataset.source: builtin://{PREFIX}... needs the reasoning-gym library ({error}); "
            "install it with: pip install '.[tasks]' in a clone"
        ) from error
    return import_module("reasoning_gym.factory")
