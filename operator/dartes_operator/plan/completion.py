"""The good end: the coordinator has left with 0; its model is exported where asked, and the job is complete.

A failed export doesn't undo the training: the state stays on its volume, and the message says how to get at
it.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from dartes.spec.job import DartESJob, JobSpec
from dartes_operator.plan.conditions import TRAINED, Condition
from dartes_operator.plan.endings import Ending, Verdict, ending_of
from dartes_operator.plan.failures import wait_until
from dartes_operator.plan.finish import delete_stuck, fail, let_go, succeed
from dartes_operator.plan.pinning import find, note_run, pin
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.times import after, parse_time, write_time
from dartes_operator.plan.types import Create
from dartes_operator.resources.identity import Role
from dartes_operator.resources.pod import instance
from dartes_operator.resources.run_config import PodTemplateError, export_template

MOST_EXPORT_TRIES: Final = 3


def note_training_done(situation: Situation, draft: Draft) -> None:
    """Note the coordinator's good end, with its last words."""
    if draft.conditions.trained:
        return
    for pod in (*situation.pods, *situation.departed):
        ending = ending_of(pod) if pod.role is Role.COORDINATOR else None
        if ending is not None and ending.verdict is Verdict.DONE:
            _note(situation, draft, _last_words(pod))
            return


def _note(situation: Situation, draft: Draft, words: Mapping[str, Any]) -> None:
    progress = draft.part("progress")
    for name in ("iteration", "totalIterations", "epoch"):
        if (count := _count(words, name)) is not None:
            progress[name] = count
    for name in ("trainPassRate", "evalAccuracy"):
        share = words.get(name)
        if isinstance(share, int | float) and not isinstance(share, bool) and math.isfinite(share):
            progress[name] = round(float(share), 4)
    progress["estimatedRemainingSeconds"] = 0
    progress["lastUpdateTime"] = write_time(situation.now)
    checkpoint = draft.part("checkpoint")
    if "iteration" in progress:
        checkpoint["lastIteration"] = progress["iteration"]
        checkpoint["lastTime"] = write_time(situation.now)
    for source, name in (("weightDigest", "digest"), ("journalHash", "journalHash")):
        if isinstance(words.get(source), str):
            checkpoint[name] = words[source]
    if (incarnation := _count(words, "incarnation")) is not None:
        draft.part("coordinator")["incarnation"] = incarnation
    draft.conditions.set(Condition.PROGRESSING, False, TRAINED, "all iterations are committed")
    draft.conditions.set(Condition.COORDINATOR_READY, False, TRAINED, "")
    draft.conditions.set(Condition.WORKERS_READY, False, TRAINED, "")
    draft.status_first = True


def _count(words: Mapping[str, Any], name: str) -> int | None:
    value = words.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def complete(situation: Situation, draft: Draft, job: DartESJob) -> None:
    """After training: let the workers go, export where asked, and end the job."""
    spec = job.spec
    for pod in situation.pods:
        if pod.role is not Role.EXPORT:
            let_go(situation, draft, pod)
    delete_stuck(situation, draft)
    if spec.export is None:
        _succeed(draft)
        return
    draft.status["phase"] = "Completing"
    # A refusal sets it anew.
    draft.conditions.set(Condition.RESOURCES_READY, True, "Ready", "")
    pods = situation.of(Role.EXPORT)
    if pods:
        for pod in pods:
            _follow(situation, draft, spec, pod)
    elif not _is_refused_for_good(situation, draft, spec) and all(
        not pod.alive for pod in situation.of(Role.COORDINATOR)
    ):
        _create(situation, draft, job)


def _is_refused_for_good(situation: Situation, draft: Draft, spec: JobSpec) -> bool:
    """Fail where the API server has refused the export's objects for as long as a start may take."""
    if situation.phase_before != "Completing":
        return False
    if draft.conditions.reason_before(Condition.ACCEPTED) == "PodTemplateInvalid":
        kind = Condition.ACCEPTED
    elif draft.conditions.reason_before(Condition.RESOURCES_READY) not in ("", "Ready"):
        kind = Condition.RESOURCES_READY
    else:
        return False
    times = (
        draft.conditions.since_before(kind),
        parse_time((situation.before.get("progress") or {}).get("lastUpdateTime")),
        situation.run_began,
    )
    due = after(max((time for time in times if time), default=situation.now), spec.startup_deadline_seconds)
    if situation.now < due:
        draft.look_again(due)
        return False
    _fail(
        draft,
        f"its pod could not be made within {spec.startup_deadline_seconds} s; "
        f"{draft.conditions.reason_before(kind)}: {draft.conditions.message_before(kind)}",
    )
    return True


