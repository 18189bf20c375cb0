"""Drawing a batch: of each data set its replay share first, then fresh problems of the epoch, then a shuffle.

The batch of iteration k is a pure function of (settings, the state after k commits, k): nothing is stored
between calls but a memo of each epoch's order. Results and scores are not known here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dartes.difficulty.settings import AlgorithmSettings, stream_key
from dartes.difficulty.state import DifficultyState, Walk
from dartes.difficulty.weighted import draw_weights, draw_without_replacement
from dartes.ids import Iteration
from dartes.noise.streams import Purpose, WordSource, shuffled


@dataclass(frozen=True, slots=True)
class Share:
    """How one data set came to its part of a batch."""

    epoch: int
    """The epoch whose fresh problems these are."""
    starts_epoch: bool
    """True for the first share of an epoch: replay visits of the epoch before no longer count."""
    cursor_before: int
    """Fresh problems of `epoch` visited before this batch."""
    cursor_after: int
    slots: int
    """Replay slots on offer: round(quota * rho), at most quota - 1."""
    eligible_count: int
    """Problems that could have filled them; below `slots`, fresh problems fill the rest."""


@dataclass(frozen=True, eq=False)
class Batch:
    """The problems of one iteration in their final order, and how they came to be chosen.

    B' = fresh + replayed problems; fewer than B only where an epoch ends. No problem occurs twice.
    """

    iteration: Iteration
    stage: int
    problems: NDArray[np.int64]
    """Problem indices within the stage, int64[B'], read-only."""
    replayed: NDArray[np.bool_]
    """True where the problem fills a replay slot, False where it is fresh; bool[B'], read-only."""
    shares: tuple[Share, ...]
    """By data set of the stage."""
    buffer_size: int
    """Problems in the replay buffer when the batch was drawn."""

    @property
    def size(self) -> int:
        """B', the number of problems."""
        return int(self.problems.size)

    @property
    def replay_count(self) -> int:
        return int(np.count_nonzero(self.replayed))

    @property
    def epoch(self) -> int:
        """The epoch of the set that is least far."""
        return min(share.epoch for share in self.shares)

    @property
    def slots(self) -> int:
        """Replay slots on offer, of all sets."""
        return sum(share.slots for share in self.shares)

    @property
    def eligible_count(self) -> int:
        """Problems that could have filled replay slots, of all sets."""
        return sum(share.eligible_count for share in self.shares)


def draw_batch(settings: AlgorithmSettings, state: DifficultyState, iteration: Iteration) -> Batch | None:
    """The batch of `iteration`, given the state after all iterations before it; None = the run is finished.

    Each set gives as many problems as its quota: a replay share of min(slots, eligible), and fresh ones at
    its cursor up to the quota, or up to its epoch's end: no set gives fresh problems of two epochs at once.
    """
    if is_over(settings, state, iteration):
        return None
    drawn, is_replay, shares = [], [], []
    for index, (walk, quota) in enumerate(zip(state.walks, settings.quotas[state.stage], strict=True)):
        key = stream_key(state.stage, index)
        epoch, cursor = walk.next_place
        slots = settings.replay_slots(quota)
        eligible = _eligible(settings, state, iteration, walk, quota, key)
        replayed = _draw_replayed(settings, state, iteration, key, eligible, min(slots, eligible.size))
        fresh = walk.order(settings.seed, key, epoch)[cursor : cursor + quota - replayed.size]
        drawn += [replayed, fresh]
        is_replay += [True] * replayed.size + [False] * fresh.size
        shares.append(
            Share(
                epoch=epoch,
                starts_epoch=epoch != walk.epoch,
                cursor_before=cursor,
                cursor_after=cursor + int(fresh.size),
                slots=slots,
                eligible_count=int(eligible.size),
            )
        )
    stage_key = stream_key(state.stage)
    shuffle = shuffled(settings.seed, Purpose.BATCH_SHUFFLE, stage_key, iteration, len(is_replay))
    problems = np.concatenate(drawn)[shuffle]
    sources = np.array(is_replay, dtype=np.bool_)[shuffle]
    problems.setflags(write=False)
    sources.setflags(write=False)
    return Batch(
        iteration=iteration,
        stage=state.stage,
        problems=problems,
        replayed=sources,
        shares=tuple(shares),
        buffer_size=state.buffer_size,
    )


def is_over(settings: AlgorithmSettings, state: DifficultyState, iteration: Iteration) -> bool:
    """Whether the state's stage ends before `iteration`.

    After as many iterations as it has, or when each of its sets was walked for as many epochs; sets that are
    sooner through go on with further epochs until then.
    """
    stage = settings.stages[state.stage]
    if stage.iterations is not None:
        return iteration - state.first_iteration >= stage.iterations
    assert stage.epochs is not None  # a stage holds exactly one of the two
    return all(walk.next_place[0] >= stage.epochs for walk in state.walks)


def eligible_problems(
    settings: AlgorithmSettings, state: DifficultyState, iteration: Iteration
) -> NDArray[np.int64]:
    """The problems that may fill a replay slot of `iteration`, ascending, int64[E]; none without replay.

    In the buffer; not in the window of their set (its next fresh problems, as many as its quota, although the
    batch may take fewer); replayed fewer than `max_visits_per_epoch` times in this epoch; last replayed more
    than `cooldown_iterations` ago; estimated below the mastery threshold.
    """
    walks = zip(state.walks, settings.quotas[state.stage], strict=True)
    return np.concatenate(
        [
            _eligible(settings, state, iteration, walk, quota, stream_key(state.stage, index))
            for index, (walk, quota) in enumerate(walks)
        ]
    )


def estimates(settings: AlgorithmSettings, state: DifficultyState) -> NDArray[np.float64]:
    """What stands for pbar_j: the history, or the latest pass rate with `history` off; float64[P], a view."""
    return state.history if settings.history else state.latest


def estimated_iterations(settings: AlgorithmSettings, state: DifficultyState, committed: int) -> int:
    """How many iterations the whole run will have, given the state after `committed` of them.

    Exact where every stage has its `iterations`. In a stage of `epochs` replay decides how many fresh
    problems a batch takes, so its length is projected from its batches so far, or from its quotas.
    """
    total = state.first_iteration
    for number in range(state.stage, len(settings.stages)):
        stage = settings.stages[number]
        if stage.iterations is not None:
            total += stage.iterations
            continue
        assert stage.epochs is not None
        started = number == state.stage and committed > state.first_iteration
        if started:
            done = committed - state.first_iteration
            total += done + max(_left(walk, stage.epochs, done) for walk in state.walks)
        else:
            counts = zip(state.problem_counts[number], settings.quotas[number], strict=True)
            total += max(stage.epochs * -(-count // quota) for count, quota in counts)
    return total


def _left(walk: Walk, epochs: int, done: int) -> int:
    """Iterations until a set is walked for so many epochs, at the pace of the `done` ones."""
    walked = walk.epoch * walk.count + walk.cursor
    return max(0, -(-(epochs * walk.count - walked) * done // walked))


def _eligible(
    settings: AlgorithmSettings,
    state: DifficultyState,
    iteration: Iteration,
    walk: Walk,
    quota: int,
    key: int,
) -> NDArray[np.int64]:
    """As `eligible_problems`, of one set."""
    epoch, cursor = walk.next_place
    opens = epoch != walk.epoch
    if not settings.replay or (opens and settings.max_visits_per_epoch == 0):
        return np.empty(0, dtype=np.int64)
    inside = np.flatnonzero(state.in_buffer[walk.problems]) + walk.offset
    eligible = estimates(settings, state)[inside] < settings.mastery_threshold
    eligible &= state.last_replay[inside] < iteration - settings.cooldown_iterations
    if not opens:
        eligible &= state.replays[inside] < settings.max_visits_per_epoch
    if inside.size:
        window = walk.order(settings.seed, key, epoch)[cursor : cursor + quota]
        places = np.minimum(np.searchsorted(inside, window), inside.size - 1)
        eligible[places[inside[places] == window]] = False
    return inside[eligible]


def _draw_replayed(
    settings: AlgorithmSettings,
    state: DifficultyState,
    iteration: Iteration,
    key: int,
    eligible: NDArray[np.int64],
    count: int,
) -> NDArray[np.int64]:
    """`count` of the eligible problems in the order drawn, P(j) proportional to exp(-kappa * pbar_j)."""
    if count == 0:
        return np.empty(0, dtype=np.int64)
    weights = draw_weights(estimates(settings, state)[eligible], settings.weight_exponent)
    source = WordSource(settings.seed, Purpose.REPLAY_DRAW, key, iteration)
    return eligible[draw_without_replacement(weights, count, source)]
