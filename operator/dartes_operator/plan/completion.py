"""The good end: the coordinator has left with 0; its model is exported where asked, and the job is complete.

A failed export doesn't undo the training: the state stays on its volume, and the message says how to get at
it.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from dartes.spec.job import JobSpec
from dartes_operator.plan.conditions import TRAINED, Condition
from dartes_operator.plan.endings import Ending, Verdict, ending_of
from dartes_operator.plan.failures import wait_until
from dartes_operator.plan.finish import delete_stuck, fail, let_go, succeed
from dartes_operator.plan.pinning import Pinned, find
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.times import after, write_time
from dartes_operator.plan.types import Create
from dartes_operator.resources.identity import Role
from dartes_operator.resources.pod import instance
from dartes_operator.resources.run_config import export_template

MOST_EXPORT_TRIES: Final = 3


def note_training_done(situation: Situation, draft: Draft) -> None:
    """Note the coordinator's good end, with its last words."""
    if draft.conditions.trained:
        return
    for pod in situation.of(Role.COORDINATOR):
        ending = ending_of(pod)
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


def complete(situation: Situation, draft: Draft, spec: JobSpec) -> None:
    """After training: let the workers go, export where asked, and end the job."""
    for pod in situation.pods:
        if pod.role is not Role.EXPORT:
            let_go(situation, draft, pod)
    delete_stuck(situation, draft)
    if spec.export is None:
        _succeed(draft)
        return
    draft.status["phase"] = "Completing"
    pods = situation.of(Role.EXPORT)
    pinned = find(situation)
    if pods:
        for pod in pods:
            _follow(situation, draft, spec, pod)
    elif pinned is None:
        _fail(draft, "the ConfigMap of the run is gone, so the export pod can't be made")
    elif all(not pod.alive for pod in situation.of(Role.COORDINATOR)):
        _create(situation, draft, spec, pinned)


def _create(situation: Situation, draft: Draft, spec: JobSpec, pinned: Pinned) -> None:
    assert spec.export is not None
    job = pinned.job
    template = export_template(
        pinned.run,
        situation.identity,
        job.spec if job is not None else spec,
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
