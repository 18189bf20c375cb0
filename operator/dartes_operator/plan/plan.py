"""The plan of one job: what to do now, what its status is, when to look again. Each policy has its own file.

Level-triggered: a plan is made from what the API server holds, and what was last seen of pods that have
gone. What it says is carried out as far as it goes; the next one sees what came of it.
"""

from datetime import datetime
from typing import Final

from dartes_operator.plan.certificates import authority
from dartes_operator.plan.completion import complete, note_training_done
from dartes_operator.plan.coordinator import plan_coordinator
from dartes_operator.plan.deadlines import keep_deadlines
from dartes_operator.plan.failures import count
from dartes_operator.plan.finish import tell_of_volume, tidy
from dartes_operator.plan.lifecycle import Accepted, accept, hands_off, read_spec, refuse, tell_of_acceptance
from dartes_operator.plan.network import keep_policies, service_ready
from dartes_operator.plan.phase import phase_of
from dartes_operator.plan.pinning import note_run, pin, retire_others, tell_of_ignored_templates
from dartes_operator.plan.progress import tell_of_progress, write_progress
from dartes_operator.plan.readiness import count_workers, tell_of_pods
from dartes_operator.plan.situation import Draft, Situation, uids
from dartes_operator.plan.suspend import is_suspending, resume, suspend, suspend_again, was_suspended
from dartes_operator.plan.times import write_time
from dartes_operator.plan.types import (
    Action,
    Create,
    Defaults,
    Delete,
    IssueCertificates,
    Kind,
    Manifest,
    Observed,
    Plan,
    ReadCertificates,
)
from dartes_operator.plan.volumes import keep_or_not, volume_ready
from dartes_operator.plan.waiting import waits_for_volumes
from dartes_operator.plan.workers import desired_workers, plan_workers
from dartes_operator.resources.run_config import PodTemplateError

# What stands in a job's way may be an object that no watch shows.
BLOCKED_SECONDS: Final = 30
_EVENTS_OF_CREATES: Final = ("CoordinatorCreated", "CoordinatorRestarted", "WorkersCreated")


def plan(job: Manifest, observed: Observed, now: datetime, defaults: Defaults) -> Plan:
    """Decide what to do for a job.

    Parameters
    ----------
    job
        The DartESJob as the API server gives it, with its status as written last.
    observed
        All that exists of it.
    now
        The time, with a time zone.
    defaults
        What the operator's configuration adds.
    """
    if hands_off(job):
        return Plan(status=job.get("status") or {}, time=now, settled=uids(observed.departed))
    situation = Situation(job, observed, now, defaults)
    draft = Draft.of(situation)
    if draft.is_over():
        return _after_the_end(situation, draft)
    accepted = accept(situation, draft)
    if accepted is None:
        draft.status.setdefault("phase", "Pending")
        draft.overlooked += [pod.mark for pod in situation.departed]
        return _finished(situation, draft)
    spec = accepted.spec
    note_training_done(situation, draft)
    # Asked once: the end of the job takes the word of it off again.
    trained = draft.conditions.trained
    ran = False
    asked = _is_suspension_asked(situation, draft, accepted)
    # A run that is done has nothing to suspend, unless its export is still to be made.
    ends_now = trained and spec.export is None
    if is_suspending(draft, asked=asked) and not ends_now:
        suspend(situation, draft, asked=asked)
    else:
        if not was_suspended(draft) and not trained:
            # After a suspension they count from this very pass; what was done in time is not late.
            keep_deadlines(situation, draft, spec)
        if draft.is_over():
            pass
        elif count(situation, draft, spec):
            draft.status_first = True
            draft.look_again_in(0)
        elif trained:
            if spec.export is not None:
                resume(situation, draft)
            complete(situation, draft, accepted.job)
        else:
            ran = _run(situation, draft, accepted)
            if _must_read(draft):
                return Plan(status=situation.before, actions=(ReadCertificates(),), time=now)
        if draft.is_over():
            tell_of_volume(draft, spec)
        elif not trained:
            _tell(situation, draft, accepted)
    if accepted.as_written:
        # A start may still be refused, and a job that never ran takes no volume along.
        keep_or_not(situation, draft, spec.checkpoint, adopts=situation.start_time is not None)
    tell_of_acceptance(draft)
    count_workers(situation, draft, desired_workers(spec) if ran else None)
    moved = draft.conditions.changed() or draft.status.get("phase") != situation.phase_before
    if not trained:
        write_progress(situation, draft, now=moved)
    return _finished(situation, draft)


