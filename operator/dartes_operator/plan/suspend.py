"""Suspension: every pod goes, everything else stays; and the way back.

A suspension that has begun is carried through, also where it is taken back half-way: the run goes on from new
pods, never from a mixture.
"""

from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.finish import STUCK_SECONDS, delete_stuck
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.times import after, write_time
from dartes_operator.resources.identity import Role

SUSPENDING = "Suspending"


def is_suspending(draft: Draft, *, asked: bool) -> bool:
    """Whether pods must go, or be gone: it is asked for, or under way."""
    return asked or draft.conditions.reason_before(Condition.SUSPENDED) == SUSPENDING


def was_suspended(draft: Draft) -> bool:
    """Whether the status as written says that the job is suspended."""
    return draft.conditions.was(Condition.SUSPENDED)


def suspend(situation: Situation, draft: Draft, *, asked: bool) -> None:
    """Delete every pod; the job is suspended once they are gone."""
    for pod in situation.pods:
        if not pod.terminating:
            draft.delete(pod)
    delete_stuck(situation, draft)
    if any(_is_waited_for(situation, draft, pod) for pod in situation.pods):
        draft.conditions.set(Condition.SUSPENDED, False, SUSPENDING, "waiting for the pods to leave")
        draft.status["phase"] = "Suspending"
        # No end of a pod is counted from here on, so this must be known before the first of them ends.
        draft.status_first = draft.conditions.reason_before(Condition.SUSPENDED) != SUSPENDING
        return
    for pod in situation.pods:
        draft.mark(pod)
    if not was_suspended(draft) and situation.start_time is not None:
        draft.event("Suspended", "all pods are gone; the state is kept")
    draft.conditions.set(Condition.SUSPENDED, True, "Suspended", "all pods are gone")
    draft.conditions.set(Condition.COORDINATOR_READY, False, "Suspended", "")
    draft.conditions.set(Condition.WORKERS_READY, False, "Suspended", "")
    if not draft.conditions.trained:
        draft.conditions.set(Condition.PROGRESSING, False, "Suspended", "")
    draft.status["phase"] = "Suspended"
    if not asked:
        draft.look_again_in(0)


def suspend_again(draft: Draft) -> None:
    """Pods of a resume that was cut off must go before the job goes on: it is not suspended until then."""
    draft.conditions.set(Condition.SUSPENDED, False, SUSPENDING, "waiting for the pods to leave")


def resume(situation: Situation, draft: Draft) -> None:
    """The job goes on: deadlines count from now."""
    if not was_suspended(draft):
        return
    draft.conditions.set(Condition.SUSPENDED, False, "Resumed", "")
    if situation.start_time is not None:
        draft.status["lastResumeTime"] = write_time(situation.now)
        draft.event("Resumed", "the job goes on from its last committed iteration")


def _is_waited_for(situation: Situation, draft: Draft, pod: Pod) -> bool:
    """Workers on a lost node are not: without a coordinator they have nobody to work for."""
    if pod.deletion_time is None or pod.role is not Role.WORKER:
        return True
    due = after(pod.deletion_time, STUCK_SECONDS)
    if situation.now < due:
        draft.look_again(due)
        return True
    return False
