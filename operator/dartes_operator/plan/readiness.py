"""The conditions and counts that follow from the pods alone: who is ready, who waits, and why."""

from dartes.spec.job import JobSpec
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.waiting import Wait, why_waiting
from dartes_operator.plan.workers import desired_workers
from dartes_operator.resources.identity import JOB_UID_LABEL, ROLE_LABEL, Role


def tell_of_pods(situation: Situation, draft: Draft, spec: JobSpec) -> None:
    """Set QuotaReserved, CoordinatorReady, WorkersReady and ResourcesReady."""
    workers = [pod for pod in situation.of(Role.WORKER) if pod.live]
    coordinators = situation.of(Role.COORDINATOR)
    _tell_of_quota(draft, spec, workers)
    missing = [
        wait
        for wait in (
            _tell_of_coordinator(situation, draft, coordinators),
            _tell_of_workers(situation, draft, spec, workers),
        )
        if wait is not None and wait.reason == "SecretMissing"
    ]
    if draft.blocked:
        return
    if missing:
        draft.conditions.set(Condition.RESOURCES_READY, False, "SecretMissing", missing[0].message)
    else:
        draft.conditions.set(Condition.RESOURCES_READY, True, "Ready", "")


def count_workers(situation: Situation, draft: Draft, desired: int | None) -> None:
    """Write the counts of pods; `desired` stays as it was where it is None."""
    pods = situation.of(Role.WORKER)
    live = [pod for pod in pods if pod.live]
    workers = draft.part("workers")
    workers["replicas"] = len(live)
    workers["ready"] = sum(pod.ready for pod in live)
    workers["pending"] = sum(pod.phase == "Pending" for pod in live)
    workers["draining"] = sum(pod.terminating and not pod.ended for pod in pods)
    if desired is not None:
        workers["desired"] = desired
    workers["selector"] = f"{JOB_UID_LABEL}={situation.identity.uid},{ROLE_LABEL}={Role.WORKER.value}"
    workers["caughtUp"] = min(int(workers.get("caughtUp", 0)), len(live))
    coordinator = draft.part("coordinator")
    coordinator["ready"] = any(pod.ready for pod in situation.of(Role.COORDINATOR))
    coordinator.setdefault("restarts", 0)


def _tell_of_quota(draft: Draft, spec: JobSpec, workers: list[Pod]) -> None:
    if spec.queue_name is None:
        return
    admitted = sum(not pod.gated for pod in workers)
    needed = min(spec.workers.min_replicas, desired_workers(spec))
    was = draft.conditions.was(Condition.QUOTA_RESERVED)
    if admitted >= needed:
        draft.conditions.set(Condition.QUOTA_RESERVED, True, "Admitted", f"by the queue {spec.queue_name}")
        if not was:
            draft.event("Admitted", f"the queue {spec.queue_name} let at least {needed} workers in")
    elif workers:
        message = f"waiting in the queue {spec.queue_name} for at least {needed} workers"
        draft.conditions.set(Condition.QUOTA_RESERVED, False, "Queued", message)
        if draft.conditions.reason_before(Condition.QUOTA_RESERVED) != "Queued":
            draft.event("Queued", message)


def _tell_of_coordinator(situation: Situation, draft: Draft, pods: tuple[Pod, ...]) -> Wait | None:
    kind = Condition.COORDINATOR_READY
    if any(pod.ready for pod in pods):
        draft.conditions.set(kind, True, "Ready", "")
        return None
    leaving = next((pod for pod in pods if pod.terminating and pod.alive), None)
    if leaving is not None:
        overdue = leaving.deletion_time is not None and situation.now >= leaving.deletion_time
        if leaving.deletion_time is not None and not overdue:
            draft.look_again(leaving.deletion_time)
        draft.conditions.set(
            kind,
            False,
            "VolumeDetaching" if overdue else "Restarting",
            f"{leaving.name} has not left in its time, perhaps its node is lost; the next one waits for its "
            "name and its volume"
            if overdue
            else f"{leaving.name} is leaving; the next one waits for its name",
        )
        return None
    wait = why_waiting(situation, draft, pods, _before(draft, kind))
    draft.conditions.set(kind, False, wait.reason, wait.message)
    return wait


def _tell_of_workers(situation: Situation, draft: Draft, spec: JobSpec, workers: list[Pod]) -> Wait | None:
    kind = Condition.WORKERS_READY
    needed = min(spec.workers.min_replicas, desired_workers(spec))
    ready = sum(pod.ready for pod in workers)
    if ready >= needed:
        draft.conditions.set(kind, True, "Ready", f"at least {needed} ready")
        return None
    wait = why_waiting(situation, draft, workers, _before(draft, kind))
    draft.conditions.set(kind, False, wait.reason, wait.message)
    return wait


def _before(draft: Draft, kind: Condition) -> Wait:
    return Wait(0, draft.conditions.reason_before(kind), draft.conditions.message_before(kind))
