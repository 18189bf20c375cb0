"""Problem sets that are generated row by row, in a fixed order, so that the first rows cost little.

Each module makes one kind of problem for a split; `generated` finds the set with a given name.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from dartes.data.generators.choices import choices_sums_rows
from dartes.data.generators.countdown import countdown_rows
from dartes.data.generators.reasoning_gym import PREFIX, reasoning_gym_rows
from dartes.data.generators.splits import Split
from dartes.data.generators.sudoku import sudoku_rows
from dartes.tasks.base import Row

MakeRows: TypeAlias = Callable[[Split], Iterable[Row]]

_GENERATED: dict[str, MakeRows] = {
    "choices-sums": choices_sums_rows,
    "countdown": partial(countdown_rows, sizes=(3, 4)),
    **{f"countdown-{size}": partial(countdown_rows, sizes=(size,)) for size in (3, 4, 5, 6)},
    **{f"sudoku-{size}x{size}": partial(sudoku_rows, size=size) for size in (4, 9)},
}


def generated_names() -> tuple[str, ...]:
    """The names of the generated sets; `reasoning-gym-NAME` stands for one set per generator there."""
    return (*_GENERATED, f"{PREFIX}NAME")


def generated(name: str) -> MakeRows | None:
    """What makes the rows of the set called `name`; None where no set is called so."""
    if name.startswith(PREFIX):
        return partial(reasoning_gym_rows, name.removeprefix(PREFIX))
    return _GENERATED.get(name)
