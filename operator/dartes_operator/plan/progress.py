"""What the coordinator says of the run, as status shows it: rarely written, and never for a mere estimate.

A run that says nothing for long is called stalled; the time is measured from the last iteration seen.
"""

import math
import re
from datetime import datetime
from typing import Any, Final

from dartes.errors import RESTORED
from dartes.rewards.trouble import REWARDS_UNAVAILABLE
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.times import after, parse_time, write_time
from dartes_operator.plan.types import Progress

SECONDS_BETWEEN_WRITES: Final = 10
STALLED_SECONDS: Final = 600
STALLED_ITERATIONS: Final = 10
# The whole sentence: other notes quote what users have written.
_RESTORED: Final = re.compile(rf"The backup \S+ {re.escape(RESTORED)}: ")


def tell_of_progress(situation: Situation, draft: Draft) -> None:
    """Set Progressing, CheckpointHealthy and ReplicasConsistent from the coordinator's last answer."""
    progress = situation.observed.progress
    if progress is None:
        return
    paused = _phase_of(progress) == "paused"
    waits_for_rewards = paused and REWARDS_UNAVAILABLE in progress.message
    if paused and not waits_for_rewards:
        pause(draft, progress.message)
    else:
        _tell_of_state(draft, progress)
    if progress.weight_digest:
        draft.conditions.set(Condition.REPLICAS_CONSISTENT, True, "DigestsAgree", "")
    if waits_for_rewards:
        if draft.conditions.reason_before(Condition.PROGRESSING) != "RewardUnavailable":
            draft.event("RewardUnavailable", progress.message, warning=True)
        draft.conditions.set(Condition.PROGRESSING, False, "RewardUnavailable", progress.message)
        return
    stalled_at = _stalled_at(situation, progress)
    if stalled_at is not None and situation.now >= stalled_at:
        message = f"no iteration was committed since {(situation.before['checkpoint'])['lastTime']}"
        if draft.conditions.reason_before(Condition.PROGRESSING) != "Stalled":
            draft.event("Stalled", message, warning=True)
        draft.conditions.set(Condition.PROGRESSING, False, "Stalled", message)
        return
    if stalled_at is not None:
        draft.look_again(stalled_at)
    if progress.iteration > 0 or _phase_of(progress) in ("running", "finishing"):
        draft.conditions.set(Condition.PROGRESSING, True, "Iterating", "")


def pause(draft: Draft, message: str) -> None:
    """The state can't be written, as the coordinator says: nothing is committed until that is mended."""
    if draft.conditions.reason_before(Condition.CHECKPOINT_HEALTHY) != "Paused":
        draft.event("CheckpointFailed", message, warning=True)
    draft.conditions.set(Condition.CHECKPOINT_HEALTHY, False, "Paused", message)


def _tell_of_state(draft: Draft, progress: Progress) -> None:
    """The state is written; that some of it was lost before is told as long as that coordinator works."""
    lost = next((note for note in progress.notes if _RESTORED.search(note)), None)
    if lost is None:
        draft.conditions.set(Condition.CHECKPOINT_HEALTHY, True, "Written", "")
        return
    if draft.conditions.reason_before(Condition.CHECKPOINT_HEALTHY) != "Restored":
        draft.event("Restored", lost, warning=True)
    draft.conditions.set(Condition.CHECKPOINT_HEALTHY, True, "Restored", lost)


def write_progress(situation: Situation, draft: Draft, *, now: bool) -> None:
    """Write what has changed, at once where something else is written as well, else at most every 10 s."""
    progress = situation.observed.progress
    if progress is None:
        return
    before = situation.before.get("progress") or {}
    block = _block(progress)
    counts = {"caughtUp": progress.workers_caught_up}
    incarnation = progress.incarnation
    same = (
        _without_estimate(block) == _without_estimate(before)
        and (situation.before.get("workers") or {}).get("caughtUp") == counts["caughtUp"]
        and (situation.before.get("coordinator") or {}).get("incarnation") == incarnation
    )
    if same:
        return
    last = parse_time(before.get("lastUpdateTime"))
    due = after(last, SECONDS_BETWEEN_WRITES) if last is not None else situation.now
    if not now and situation.now < due:
        draft.look_again(due)
        return
    draft.status["progress"] = {**block, "lastUpdateTime": write_time(situation.now)}
    draft.part("workers").update(counts)
    draft.part("coordinator")["incarnation"] = incarnation
    checkpoint = draft.part("checkpoint")
    if checkpoint.get("lastIteration") != progress.iteration:
        checkpoint["lastIteration"] = progress.iteration
        checkpoint["lastTime"] = write_time(progress.time)
    for name, value in (("digest", progress.weight_digest), ("journalHash", progress.journal_hash)):
        if value:
            checkpoint[name] = value


def _block(progress: Progress) -> dict[str, Any]:
    numbers = {
        "estimatedRemainingSeconds": (progress.estimated_remaining_seconds, 0),
        "lastIterationSeconds": (progress.last_iteration_seconds, 3),
        "trainPassRate": (progress.train_pass_rate, 4),
        "evalAccuracy": (progress.eval_accuracy, 4),
    }
    return {
        "iteration": progress.iteration,
        "totalIterations": progress.total_iterations,
        "epoch": progress.epoch,
        "replayBufferSize": progress.replay_buffer_size,
        **({"stage": progress.stage + 1, "stages": progress.stages} if progress.stages > 1 else {}),
        # JSON has neither infinity nor NaN, and an estimate may be either before the first iteration.
        **{
            name: round(value, digits)
            for name, (value, digits) in numbers.items()
            if value is not None and math.isfinite(value)
        },
    }


def _without_estimate(block: Any) -> dict[str, Any]:
    dropped = ("estimatedRemainingSeconds", "lastUpdateTime")
    return {key: value for key, value in block.items() if key not in dropped}


def _stalled_at(situation: Situation, progress: Progress) -> datetime | None:
    checkpoint = situation.before.get("checkpoint") or {}
    last = parse_time(checkpoint.get("lastTime"))
    if last is None or checkpoint.get("lastIteration") != progress.iteration:
        return None
    began = max(last, situation.run_began or last)
    return after(began, max(STALLED_SECONDS, STALLED_ITERATIONS * progress.last_iteration_seconds))


def _phase_of(progress: Progress) -> str:
    return progress.phase.lower().removeprefix("phase_")
