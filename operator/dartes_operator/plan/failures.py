"""Counts ended pods, each exactly once, against the job's budgets; and says how long to wait after one.

A pod is counted in one pass and replaced in a later one, which sees the count in the written status: so a
crash between the two neither loses a count nor counts twice. Disruptions and failures have separate budgets.
"""

from datetime import datetime
from typing import Any, Final

from dartes.spec.job import JobSpec
from dartes_operator.plan.conditions import MOST_REASON, Condition
from dartes_operator.plan.endings import Ending, Verdict, ending_of
from dartes_operator.plan.finish import fail
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.progress import pause
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.times import after, parse_time, write_time
from dartes_operator.resources.identity import Role

# A worker failure is forgiven once the run has gone on for so many iterations since the first of them.
FORGIVEN_AFTER_ITERATIONS: Final = 10
LONGEST_WAIT_SECONDS: Final = 60
_WAITS: Final = {
    # Told to go without a sign of who told it: no charge, but no busy loop either.
    Verdict.DRAINED: 1.0,
    # The node that refused it may be chosen again at once.
    Verdict.REJECTED: 5.0,
    # A worker leaves when the run is done; the coordinator follows, unless it died just then.
    Verdict.DONE: 30.0,
    Verdict.DISRUPTED: 0.0,
    # It heals when somebody makes room, however long that takes.
    Verdict.VOLUME_FULL: 15.0,
}
_CHARGED: Final = (Verdict.FAILED, Verdict.CONFIGURATION)
_ZEROES: Final = {"coordinator": 0, "worker": 0, "disruptions": 0, "export": 0, "workerSince": 0}


def count(situation: Situation, draft: Draft, spec: JobSpec) -> bool:
    """Count what has ended since the status was written; true where there was something to count."""
    failures = draft.part("failures")
    for name, zero in _ZEROES.items():
        failures.setdefault(name, zero)
    iteration = committed(situation)
    if failures["worker"] and iteration >= failures["workerSince"] + FORGIVEN_AFTER_ITERATIONS:
        failures["worker"] = 0
    for pod in (*situation.pods, *situation.departed):
        if situation.is_counted(pod):
            continue
        if draft.conditions.trained and pod.role is not Role.EXPORT:
            # They have been let go; how they end is all the same.
            continue
        ending = ending_of(pod)
        if ending is None or ending.verdict is Verdict.DONE:
            continue
        if draft.room_for_marks() <= 0:
            if pod.departed:
                draft.overlooked.append(pod.mark)
            continue
        draft.counts.append(pod.mark)
        _count_one(situation, draft, pod, ending)
    if not draft.counts:
        return False
    _keep_to_budgets(draft, spec)
    return True


def committed(situation: Situation) -> int:
    """Iterations known to be committed."""
    written = (situation.before.get("progress") or {}).get("iteration") or 0
    progress = situation.observed.progress
    return max(int(written), progress.iteration if progress is not None else 0)


def wait_until(situation: Situation, pod: Pod, ending: Ending) -> datetime:
    """The time from which an ended pod may be replaced."""
    began = ending.time or situation.now
    if ending.verdict in _WAITS:
        return after(began, _WAITS[ending.verdict])
    failures = situation.before.get("failures") or {}
    times = max(1, int(failures.get(pod.role.value, 1)))
    return after(began, min(LONGEST_WAIT_SECONDS, 2.0 ** min(times - 1, 10)))


def latest_failed(situation: Situation, role: Role) -> Pod | None:
    """The pod of a role that failed last: it is kept, for its logs."""
    failed = [
        (ending.time or situation.now, pod.name, pod)
        for pod in situation.of(role)
        if pod.ended and (ending := ending_of(pod)) is not None and ending.verdict in _CHARGED
    ]
    return max(failed, key=lambda entry: entry[:2])[2] if failed else None


def _count_one(situation: Situation, draft: Draft, pod: Pod, ending: Ending) -> None:
    failures = draft.part("failures")
    charged = ending.verdict in _CHARGED and not _coordinator_was_away(situation, pod, ending)
    if ending.verdict is Verdict.DISRUPTED or ending.verdict is Verdict.REJECTED:
        failures["disruptions"] += 1
    if charged:
        if pod.role is Role.WORKER and failures["worker"] == 0:
            failures["workerSince"] = committed(situation)
        failures[pod.role.value] += 1
    if pod.role is Role.COORDINATOR:
        draft.part("coordinator")["restarts"] = draft.part("coordinator").get("restarts", 0) + 1
    _write_last(draft, situation, pod, ending, charged)
    if ending.verdict is Verdict.VOLUME_FULL:
        pause(draft, ending.message)
    else:
        _tell(draft, pod, ending, charged)
    if ending.verdict is Verdict.CONFIGURATION and (
        pod.role is Role.COORDINATOR or (pod.role is Role.WORKER and committed(situation) == 0)
    ):
        fail(draft, Verdict.CONFIGURATION.value, ending.message or "the pod gives no reason; see its log")


def _coordinator_was_away(situation: Situation, pod: Pod, ending: Ending) -> bool:
    """A worker that gave up because nobody answered is none of the workers' failures."""
    if pod.role is not Role.WORKER or ending.reason != "Transient":
        return False
    ready = [other for other in situation.of(Role.COORDINATOR) if other.ready]
    since = parse_time(ready[0].condition("Ready").get("lastTransitionTime")) if ready else None
    return since is None or (ending.time is not None and since > ending.time)


def _write_last(draft: Draft, situation: Situation, pod: Pod, ending: Ending, charged: bool) -> None:
    last: dict[str, Any] = {
        "pod": pod.name,
        "role": pod.role.value,
        "reason": ending.reason[:MOST_REASON],
        "message": ending.message,
        "time": write_time(ending.time or situation.now),
        "counted": charged,
    }
    if ending.exit_code is not None:
        last["exitCode"] = ending.exit_code
    draft.status["lastFailure"] = last


def _tell(draft: Draft, pod: Pod, ending: Ending, charged: bool) -> None:
    words = f"{pod.name}: {ending.reason}" + (f": {ending.message}" if ending.message else "")
    if pod.role is Role.WORKER:
        draft.event("WorkerFailed" if charged else "WorkerDisrupted", words, warning=charged)
    else:
        kind = "Failed" if charged else "Disrupted"
        draft.event(f"{pod.role.value.capitalize()}{kind}", words, warning=charged)


def _keep_to_budgets(draft: Draft, spec: JobSpec) -> None:
    if draft.conditions.holds(Condition.FAILED):
        return
    failures, policy = draft.part("failures"), spec.failure_policy
    last = draft.status["lastFailure"]
    told = f"the last was {last['pod']}: {last['reason']}" + (
        f": {last['message']}" if last["message"] else ""
    )
    budgets = (
        ("coordinator", policy.coordinator_restarts, "CoordinatorRestartsExceeded", "coordinatorRestarts"),
        ("worker", policy.worker_failures, "WorkerFailuresExceeded", "workerFailures"),
        ("disruptions", policy.max_disruptions, "DisruptionsExceeded", "maxDisruptions"),
    )
    for name, budget, reason, field in budgets:
        if budget is not None and failures[name] > budget:
            noun = "disruptions" if name == "disruptions" else f"failures of the {name}"
            fail(
                draft,
                reason,
                f"{failures[name]} {noun}, and spec.failurePolicy.{field} allows {budget}; {told}",
            )
            return
