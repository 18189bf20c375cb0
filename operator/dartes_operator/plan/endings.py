"""Judges how a pod ended: done, misconfigured, failed by itself, or disrupted by the platform.

The exit code alone doesn't say: a drained pod may end with any. What the platform did stands in the pod's
conditions and reasons, so they are looked at first.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Final

from dartes.errors import DISK_FULL, ExitCode
from dartes_operator.plan.pods import Pod
from dartes_operator.plan.times import parse_time
from dartes_operator.resources.identity import Role
from dartes_operator.resources.pod import RUN_DIR

MOST_MESSAGE: Final = 2048

_DISRUPTED_CONDITIONS: Final = ("DisruptionTarget", "TerminationTarget")
_DISRUPTED_REASONS: Final = (
    *("Evicted", "NodeLost", "Preempted", "Shutdown", "NodeShutdown", "Terminated"),
    *("ContainerStatusUnknown", "PodLost"),
)
# The kubelet refused the pod before anything ran: another pod was quicker, or a device isn't there yet.
_REJECTED_REASONS: Final = (
    *("Preempting", "UnexpectedAdmissionError", "NodeAffinity", "NodeName", "NodePorts", "TaintToleration"),
    *("OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "TopologyAffinityError"),
)
# A kubelet that goes away while it starts a container cancels the request, and the pod ends with these words.
_START_GIVEN_UP: Final = ("StartError", "context canceled")
# An eviction for these is the pod's own doing and would go on for ever if nobody counted it.
_OVER_ITS_LIMIT: Final = ("exceeds the limit", "exceeded its local ephemeral storage limit")


class Verdict(StrEnum):
    """What an end means for the job."""

    DONE = "Done"
    CONFIGURATION = "InvalidConfiguration"
    FAILED = "Failed"
    DISRUPTED = "Disrupted"
    REJECTED = "Rejected"
    DRAINED = "Drained"
    VOLUME_FULL = "VolumeFull"


@dataclass(frozen=True)
class Ending:
    """How a pod ended; `time` is when, as well as is known, and `message` the pod's own words."""

    verdict: Verdict
    reason: str
    exit_code: int | None
    message: str
    time: datetime | None


def ending_of(pod: Pod) -> Ending | None:
    """How a pod ended or is ending; None for one that works or will work.

    A pod that is marked for disruption and still runs has not ended: the mark may be taken off again.
    """
    if not pod.ended and not pod.terminating:
        return None
    terminated = pod.terminated or {}
    code = terminated.get("exitCode")
    words = str(terminated.get("message") or pod.status.get("message") or "").strip()[:MOST_MESSAGE]
    # When a pod was gone is not in what was last seen of it.
    time = parse_time(terminated.get("finishedAt")) or (None if pod.departed else _told_time(pod))

    def ending(verdict: Verdict, reason: str, message: str = "") -> Ending:
        return Ending(verdict, reason, code, words or message, time)

    if pod.ended and code == ExitCode.DONE:
        return ending(Verdict.DONE, "Completed")
    if pod.ended and code == ExitCode.CONFIGURATION:
        return ending(Verdict.CONFIGURATION, Verdict.CONFIGURATION.value)
    disrupted = _disruption(pod, str(terminated.get("reason") or ""), str(terminated.get("message") or ""))
    if disrupted is not None:
        return ending(*disrupted)
    if pod.role is Role.COORDINATOR and code == ExitCode.TRANSIENT and _volume_is_full(words):
        return ending(Verdict.VOLUME_FULL, Verdict.VOLUME_FULL.value)
    if not terminated:
        reason = str(pod.status.get("reason") or "")
        if reason and reason not in _REJECTED_REASONS and not reason.startswith("OutOf"):
            return ending(Verdict.FAILED, reason)
        return ending(Verdict.REJECTED, reason or "NeverStarted", "the pod ended before its container ran")
    return ending(*_by_exit_code(int(code) if code is not None else -1, str(terminated.get("reason") or "")))


def _volume_is_full(words: str) -> bool:
    """Whether words begin with the run folder, or a folder in it, and say that its disk is full.

    Other disks of the pod fill up too; a bigger volume would not help them, so those ends are charged.
    """
    place, full, _ = words.partition(f": {DISK_FULL}")
    return bool(full) and PurePosixPath(place).is_relative_to(RUN_DIR)


def _disruption(pod: Pod, container_reason: str, words: str) -> tuple[Verdict, str, str] | None:
    reason = str(pod.status.get("reason") or "")
    told = str(pod.status.get("message") or "")
    if reason == "Evicted" and any(part in told for part in _OVER_ITS_LIMIT):
        return Verdict.FAILED, "Evicted", told
    for kind in _DISRUPTED_CONDITIONS:
        condition = pod.condition(kind)
        if condition.get("status") == "True":
            return (
                Verdict.DISRUPTED,
                str(condition.get("reason") or kind),
                str(condition.get("message") or ""),
            )
    if reason in _DISRUPTED_REASONS:
        return Verdict.DISRUPTED, reason, told
    if container_reason == "ContainerStatusUnknown":
        return Verdict.DISRUPTED, "NodeLost", "the node lost track of the container"
    if pod.deletion_time is not None or not pod.ended:
        return Verdict.DISRUPTED, "Deleted", "the pod was deleted"
    if container_reason == _START_GIVEN_UP[0] and _START_GIVEN_UP[1] in words:
        return Verdict.REJECTED, container_reason, "the kubelet gave up the start"
    return None


def _by_exit_code(code: int, reason: str) -> tuple[Verdict, str, str]:
    if code == ExitCode.DRAINED:
        return Verdict.DRAINED, "Drained", "the process was asked to leave, or a newer one took its place"
    if reason == "OOMKilled":
        return Verdict.FAILED, "OOMKilled", "the container was out of memory; raise its memory limit"
    if code == ExitCode.TRANSIENT:
        return Verdict.FAILED, "Transient", "something outside the pod failed"
    if code in (137, 143):
        return Verdict.FAILED, "Killed", f"the process was killed (signal {code - 128})"
    return Verdict.FAILED, reason or "Error", f"the process ended with exit code {code}"


def _told_time(pod: Pod) -> datetime | None:
    moments: list[Any] = [pod.condition(kind).get("lastTransitionTime") for kind in _DISRUPTED_CONDITIONS]
    moments += [pod.condition("Ready").get("lastTransitionTime"), pod.status.get("startTime")]
    known = next((moment for text in moments if (moment := parse_time(text)) is not None), None)
    return known or pod.deletion_time or pod.created
