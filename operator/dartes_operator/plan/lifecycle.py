"""Whether a job is ours to act on, and whether what it asks can be done at all."""

from dataclasses import dataclass

from dartes.spec import DartESJob, InvalidJobError
from dartes.spec.job import JobSpec
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.pinning import find
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.types import Event, Manifest
from dartes_operator.plan.validation import read_job, words
from dartes_operator.resources.identity import RECONCILE_ANNOTATION

OUR_NAME = "dartes.dev/operator"


@dataclass(frozen=True)
class Accepted:
    """The job that a pass acts on: as written, or, where that has become invalid, as it was pinned."""

    job: DartESJob
    as_written: bool

    @property
    def spec(self) -> JobSpec:
        """What to train and how."""
        return self.job.spec


def hands_off(job: Manifest) -> bool:
    """Whether the job is being deleted, is another controller's, or asks to be left alone."""
    meta = job["metadata"]
    spec = job.get("spec") or {}
    return bool(
        meta.get("deletionTimestamp")
        or (spec.get("managedBy") or OUR_NAME) != OUR_NAME
        or (meta.get("annotations") or {}).get(RECONCILE_ANNOTATION) == "disabled"
    )


def accept(situation: Situation, draft: Draft) -> Accepted | None:
    """Check the spec; None, with the problems in Accepted, where there is nothing to act on."""
    try:
        job = read_job(situation.job)
    except InvalidJobError as error:
        refuse(draft, "InvalidSpec", words(error))
        pinned = find(situation) if situation.start_time is not None else None
        before = pinned.job if pinned is not None else None
        return None if before is None else Accepted(before, as_written=False)
    draft.conditions.set(Condition.ACCEPTED, True, "Accepted", "")
    return Accepted(job, as_written=True)


def read_spec(situation: Situation) -> JobSpec | None:
    """The spec as written; None where it is invalid."""
    try:
        return read_job(situation.job).spec
    except InvalidJobError:
        return None


def tell_of_acceptance(draft: Draft) -> None:
    """Tell, once, that the job is accepted."""
    if draft.conditions.holds(Condition.ACCEPTED) and not draft.conditions.was(Condition.ACCEPTED):
        draft.events.insert(0, Event("Normal", "Accepted", "the job is valid"))


def refuse(draft: Draft, reason: str, message: str) -> None:
    """Say why a job can't be acted on; an edit of its spec may mend it."""
    if draft.conditions.message_before(Condition.ACCEPTED) != message:
        draft.event(reason, message, warning=True)
    draft.conditions.set(Condition.ACCEPTED, False, reason, message)
