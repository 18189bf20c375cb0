"""The volume of the run's state: made once, never taken from another job by accident, kept where asked.

An existing claim is used only where the job names it; two jobs never work on one.
"""

from typing import Any

from dartes.spec.job import JobSpec
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.lifecycle import refuse
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.types import Create, Kind, Manifest, Patch
from dartes_operator.resources.claim import claim, claim_name, is_owned, makes_claim
from dartes_operator.resources.identity import JOB_UID_LABEL


def volume_ready(situation: Situation, draft: Draft, spec: JobSpec) -> bool:
    """Make or find the claim; false, with the reason in ResourcesReady, where the job must not use it."""
    name = claim_name(situation.identity, spec.checkpoint)
    draft.part("checkpoint")["claimName"] = name
    named, resume = spec.checkpoint.volume.claim_name, spec.checkpoint.resume_from
    if named is not None and resume is not None and resume.claim_name != named:
        refuse(
            draft,
            "InvalidSpec",
            "spec.checkpoint.volume.claimName: a run goes on in the volume that spec.checkpoint.resumeFrom "
            "names, and this is another one; remove either of them",
        )
        return False
    users = situation.observed.claim_users
    if users and situation.start_time is None:
        return _refuse(
            draft,
            f"the volume claim {name} is in use by the job {', '.join(users)}; wait for its end, or name "
            "another claim",
        )
    found = situation.observed.claim
    if found is None:
        if makes_claim(spec.checkpoint):
            draft.actions.append(Create(claim(situation.identity, spec.checkpoint)))
        return True
    if found["metadata"].get("deletionTimestamp"):
        return _refuse(draft, f"the volume claim {name} is being deleted; the job goes on once it is gone")
    if not makes_claim(spec.checkpoint):
        return True
    if not _is_of(found, situation.identity.uid):
        return _refuse(
            draft,
            f"the volume claim {name} exists already, from another run; delete it to start afresh, set "
            f"spec.checkpoint.resumeFrom.claimName: {name} to go on from it, or give the job another name",
        )
    _keep_or_not(situation, draft, spec, found)
    return True


def _refuse(draft: Draft, message: str) -> bool:
    draft.conditions.set(Condition.RESOURCES_READY, False, "VolumeExists", message)
    return False


def _is_of(found: Manifest, uid: str) -> bool:
    owner = _controller(found)
    if owner is not None:
        return bool(owner.get("uid") == uid)
    return (found["metadata"].get("labels") or {}).get(JOB_UID_LABEL) == uid


def _controller(found: Manifest) -> Any:
    owners = found["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _keep_or_not(situation: Situation, draft: Draft, spec: JobSpec, found: Manifest) -> None:
    """Whether a claim outlives its job is whether it has an owner, and that may change at any time."""
    meta = found["metadata"]
    owned = is_owned(spec.checkpoint)
    if (_controller(found) is not None) == owned:
        return
    others = [
        owner for owner in meta.get("ownerReferences") or () if owner.get("uid") != situation.identity.uid
    ]
    owners = [*others, situation.identity.owner] if owned else others
    draft.actions.append(
        Patch(Kind.CLAIM, meta["name"], {"metadata": {"uid": meta["uid"], "ownerReferences": owners or None}})
    )
