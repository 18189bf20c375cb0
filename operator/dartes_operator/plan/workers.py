"""The workers' pods: as many as asked within the bounds, each in its slot, the highest removed first.

A slot whose pod is leaving gets its next one at once, under the next free name: nobody waits for a lost node.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dartes.spec.job import JobSpec
from dartes_operator.plan.certificates import Authority
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.endings import Verdict, ending_of
from dartes_operator.plan.failures import latest_failed, wait_until
from dartes_operator.plan.pinning import Pinned
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.types import Create
from dartes_operator.resources.identity import Role
from dartes_operator.resources.pod import instance
from dartes_operator.resources.worker import grace_seconds

MOST_CREATED_AT_ONCE: Final = 128

Slots = Mapping[int, Sequence[Pod]]


def desired_workers(spec: JobSpec) -> int:
    """How many workers there shall be: what is asked, within the bounds."""
    workers = spec.workers
    return min(max(workers.replicas, workers.min_replicas), workers.max_replicas)


def most_that_help(spec: JobSpec) -> int:
    """Leases of one iteration: more workers than these find nothing to do."""
    return spec.es.population_size * spec.es.slices_per_member


def plan_workers(
    situation: Situation, draft: Draft, spec: JobSpec, pinned: Pinned, authority: Authority
) -> None:
    """Fill empty slots, retire surplus workers, and clear away what has ended."""
    wanted = desired_workers(spec)
    slots = _slots(situation)
    free = [index for index in range(wanted) if _is_free(situation, draft, slots.get(index, ()))]
    now, later = free[:MOST_CREATED_AT_ONCE], free[MOST_CREATED_AT_ONCE:]
    _retire_surplus(draft, spec, slots, wanted)
    _clear_ended(situation, draft, wanted, set(now))
    names = [_create(draft, pinned, authority, index, slots.get(index, ())) for index in now]
    if names:
        shown = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        draft.event("WorkersCreated", f"made {len(names)} worker{'s' * (len(names) > 1)}: {shown}")
    if names and spec.queue_name:
        # A pod is held back from the moment it is made, so no watch tells of it.
        draft.look_again_in(1)
    if later:
        draft.look_again_in(0)
    _tell_of_scaling(situation, draft, spec, wanted, made=len(names))


def _is_free(situation: Situation, draft: Draft, pods: Sequence[Pod]) -> bool:
    """Nobody works in the slot, and what was there is counted and waited for."""
    if any(pod.live for pod in pods):
        return False
    for pod in pods:
        ending = ending_of(pod)
        if ending is None:
            return False
        if ending.verdict is not Verdict.DONE and not situation.is_counted(pod):
            return False
        due = wait_until(situation, pod, ending)
        if situation.now < due:
            draft.look_again(due)
            return False
    return True


def _retire_surplus(draft: Draft, spec: JobSpec, slots: Slots, wanted: int) -> None:
    surplus: list[Pod] = []
    for index, pods in slots.items():
        live = [pod for pod in pods if pod.live]
        surplus += live if index >= wanted or index < 0 else live[1:]
    for pod in sorted(surplus, key=lambda pod: (-pod.index, pod.name)):
        if draft.room_for_marks() <= 0 and not draft.situation.is_counted(pod):
            draft.look_again_in(1)
            return
        draft.retire(pod, grace_seconds(spec))


def _clear_ended(situation: Situation, draft: Draft, wanted: int, filled: Iterable[int]) -> None:
    kept = latest_failed(situation, Role.WORKER)
    occupied = {pod.index for pod in situation.of(Role.WORKER) if pod.live} | set(filled)
    for pod in situation.of(Role.WORKER):
        ending = ending_of(pod)
        if not pod.ended or ending is None or pod.terminating or pod is kept:
            continue
        accounted = situation.is_counted(pod) or ending.verdict is Verdict.DONE
        if accounted and (pod.index in occupied or pod.index >= wanted):
            draft.delete(pod)


def _create(draft: Draft, pinned: Pinned, authority: Authority, index: int, there: Sequence[Pod]) -> str:
    taken = {pod.name for pod in there}
    attempt = 0
    while (name := draft.situation.identity.worker(index, attempt)) in taken:
        attempt += 1
    manifest = instance(
        pinned.run.template(Role.WORKER),
        name=name,
        config_map=pinned.name,
        template_hash=pinned.run.template_hash,
        authority=authority.mark,
        worker_index=index,
    )
    draft.actions.append(Create(manifest, stamp_authority=authority.fresh))
    return name


def _slots(situation: Situation) -> Slots:
    slots: dict[int, list[Pod]] = {}
    for pod in situation.of(Role.WORKER):
        slots.setdefault(pod.index, []).append(pod)
    return slots


def _tell_of_scaling(situation: Situation, draft: Draft, spec: JobSpec, wanted: int, *, made: int) -> None:
    workers = spec.workers
    before = (situation.before.get("workers") or {}).get("desired")
    if before is not None and before != wanted and situation.start_time is not None:
        word = "ScaledUp" if wanted > before else "ScaledDown"
        draft.event(word, f"{before} to {wanted} workers")
    helped = most_that_help(spec)
    live = sum(pod.live for pod in situation.of(Role.WORKER))
    if workers.replicas != wanted:
        reason = "ScaleClamped"
        message = (
            f"spec.workers.replicas is {workers.replicas}, and minReplicas {workers.min_replicas} to "
            f"maxReplicas {workers.max_replicas} are allowed: {wanted} workers"
        )
        if draft.conditions.message_before(Condition.WORKERS_SCALED) != message:
            draft.event("ScaleClamped", message, warning=True)
    elif wanted > helped:
        reason = "MoreThanHelp"
        message = (
            f"{wanted} workers share {helped} leases per iteration (es.populationSize x es.slicesPerMember); "
            f"more than {helped} help nothing"
        )
    else:
        reason, message = "AsAsked", f"{wanted} workers"
    if live + made == wanted:
        draft.conditions.set(Condition.WORKERS_SCALED, True, reason, message)
    else:
        draft.conditions.set(Condition.WORKERS_SCALED, False, "Scaling", message)