def _is_suspension_asked(situation: Situation, draft: Draft, accepted: Accepted) -> bool:
    """By the spec as written, also where the rest of it is invalid; an invalid spec resumes nothing."""
    if accepted.as_written:
        return accepted.spec.suspend
    return bool((situation.job.get("spec") or {}).get("suspend")) or was_suspended(draft)


def _run(situation: Situation, draft: Draft, accepted: Accepted) -> bool:
    """Bring everything about that a running job needs; false where something stands in the way."""
    spec = accepted.spec
    resuming = was_suspended(draft)
    draft.starting = situation.start_time is None
    if not (volume_ready(situation, draft, spec) and service_ready(situation, draft)):
        return _stand(draft)
    try:
        anew = resuming or draft.starting
        pinned = pin(situation, draft, accepted.job, anew=anew)
    except PodTemplateError as error:
        refuse(draft, "PodTemplateInvalid", str(error))
        return _stand(draft)
    keep_policies(situation, draft, spec, resuming=resuming)
    found = authority(situation, draft)
    if found.blocked:
        return _stand(draft)
    if anew and retire_others(situation, draft, pinned):
        # Nothing has begun until they are gone: the next plans come to this point again.
        if resuming:
            suspend_again(draft)
        return True
    note_run(situation, draft, pinned)
    if accepted.as_written and not anew:
        tell_of_ignored_templates(situation, draft, pinned, spec)
    resume(situation, draft)
    plan_coordinator(situation, draft, pinned, found)
    plan_workers(situation, draft, spec, pinned, found)
    makes_pod = any(_makes_pod(action) for action in draft.actions)
    if not found.known and (makes_pod or waits_for_volumes(situation)):
        draft.actions.append(ReadCertificates())
    if draft.starting:
        draft.status["startTime"] = write_time(situation.now)
    return True


def _stand(draft: Draft) -> bool:
    """Something stands in the way, and a condition says what: leave everything as it is."""
    draft.actions.clear()
    draft.starting = False
    draft.blocked = True
    draft.look_again_in(BLOCKED_SECONDS)
    return False


def _tell(situation: Situation, draft: Draft, accepted: Accepted) -> None:
    tell_of_pods(situation, draft, accepted.spec)
    tell_of_progress(situation, draft)
    draft.status["phase"] = phase_of(situation, draft, accepted.spec)


def _after_the_end(situation: Situation, draft: Draft) -> Plan:
    """Nothing is created again, and what the status says of the end stays."""
    lifetime = (situation.job.get("spec") or {}).get("ttlSecondsAfterFinished")
    tidy(situation, draft, lifetime if isinstance(lifetime, int) else None)
    spec = read_spec(situation)
    changing = spec is not None and keep_or_not(situation, draft, spec.checkpoint, adopts=False)
    if changing and draft.delete_job:
        # The job goes only once its volume is sure to stay, or to go with it.
        draft.delete_job = False
        draft.look_again_in(BLOCKED_SECONDS)
    count_workers(situation, draft, None)
    return _finished(situation, draft)


def _finished(situation: Situation, draft: Draft) -> Plan:
    """Close the books: pods that are accounted for, and how far the spec has been followed."""
    deleted = {action.uid for action in draft.actions if isinstance(action, Delete)}
    present = {pod.mark: pod for pod in situation.pods}
    failures = draft.status.get("failures") or {}
    kept = [
        mark
        for mark in failures.get("counted") or ()
        # One that lives though it was to go has been kept after all, unless this pass only counts.
        if mark in present and (draft.counts or not present[mark].live or present[mark].uid in deleted)
    ]
    counted = [*kept, *draft.counts, *draft.marks]
    if counted or "counted" in failures:
        draft.part("failures")["counted"] = counted
    if draft.marks:
        # Written down before they go; what is made in their place is for the next plan.
        draft.status_first = True
        draft.look_again_in(0)
        draft.actions = [action for action in draft.actions if _goes_with_marks(action)]
        draft.events = [event for event in draft.events if event.reason not in _EVENTS_OF_CREATES]
    if not draft.status_first and not draft.blocked:
        # What comes after the status could be lost in a crash, and would not be done again; where something
        # stands in the way, what is asked has not been done at all.
        draft.status["observedGeneration"] = situation.generation
        if draft.policies is not None:
            draft.status["policyHash"] = draft.policies
    return draft.plan()


def _must_read(draft: Draft) -> bool:
    return any(isinstance(action, ReadCertificates) for action in draft.actions)


def _makes_pod(action: Action) -> bool:
    return isinstance(action, Create) and action.manifest["kind"] == Kind.POD.value


def _goes_with_marks(action: Action) -> bool:
    return isinstance(action, IssueCertificates) or (isinstance(action, Delete) and action.kind is Kind.POD)
