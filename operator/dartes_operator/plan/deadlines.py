"""The job's two deadlines: how long it may run, and how long it may take to get going."""

from datetime import datetime
from typing import Final

from dartes.spec.job import JobSpec
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.finish import fail
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.times import after, parse_time
from dartes_operator.plan.workers import desired_workers
from dartes_operator.resources.identity import Role

_NOT_RUNNING_YET: Final = ("", "Pending", "Initializing", "Suspended")


def keep_deadlines(situation: Situation, draft: Draft, spec: JobSpec) -> None:
    """Fail the job where it has run, or waited to run, for too long."""
    began = situation.run_began
    if began is None:
        return
    if spec.active_deadline_seconds is not None:
        due = after(began, spec.active_deadline_seconds)
        if situation.now >= due:
            fail(
                draft,
                "DeadlineExceeded",
                f"the job ran for longer than spec.activeDeadlineSeconds ({spec.active_deadline_seconds})",
            )
            return
        draft.look_again(due)
    if situation.phase_before in _NOT_RUNNING_YET:
        _keep_startup(situation, draft, spec, began)


def _keep_startup(situation: Situation, draft: Draft, spec: JobSpec, began: datetime) -> None:
    if draft.conditions.was(Condition.QUOTA_RESERVED):
        # Time in the queue doesn't count.
        began = max(began, draft.conditions.since(Condition.QUOTA_RESERVED) or began)
    due = after(began, spec.startup_deadline_seconds)
    if situation.now < due:
        draft.look_again(due)
        return
    if _works_now(situation, spec) or has_committed(situation, began):
        # It got going while no operator was there to write it down.
        return
    why = next(
        (
            f"{draft.conditions.reason_before(kind)}: {message}" if message else ""
            for kind in (Condition.RESOURCES_READY, Condition.COORDINATOR_READY, Condition.WORKERS_READY)
            if not draft.conditions.was(kind) and (message := draft.conditions.message_before(kind))
        ),
        "no reason is known",
    )
    fail(
        draft,
        "StartupDeadlineExceeded",
        f"the pods didn't start within spec.startupDeadlineSeconds ({spec.startup_deadline_seconds}); {why}",
    )


def _works_now(situation: Situation, spec: JobSpec) -> bool:
    """Whether the pods that a run needs are ready, whatever the status as written says."""
    ready = sum(pod.ready for pod in situation.of(Role.WORKER))
    needed = min(spec.workers.min_replicas, desired_workers(spec))
    return ready >= needed and any(pod.ready for pod in situation.of(Role.COORDINATOR))


def has_committed(situation: Situation, began: datetime) -> bool:
    """Whether an iteration was committed since the run began, by the last answer or by the status.

    A coordinator that has only read its state tells of earlier iterations, and of no time for the last one.
    """
    answer = situation.observed.progress
    if answer is not None and answer.iteration > 0 and answer.last_iteration_seconds > 0:
        return answer.time >= began
    written = situation.before.get("progress") or {}
    committed = parse_time((situation.before.get("checkpoint") or {}).get("lastTime"))
    told = written.get("iteration", 0) > 0 and written.get("lastIterationSeconds", 0) > 0
    return told and committed is not None and committed >= began
