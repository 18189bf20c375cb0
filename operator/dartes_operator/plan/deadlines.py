"""The job's two deadlines: how long it may run, and how long it may take to get going."""

from datetime import datetime
from typing import Final

from dartes.spec.job import JobSpec
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.finish import fail
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.times import after

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