def _create(situation: Situation, draft: Draft, job: DartESJob) -> None:
    spec = job.spec
    assert spec.export is not None
    pinned = find(situation)
    if pinned is None:
        # Somebody has deleted it; all that the export needs of the run follows from the job.
        try:
            pinned = pin(situation, draft, job, anew=False)
        except PodTemplateError as error:
            _fail(draft, f"the ConfigMap of the run is gone, and can't be made again: {error}")
            return
        note_run(situation, draft, pinned)
    before = pinned.job
    template = export_template(
        pinned.run,
        situation.identity,
        before.spec if before is not None else spec,
        spec.export,
        situation.pod_defaults,
    )
    manifest = instance(
        template,
        name=situation.identity.export,
        config_map=pinned.name,
        template_hash=pinned.run.template_hash,
        authority=None,
    )
    draft.actions.append(Create(manifest))


def _follow(situation: Situation, draft: Draft, spec: JobSpec, pod: Pod) -> None:
    ending = ending_of(pod)
    if ending is None:
        _keep_start(situation, draft, spec, pod)
    elif ending.verdict is Verdict.DONE:
        _exported(situation, draft, spec, pod)
    elif situation.is_counted(pod) and not pod.terminating:
        _again_or_fail(situation, draft, pod, ending)


def _exported(situation: Situation, draft: Draft, spec: JobSpec, pod: Pod) -> None:
    assert spec.export is not None
    words = _last_words(pod)
    export = {"uri": str(words.get("uri") or spec.export.destination), "time": write_time(situation.now)}
    if isinstance(words.get("digest"), str):
        export["digest"] = words["digest"]
    draft.status["export"] = export
    draft.event("Exported", f"the trained model is at {export['uri']}")
    _succeed(draft)


def _again_or_fail(situation: Situation, draft: Draft, pod: Pod, ending: Ending) -> None:
    tries = int((situation.before.get("failures") or {}).get("export", 0))
    if ending.verdict is Verdict.CONFIGURATION or tries >= MOST_EXPORT_TRIES:
        _fail(draft, f"after {tries} tries: {ending.reason}: {ending.message}")
        return
    due = wait_until(situation, pod, ending)
    if situation.now >= due:
        draft.delete(pod)
    else:
        draft.look_again(due)


def _keep_start(situation: Situation, draft: Draft, spec: JobSpec, pod: Pod) -> None:
    """A pod that never starts (a missing Secret) must not hold the job in Completing for ever."""
    if pod.phase != "Pending" or pod.created is None:
        return
    due = after(pod.created, spec.startup_deadline_seconds)
    if situation.now >= due:
        _fail(draft, f"its pod didn't start within {spec.startup_deadline_seconds} s")
    else:
        draft.look_again(due)


def _fail(draft: Draft, why: str) -> None:
    claim = (draft.status.get("checkpoint") or {}).get("claimName", "")
    name = draft.situation.identity.name
    fail(
        draft,
        "ExportFailed",
        f"training is complete, but the export failed ({why}). The trained state is safe on the volume claim "
        f"{claim}: `kubectl dartes export {name} --output DIR` writes the model out",
    )


def _succeed(draft: Draft) -> None:
    progress = draft.status.get("progress") or {}
    done = progress.get("iteration")
    succeed(draft, f"{done} iterations" if done is not None else "the run is done")


def _last_words(pod: Pod) -> Mapping[str, Any]:
    """The JSON that an ended pod left; empty where there is none that can be read."""
    text = str((pod.terminated or {}).get("message") or "").strip()
    # Where the pod wrote nothing, the kubelet shows the end of its log instead.
    last = text.splitlines()[-1] if text else ""
    try:
        found = json.loads(last)
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
