"""The coordinator's pod: one at a time, under one name, made again after every end but the good one.

Its name is the fence against two of them, so a successor waits until the old pod object is gone.
"""

from dartes_operator.plan.certificates import Authority
from dartes_operator.plan.endings import ending_of
from dartes_operator.plan.failures import wait_until
from dartes_operator.plan.finish import delete_stuck
from dartes_operator.plan.pinning import Pinned
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.types import Create
from dartes_operator.resources.identity import Role
from dartes_operator.resources.pod import instance


def wants_coordinator(situation: Situation) -> bool:
    """Whether a coordinator must be made now: there is none of any kind."""
    return not situation.of(Role.COORDINATOR)


def plan_coordinator(situation: Situation, draft: Draft, pinned: Pinned, authority: Authority) -> None:
    """Make the coordinator where there is none; clear away one that has ended, after its wait."""
    delete_stuck(situation, draft)
    pods = situation.of(Role.COORDINATOR)
    if not pods:
        _create(situation, draft, pinned, authority)
        return
    for pod in pods:
        _clear(situation, draft, pod)


def _clear(situation: Situation, draft: Draft, pod: Pod) -> None:
    ending = ending_of(pod)
    if pod.terminating or ending is None or not situation.is_counted(pod):
        return
    due = wait_until(situation, pod, ending)
    if situation.now >= due:
        draft.delete(pod)
    else:
        draft.look_again(due)


def _create(situation: Situation, draft: Draft, pinned: Pinned, authority: Authority) -> None:
    name = situation.identity.coordinator
    manifest = instance(
        pinned.run.template(Role.COORDINATOR),
        name=name,
        config_map=pinned.name,
        template_hash=pinned.run.template_hash,
        authority=authority.mark,
    )
    draft.actions.append(Create(manifest, stamp_authority=authority.fresh))
    draft.part("coordinator")["podName"] = name
    again = situation.start_time is not None and situation.phase_before not in ("Suspended", "Pending", "")
    if again:
        draft.event("CoordinatorRestarted", f"made the pod {name} again, on its volume")
    else:
        draft.event("CoordinatorCreated", f"made the pod {name}")
