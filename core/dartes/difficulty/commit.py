"""Moving the difficulty state forward by one scored batch.

The only code that changes a state. What to write was decided by `draw_batch` and `score`.
"""

from dartes.difficulty.batch import Batch, is_over
from dartes.difficulty.score import Scored
from dartes.difficulty.settings import AlgorithmSettings
from dartes.difficulty.state import DifficultyState
from dartes.ids import Iteration


def advance(settings: AlgorithmSettings, state: DifficultyState, batch: Batch, scored: Scored) -> None:
    """Change `state` in place to what it is after the batch: O(B'), and O(P) where an epoch or stage begins.

    Where the batch was a stage's last one, the state is then the next stage's fresh one; after the last stage
    it stays. Raises ValueError, with the state untouched, for a batch that was not drawn from this state.
    """
    _require_drawn_from(state, batch)
    for walk, share in zip(state.walks, batch.shares, strict=True):
        if share.starts_epoch:
            state.replays[walk.problems] = 0
        walk.epoch, walk.cursor = share.epoch, share.cursor_after
    problems = batch.problems
    state.history[problems] = scored.history_after
    state.latest[problems] = scored.pass_rates
    state.visited[problems] = True
    state.zero_visits[problems] = scored.zero_visits_after
    state.in_buffer[problems] = scored.in_buffer_after
    replayed = problems[batch.replayed]
    state.replays[replayed] += 1
    state.last_replay[replayed] = batch.iteration
    following = Iteration(batch.iteration + 1)
    if state.stage + 1 < len(settings.stages) and is_over(settings, state, following):
        state.enter(state.stage + 1, following)


def _require_drawn_from(state: DifficultyState, batch: Batch) -> None:
    if batch.stage != state.stage:
        raise ValueError(
            f"the batch of iteration {batch.iteration} is of stage {batch.stage}; the state is of stage "
            f"{state.stage}"
        )
    for walk, share in zip(state.walks, batch.shares, strict=True):
        opens_next = share.starts_epoch and walk.cursor == walk.count
        expected = (walk.epoch + 1, 0) if opens_next else (walk.epoch, walk.cursor)
        if (share.epoch, share.cursor_before) != expected:
            raise ValueError(
                f"the batch of iteration {batch.iteration} begins at epoch {share.epoch}, problem "
                f"{share.cursor_before}; the state stands at epoch {expected[0]}, problem {expected[1]}"
            )
