"""Drawing a batch: the replay share first, then fresh problems of the epoch, then a shuffle.

The batch of iteration k is a pure function of (settings, the state after k commits, k): nothing is stored
between calls but a memo of the epoch's order. Results and scores are not known here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty.settings import AlgorithmSettings
from dartes.difficulty.state import DifficultyState
from dartes.difficulty.weighted import draw_weights, draw_without_replacement
from dartes.ids import Iteration
from dartes.noise.streams import Purpose, WordSource, shuffled


@dataclass(frozen=True, eq=False)
class Batch:
    """The problems of one iteration in their final order, and how they came to be chosen.

    B' = fresh + replayed problems; fewer than B only where an epoch ends. No problem occurs twice.
    """

    iteration: Iteration
    problems: NDArray[np.int64]
    """Problem indices, int64[B'], read-only."""
    replayed: NDArray[np.bool_]
    """True where the problem fills a replay slot, False where it is fresh; bool[B'], read-only."""
    epoch: int
    """The epoch whose fresh problems these are."""
    starts_epoch: bool
    """True for the first batch of an epoch: replay visits of the epoch before no longer count."""
    cursor_before: int
    """Fresh problems of `epoch` visited before this batch."""
    cursor_after: int
    slots: int
    """Replay slots on offer: round(B * rho), at most B - 1."""
    eligible_count: int
    """Problems that could have filled them; below `slots`, fresh problems fill the rest."""
    buffer_size: int
    """Problems in the replay buffer when the batch was drawn."""

    @property
    def size(self) -> int:
        """B', the number of problems."""
        return int(self.problems.size)

    @property
    def replay_count(self) -> int:
        return int(np.count_nonzero(self.replayed))


def draw_batch(
    settings: AlgorithmSettings, state: DifficultyState, iteration: Iteration, stage: int = 0
) -> Batch | None:
    """The batch of `iteration`, given the state after all iterations before it; None = the run is finished.

    The replay share is min(slots, eligible) problems; fresh problems at the cursor fill the batch up to B,
    or up to the epoch's end: a batch never takes fresh problems of two epochs.
    """
    if settings.iterations is not None and iteration >= settings.iterations:
        return None
    epoch, cursor = _place(state)
    if settings.epochs is not None and epoch >= settings.epochs:
        return None
    slots = settings.replay_slots
    eligible = eligible_problems(settings, state, iteration, stage)
    replayed = _draw_replayed(settings, state, iteration, stage, eligible, min(slots, eligible.size))
    order = state.epoch_order(settings.seed, stage, epoch)
    fresh = order[cursor : cursor + settings.batch_size - replayed.size]

    shuffle = shuffled(settings.seed, Purpose.BATCH_SHUFFLE, stage, iteration, replayed.size + fresh.size)
    problems = np.concatenate([replayed, fresh])[shuffle]
    is_replayed = shuffle < replayed.size
    problems.setflags(write=False)
    is_replayed.setflags(write=False)
    return Batch(
        iteration=iteration,
        problems=problems,
        replayed=is_replayed,
        epoch=epoch,
        starts_epoch=epoch != state.epoch,
        cursor_before=cursor,
        cursor_after=cursor + int(fresh.size),
        slots=slots,
        eligible_count=int(eligible.size),
        buffer_size=state.buffer_size,
    )


def eligible_problems(
    settings: AlgorithmSettings, state: DifficultyState, iteration: Iteration, stage: int = 0
) -> NDArray[np.int64]:
    """The problems that may fill a replay slot of `iteration`, ascending, int64[E]; none without replay.

    In the buffer; not among the next B fresh problems of the epoch (the whole window, although the batch may
    take fewer); replayed fewer than `max_visits_per_epoch` times in this epoch; last replayed more than
    `cooldown_iterations` ago; estimated below the mastery threshold.
    """
    if not settings.replay:
        return np.empty(0, dtype=np.int64)
    epoch, cursor = _place(state)
    eligible = state.in_buffer & (estimates(settings, state) < settings.mastery_threshold)
    eligible &= state.last_replay < iteration - settings.cooldown_iterations
    if epoch == state.epoch:
        eligible &= state.replays < settings.max_visits_per_epoch
    elif settings.max_visits_per_epoch == 0:
        eligible[:] = False
    order = state.epoch_order(settings.seed, stage, epoch)
    eligible[order[cursor : cursor + settings.batch_size]] = False
    return np.flatnonzero(eligible)


def estimates(settings: AlgorithmSettings, state: DifficultyState) -> NDArray[np.float64]:
    """What stands for pbar_j: the history, or the latest pass rate with `history` off; float64[P], a view."""
    return state.history if settings.history else state.latest


def estimated_iterations(settings: AlgorithmSettings, state: DifficultyState, committed: int) -> int:
    """How many iterations the whole run will have, given the state after `committed` of them.

    Exact for a run of `iterations`. For a run of `epochs` replay decides how many fresh problems a batch
    takes, so the count is projected from the batches so far.
    """
    if settings.iterations is not None:
        return settings.iterations
    assert settings.epochs is not None  # the settings hold exactly one of the two
    total_fresh = settings.epochs * state.problem_count
    done_fresh = state.epoch * state.problem_count + state.cursor
    if committed == 0 or done_fresh == 0:
        return settings.epochs * -(-state.problem_count // settings.batch_size)
    return committed + -(-(total_fresh - done_fresh) * committed // done_fresh)


def _place(state: DifficultyState) -> tuple[int, int]:
    """Epoch and cursor of the next batch: a walked-through epoch gives way to the next one."""
    if state.cursor == state.problem_count:
        return state.epoch + 1, 0
    return state.epoch, state.cursor


def _draw_replayed(
    settings: AlgorithmSettings,
    state: DifficultyState,
    iteration: Iteration,
    stage: int,
    eligible: NDArray[np.int64],
    count: int,
) -> NDArray[np.int64]:
    """`count` of the eligible problems in the order drawn, P(j) proportional to exp(-kappa * pbar_j)."""
    if count == 0:
        return np.empty(0, dtype=np.int64)
    weights = draw_weights(estimates(settings, state)[eligible], settings.weight_exponent)
    source = WordSource(settings.seed, Purpose.REPLAY_DRAW, stage, iteration)
    return eligible[draw_without_replacement(weights, count, source)]
