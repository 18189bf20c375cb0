"""Which run the pods are made from: the pinned one, or a new rendering at the start and after a suspension.

The run ConfigMap is the truth: what was rendered once is never rendered again while a run goes on, whatever
the operator's version or defaults, so an upgrade restarts nothing and mixes no images.
"""

from dataclasses import dataclass

from dartes.spec.job import DartESJob, JobSpec
from dartes_operator.plan.conditions import Condition
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.types import Create, Delete, Kind, Manifest
from dartes_operator.plan.validation import read_pinned
from dartes_operator.resources.run_config import Images, Run, read, render


@dataclass(frozen=True)
class Pinned:
    """A run, and the object that pins it."""

    run: Run
    name: str

    @property
    def job(self) -> DartESJob | None:
        """The job as it was when the run was pinned."""
        return read_pinned(self.run.job_text)


def find(situation: Situation) -> Pinned | None:
    """The run that is under way: the one that the status names, and no other.

    A ConfigMap is made by whoever may make one; only the status is the operator's alone. So what it does not
    name, or what is not of that name's hash, pins nothing.
    """
    wanted = situation.before.get("templateHash")
    if not wanted:
        return None
    config_map = _named(situation, situation.identity.run_config(str(wanted)))
    if config_map is None or config_map["metadata"].get("deletionTimestamp"):
        return None
    run = read(config_map)
    return Pinned(run, config_map["metadata"]["name"]) if run is not None else None


def _named(situation: Situation, name: str) -> Manifest | None:
    return next(
        (found for found in situation.observed.config_maps if found["metadata"]["name"] == name),
        None,
    )


def pin(situation: Situation, draft: Draft, job: DartESJob, *, anew: bool) -> Pinned:
    """The run to make pods from; creates its ConfigMap where there is none and deletes older ones.

    `anew` says that the run begins or goes on after a suspension, so that the spec as it is now counts.

    Raises
    ------
    PodTemplateError
        A new rendering is due and the guard refuses it.
    """
    pinned = None if anew else find(situation)
    if pinned is None:
        images = situation.images if anew else _images_of_the_run(situation)
        run, manifest = render(situation.identity, job, images, situation.pod_defaults)
        pinned = Pinned(run, manifest["metadata"]["name"])
        there = _named(situation, pinned.name)
        if there is not None and there.get("data") != manifest["data"]:
            # Not what its name says: pods would read it all the same.
            meta = there["metadata"]
            if not meta.get("deletionTimestamp"):
                draft.actions.append(Delete(Kind.CONFIG_MAP, meta["name"], meta["uid"]))
            there = None
        if there is None:
            draft.actions.append(Create(manifest))
    used = {pod.template_hash for pod in situation.pods if pod.alive} | {pinned.run.template_hash}
    for config_map in situation.observed.config_maps:
        meta = config_map["metadata"]
        in_use = any(meta["name"].endswith(f"-run-{template_hash}") for template_hash in used)
        if not in_use and not meta.get("deletionTimestamp"):
            draft.actions.append(Delete(Kind.CONFIG_MAP, meta["name"], meta["uid"]))
    return pinned


def _images_of_the_run(situation: Situation) -> Images:
    """What the pods of a run that goes on have: whoever lost its ConfigMap must not mix images."""
    own, known = situation.images, situation.before.get("images") or {}
    worker = known.get("worker")
    return Images(known.get("coordinator", own.coordinator), worker or own.worker, worker or own.vllm)


def retire_others(situation: Situation, draft: Draft, pinned: Pinned) -> bool:
    """Retire live pods of another rendering, left by a start that was refused; true while there are any.

    Also those that a lost authority retires must be gone before a run begins or goes on.
    """
    for pod in situation.pods:
        other = pod.template_hash != pinned.run.template_hash
        if pod.live and other and (draft.room_for_marks() > 0 or situation.is_counted(pod)):
            draft.retire(pod)
    return bool(draft.marks)


def note_run(situation: Situation, draft: Draft, pinned: Pinned) -> None:
    """Write down which run the pods are of."""
    draft.status["templateHash"] = pinned.run.template_hash
    draft.status["images"] = dict(pinned.run.images)
    draft.status["runId"] = situation.identity.run_id


def tell_of_ignored_templates(situation: Situation, draft: Draft, pinned: Pinned, spec: JobSpec) -> None:
    """Say so where a pod template was changed while the run goes on: it counts from the next resume."""
    before = draft.conditions.reason_before(Condition.ACCEPTED)
    seen = situation.before.get("observedGeneration") == situation.generation
    if before == "Accepted" and seen:
        return  # nothing has changed since this was last looked at, and reading the pinned job takes long
    job = pinned.job
    if job is None:
        return
    changed = [
        f"spec.{name}.podTemplate"
        for name, old, new in (
            ("coordinator", job.spec.coordinator, spec.coordinator),
            ("workers", job.spec.workers, spec.workers),
        )
        if old.pod_template != new.pod_template
    ]
    if not changed:
        return
    message = (
        f"{' and '.join(changed)} changed while the run goes on; the change counts once the job has been "
        "suspended and resumed"
    )
    if not seen and before != "TemplateChangeIgnored":
        draft.event("TemplateChangeIgnored", message, warning=True)
    draft.conditions.set(Condition.ACCEPTED, True, "TemplateChangeIgnored", message)
