"""The job's certificates: when to make them, when to look at them, and which pods hold old ones.

Their authority's key is thrown away after signing, so one lost Secret means three new ones and new pods. They
are looked at only before a pod is made, because a pod that runs has read its own already.
"""

from dataclasses import dataclass

from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.types import IssueCertificates
from dartes_operator.resources.identity import Role, TlsRole
from dartes_operator.resources.secrets import tls_dns_names, tls_metadata


@dataclass(frozen=True)
class Authority:
    """Which authority new pods belong to.

    `known` is false where the Secrets must be read first; `blocked` where they are somebody else's; `fresh`
    where the authority is made in this plan, so that its mark is not known yet.
    """

    mark: str | None = None
    fresh: bool = False
    known: bool = True
    blocked: bool = False


def authority(situation: Situation, draft: Draft) -> Authority:
    """Find or make the authority; live pods of another one are retired, to be made anew."""
    state = situation.observed.tls
    if state is None:
        if situation.start_time is not None or situation.pods:
            return Authority(known=False)
        return _issue(situation, draft)
    if state.foreign:
        names = ", ".join(state.foreign)
        draft.conditions.set(
            Condition.RESOURCES_READY,
            False,
            "NameConflict",
            f"Secret {names} is not this job's; delete or rename it, or give the job another name",
        )
        return Authority(blocked=True)
    marks = {state.marks.get(role.value) for role in TlsRole}
    mark = marks.pop() if len(marks) == 1 else None
    for pod in situation.pods:
        stale = mark is None or pod.authority != mark
        if pod.live and pod.role is not Role.EXPORT and stale and _may_retire(situation, draft, pod):
            draft.retire(pod)
    return Authority(mark) if mark is not None else _issue(situation, draft)


def _issue(situation: Situation, draft: Draft) -> Authority:
    identity = situation.identity
    draft.actions.append(IssueCertificates(tls_metadata(identity), tls_dns_names(identity)))
    return Authority(fresh=True)


def _may_retire(situation: Situation, draft: Draft, pod: Pod) -> bool:
    return draft.room_for_marks() > 0 or situation.is_counted(pod)
