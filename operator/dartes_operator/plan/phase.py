"""The phase: one word for people, derived from conditions and pods. Only deadlines depend on it."""

from dartes.spec.job import JobSpec
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.deadlines import has_committed
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.suspend import SUSPENDING
from dartes_operator.plan.times import parse_time

_HAS_RUN = ("Running", "Restarting")


def phase_of(situation: Situation, draft: Draft, spec: JobSpec) -> str:
    """The phase of a job that is neither ended, nor suspended, nor completing."""
    conditions = draft.conditions
    if conditions.reason(Condition.SUSPENDED) == SUSPENDING:
        return "Suspending"
    if conditions.holds(Condition.COORDINATOR_READY) and conditions.holds(Condition.WORKERS_READY):
        return "Running"
    if spec.queue_name is not None and not conditions.holds(Condition.QUOTA_RESERVED):
        return "Queued"
    # As it will be written: this pass may be the one that resumes the job.
    began = parse_time(draft.status.get("lastResumeTime") or draft.status.get("startTime"))
    # A queue may have taken the workers of a run that was well under way.
    if situation.phase_before in _HAS_RUN or (began is not None and has_committed(situation, began)):
        return "Restarting"
    if any(pod.scheduled for pod in situation.pods):
        return "Initializing"
    return "Pending"
