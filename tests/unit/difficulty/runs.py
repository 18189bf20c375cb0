"""Small states and runs for the example tests: every value that a test does not speak of is a plain one."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty import (
    AlgorithmSettings,
    Batch,
    DifficultyState,
    Results,
    Scored,
    Share,
    advance,
    draw_batch,
    one_stage,
    score,
)
from dartes.ids import Iteration
from dartes.tasks.rules import GradingRules

K0 = Iteration(0)


def settings(**values: Any) -> AlgorithmSettings:
    """Four members, batches of 4 of one data set, no end in sight; the stage's values by their own names."""
    plain: dict[str, Any] = {"population_size": 4, "batch_size": 4}
    if "stages" not in values:
        if "epochs" not in values:
            values.setdefault("iterations", 2**60)
        length = {name: values.pop(name) for name in ("iterations", "epochs") if name in values}
        rules = GradingRules(auxiliary_weight=values.pop("auxiliary_weight", 0.1))
        plain["stages"] = one_stage(**length, rules=rules)
    return AlgorithmSettings(**(plain | values))


def state_with_buffer(problem_count: int, pass_rate: float = 0.25) -> DifficultyState:
    """All problems visited once with this pass rate, all in the buffer; epoch 0 is just walked through."""
    state = DifficultyState.new(problem_count)
    state.history[:] = state.latest[:] = pass_rate
    state.visited[:] = state.in_buffer[:] = True
    state.walks[0].cursor = problem_count
    return state


def batch_of(problems: list[int], state: DifficultyState, replayed: list[bool] | None = None) -> Batch:
    """A batch of these problems, as if drawn from the state's place."""
    return Batch(
        iteration=K0,
        stage=state.stage,
        problems=np.array(problems, dtype=np.int64),
        replayed=np.array(replayed or [False] * len(problems)),
        shares=(
            Share(
                epoch=state.epoch,
                starts_epoch=False,
                cursor_before=state.walks[0].cursor,
                cursor_after=state.walks[0].cursor + len(problems),
                slots=0,
                eligible_count=0,
            ),
        ),
        buffer_size=state.buffer_size,
    )


def passes(counts: list[int], members: int = 4) -> Results:
    """Results in which problem j is passed by the first counts[j] members."""
    return Results(np.arange(members)[:, None] < np.array(counts)[None, :])


def visit(
    chosen: AlgorithmSettings, state: DifficultyState, problem: int, *counts: int, replayed: bool = False
) -> Scored:
    """Visits of one problem, each passed by so many members; gives what the last one decided."""
    assert counts
    for count in counts:
        batch = batch_of([problem], state, [replayed])
        scored = score(chosen, state, batch, passes([count], chosen.population_size))
        advance(chosen, state, batch, scored)
    return scored


Grade = Callable[[Batch], list[int]]
"""How many members pass each problem of a batch."""


def run(
    chosen: AlgorithmSettings, state: DifficultyState, grade: Grade, start: int = 0, most: int = 1000
) -> Iterator[tuple[Batch, Scored]]:
    """Draw, score and advance until the run is finished or `most` iterations are done."""
    for k in range(start, start + most):
        batch = draw_batch(chosen, state, Iteration(k))
        if batch is None:
            return
        scored = score(chosen, state, batch, passes(grade(batch), chosen.population_size))
        advance(chosen, state, batch, scored)
        yield batch, scored


def one_of_four(batch: Batch) -> list[int]:
    """A grade of 1 member on every problem: hard, but sometimes passed."""
    return [1] * batch.size


def upcoming(chosen: AlgorithmSettings, state: DifficultyState, epoch: int) -> NDArray[np.int64]:
    """The fresh problems of an epoch in their order."""
    return state.walks[0].order(chosen.seed, 0, epoch)
