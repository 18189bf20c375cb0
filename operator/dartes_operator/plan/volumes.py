"""The volume of the run's state: made once, never taken from another job by accident, kept where asked.

An existing claim is used only where the job names it; two jobs never work on one.
"""

from collections.abc import Mapping
from typing import Any, Final

from dartes.spec.checkpoint import CheckpointSpec
from dartes.spec.job import API_VERSION, KIND, JobSpec
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.lifecycle import refuse
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.types import Create, Kind, Manifest, Patch
from dartes_operator.resources.claim import claim, claim_name, is_owned, makes_claim
from dartes_operator.resources.identity import JOB_UID_LABEL, MANAGED_BY, MANAGED_BY_LABEL, Role

API_GROUP: Final = API_VERSION.split("/", maxsplit=1)[0] + "/"


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
    return True


def keep_or_not(situation: Situation, draft: Draft, checkpoint: CheckpointSpec, *, adopts: bool) -> bool:
    """Give the claim its owner, or take it off, as the policy says; true where that is still to be done.

    Whether a claim outlives its job is whether it has an owner, and that may change at any time, after the
    end as well. `adopts` says that the job may take over a claim that it goes on from: it then bears this
    job's labels, so that the job that made it neither takes it along nor claims it back.
    """
    found, identity = situation.observed.claim, situation.identity
    # A claim that the user made is the user's to delete.
    if (
        found is None
        or found["metadata"].get("deletionTimestamp")
        or checkpoint.volume.claim_name is not None
    ):
        return False
    ours, owned = _is_of(found, identity.uid), is_owned(checkpoint)
    if not ours and not (adopts and _may_adopt(situation, checkpoint, found)):
        return False
    if ours and (_controller(found) is not None) == owned:
        return False
    meta = found["metadata"]
    others = [owner for owner in meta.get("ownerReferences") or () if not _is_job(owner)]
    owners = [*others, identity.owner] if owned else others
    changes: dict[str, Any] = {"uid": meta["uid"], "ownerReferences": owners or None}
    if not ours:
        changes["labels"] = identity.labels(Role.COORDINATOR.value)
    # First, so that nothing that is refused later keeps it from being done.
    draft.actions.insert(0, Patch(Kind.CLAIM, meta["name"], {"metadata": changes}))
    return True


def _may_adopt(situation: Situation, checkpoint: CheckpointSpec, found: Manifest) -> bool:
    """Whether the claim is one that a job made, which this one goes on from and nobody else works on."""
    owner = _controller(found)
    labels = found["metadata"].get("labels") or {}
    return (
        checkpoint.resume_from is not None
        and labels.get(MANAGED_BY_LABEL) == MANAGED_BY
        and (owner is None or _is_job(owner))
        and not situation.observed.claim_users
    )


def _is_job(owner: Mapping[str, Any]) -> bool:
    return owner.get("kind") == KIND and str(owner.get("apiVersion", "")).startswith(API_GROUP)


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
