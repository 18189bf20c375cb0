"""The end of a job: reaching it, tidying up after it, and deleting it when its time to live has passed.

After the end nothing is created again; pods that still hold a node are deleted, ended ones stay for their
logs.
"""

from datetime import datetime

from dartes.spec.checkpoint import RetentionPolicy
from dartes.spec.job import JobSpec
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.endings import Verdict, ending_of
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.times import after, parse_time, write_time
from dartes_operator.resources.claim import claim_name
from dartes_operator.resources.identity import Role

STUCK_SECONDS = 30
# An ended pod keeps its log and last words; one whose other containers go on holds its node all the same.
COMPANY_SECONDS = 30
# A worker hears of the end when it next asks for work. A pod that is deleted takes its log along.
FAREWELL_SECONDS = 10


def fail(draft: Draft, reason: str, message: str) -> None:
    """The job has failed, for good."""
    if draft.is_over():
        return
    draft.conditions.set(Condition.FAILED, True, reason, message)
    _end(draft, "Failed")
    draft.event("DeadlineExceeded" if reason == "DeadlineExceeded" else "Failed", message, warning=True)


def succeed(draft: Draft, message: str) -> None:
    """The job has done what it was asked."""
    if draft.is_over():
        return
    draft.conditions.set(Condition.COMPLETE, True, "Completed", message)
    _end(draft, "Succeeded")
    draft.event("Completed", message)


def _end(draft: Draft, phase: str) -> None:
    draft.status["phase"] = phase
    draft.status["completionTime"] = write_time(draft.situation.now)
    draft.conditions.set(Condition.PROGRESSING, False, "Ended", "")
    draft.conditions.set(Condition.COORDINATOR_READY, False, "Ended", "")
    draft.conditions.set(Condition.WORKERS_READY, False, "Ended", "")
    draft.status_first = True
    # What is left of the pods is the next plan's, which sees the end written.
    draft.look_again_in(0)


def tell_of_volume(draft: Draft, spec: JobSpec) -> None:
    """Say that the volume stays when the job is deleted."""
    if spec.checkpoint.retention_policy is RetentionPolicy.RETAIN:
        name = claim_name(draft.situation.identity, spec.checkpoint)
        draft.event("RetainedVolume", f"the volume claim {name} stays when the job is deleted")


def tidy(situation: Situation, draft: Draft, ttl_seconds: int | None) -> None:
    """Delete what still holds a node, and the job itself after its time to live."""
    for pod in situation.pods:
        let_go(situation, draft, pod)
    delete_stuck(situation, draft)
    ended = parse_time(situation.before.get("completionTime"))
    if ttl_seconds is None or ended is None:
        return
    due = after(ended, ttl_seconds)
    if situation.now >= due:
        draft.delete_job = True
    else:
        draft.look_again(due)


def let_go(situation: Situation, draft: Draft, pod: Pod) -> None:
    """Delete a pod that still holds a node, unless it is just about to end as a whole."""
    if not pod.alive or pod.terminating:
        return
    due = _ends_by(situation, pod)
    if due is not None and situation.now < due:
        draft.look_again(due)
    else:
        draft.delete(pod)


def _ends_by(situation: Situation, pod: Pod) -> datetime | None:
    """Until when a pod may still end by itself; None where it won't."""
    finished = parse_time((pod.terminated or {}).get("finishedAt"))
    if finished is not None:
        # The container's end is told before the pod's.
        return after(finished, COMPANY_SECONDS)
    if pod.role is not Role.WORKER or pod.phase != "Running":
        return None
    done = _done_at(situation)
    return after(done, FAREWELL_SECONDS) if done is not None else None


def _done_at(situation: Situation) -> datetime | None:
    """When the coordinator left because the run is done."""
    for pod in situation.of(Role.COORDINATOR):
        ending = ending_of(pod)
        if ending is not None and ending.verdict is Verdict.DONE:
            return parse_time((pod.terminated or {}).get("finishedAt"))
    return None


def delete_stuck(situation: Situation, draft: Draft) -> None:
    """Delete without grace a coordinator or export pod that outlived its grace: its node is lost.

    Their volume is fenced by what is written on it, so the late old one can do no harm. Nobody waits for a
    worker's name, so a worker may take as long as it likes.
    """
    for pod in situation.pods:
        if pod.deletion_time is None or pod.role.value == "worker":
            continue
        due = after(pod.deletion_time, STUCK_SECONDS)
        if situation.now >= due:
            draft.delete(pod, grace_seconds=0)
            draft.look_again_in(STUCK_SECONDS)
        else:
            draft.look_again(due)
