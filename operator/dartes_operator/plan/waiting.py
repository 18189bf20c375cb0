"""Why a pod isn't ready yet, in the words of whoever holds it up: the scheduler, the kubelet, a queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dartes_operator.plan.conditions import MOST_MESSAGE
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.situation import Draft, Situation
from dartes_operator.plan.times import after, parse_time

# Mounting usually takes seconds; what takes longer is missing, or still attached to another node.
MOUNT_SECONDS: Final = 60

_IMAGE_REASONS: Final = (
    *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
    *("ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"),
)
_CONFIG_REASONS: Final = ("CreateContainerConfigError", "CreateContainerError")
_OUR_VOLUMES: Final = ("run", "tls", "checkpoint", "tmp", "cache", "snapshots", "shm")


@dataclass(frozen=True)
class Wait:
    """A reason as conditions have it, and the words; the smaller rank is the more telling one."""

    rank: int
    reason: str
    message: str


def why_waiting(situation: Situation, draft: Draft, pods: Sequence[Pod], before: Wait) -> Wait:
    """The most telling reason among pods that are not ready; `before` is what the status says now."""
    waits = [_wait(situation, draft, pod) for pod in pods if not pod.ready]
    if not waits:
        return Wait(99, "Initializing", "pods are starting")
    found = min(waits, key=lambda wait: wait.rank)
    if found.reason == "ImagePullBackOff" == before.reason and before.message:
        # The kubelet takes turns between two wordings; the first one stays.
        return before
    return Wait(found.rank, found.reason, found.message[:MOST_MESSAGE])


def _wait(situation: Situation, draft: Draft, pod: Pod) -> Wait:
    if pod.ended or pod.terminating:
        return Wait(9, "Restarting", f"{pod.name} has ended and will be made again")
    reason = str(pod.waiting.get("reason") or "")
    words = str(pod.waiting.get("message") or "")
    if reason in _IMAGE_REASONS:
        return Wait(1, "ImagePullBackOff", f"{pod.name}: {words or reason}")
    if reason in _CONFIG_REASONS:
        return Wait(0, "SecretMissing", f"{pod.name}: {words or reason}")
    scheduled = pod.condition("PodScheduled")
    if pod.gated or scheduled.get("reason") == "SchedulingGated":
        return Wait(4, "Queued", f"{pod.name} waits in its queue")
    if scheduled.get("status") == "False":
        return Wait(2, "Unschedulable", f"{pod.name}: {scheduled.get('message') or scheduled.get('reason')}")
    if _is_mounting(pod):
        return _mounting(situation, draft, pod)
    # One wording for every step on the way: each change would be a write to the API server.
    return Wait(6, "Initializing", "pods are starting")


def waits_for_volumes(situation: Situation) -> bool:
    """Whether a pod's volumes are not mounted after the usual time; a lost TLS Secret may be why."""
    return any(
        _is_mounting(pod) and situation.now >= _mounted_by(situation, pod)
        for pod in situation.pods
        if pod.live
    )


def _is_mounting(pod: Pod) -> bool:
    return pod.scheduled and pod.condition("PodReadyToStartContainers").get("status") == "False"


def _mounted_by(situation: Situation, pod: Pod) -> datetime:
    since = parse_time(pod.condition("PodScheduled").get("lastTransitionTime")) or pod.created
    return after(since, MOUNT_SECONDS) if since is not None else situation.now


def _mounting(situation: Situation, draft: Draft, pod: Pod) -> Wait:
    due = _mounted_by(situation, pod)
    if situation.now < due:
        draft.look_again(due)
        return Wait(6, "Initializing", "pods are starting")
    if pod.role.value == "coordinator" and (situation.before.get("coordinator") or {}).get("restarts"):
        return Wait(
            3,
            "VolumeDetaching",
            f"{pod.name}: the volume is not attached to its new node yet; it can be once it is detached from "
            "the old one",
        )
    named = _named_by_user(pod)
    missing = f"one of {', '.join(named)} may not exist" if named else "a volume can't be mounted"
    return Wait(
        3 if named else 5,
        "SecretMissing" if named else "Initializing",
        f"{pod.name}: its volumes are not mounted after {MOUNT_SECONDS} s: {missing}; see "
        f"`kubectl describe pod {pod.name}`",
    )


def _named_by_user(pod: Pod) -> list[str]:
    named = []
    for volume in (pod.manifest.get("spec") or {}).get("volumes") or ():
        if volume.get("name") in _OUR_VOLUMES:
            continue
        if "secret" in volume:
            named.append(f"Secret {volume['secret'].get('secretName')}")
        elif "configMap" in volume:
            named.append(f"ConfigMap {volume['configMap'].get('name')}")
    return named
