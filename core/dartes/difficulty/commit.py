"""Moving the difficulty state forward by one scored batch.

The only code that changes a state. What to write was decided by `draw_batch` and `score`.
"""

from dartes.difficulty.batch import Batch
from dartes.difficulty.score import Scored
from dartes.difficulty.state import DifficultyState


def advance(state: DifficultyState, batch: Batch, scored: Scored) -> None:
    """Change `state` in place to what it is after the batch: O(B'), and O(P) where an epoch begins.

    Raises ValueError, with the state untouched, for a batch that was not drawn from this state.
    """
    opens_next = batch.starts_epoch and state.cursor == state.problem_count
    expected = (state.epoch + 1, 0) if opens_next else (state.epoch, state.cursor)
    if (batch.epoch, batch.cursor_before) != expected:
        raise ValueError(
            f"the batch of iteration {batch.iteration} begins at epoch {batch.epoch}, problem "
            f"{batch.cursor_before}; the state stands at epoch {expected[0]}, problem {expected[1]}"
        )
    if batch.starts_epoch:
        state.replays[:] = 0
    problems = batch.problems
    state.history[problems] = scored.history_after
    state.latest[problems] = scored.pass_rates
    state.visited[problems] = True
    state.zero_visits[problems] = scored.zero_visits_after
    state.in_buffer[problems] = scored.in_buffer_after
    replayed = problems[batch.replayed]
    state.replays[replayed] += 1
    state.last_replay[replayed] = batch.iteration
    state.epoch = batch.epoch
    state.cursor = batch.cursor_after
