"""What to do next about a job in a cluster: one sentence per thing that is not as it should be.

Pure: from what the job's status says to words. Knows the reasons that the operator gives, not how it finds
them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dartes.cli.kube.names import COORDINATOR, WORKER
from dartes.cli.kube.objects import Pod, last_failed

GOOD: Final[Mapping[str, str]] = {
    "Accepted": "True",
    "QuotaReserved": "True",
    "ResourcesReady": "True",
    "CoordinatorReady": "True",
    "WorkersReady": "True",
    "WorkersScaled": "True",
    "Progressing": "True",
    "CheckpointHealthy": "True",
    "ReplicasConsistent": "True",
    "Failed": "False",
}
"""Which status of a condition is as it should be; conditions that only inform are not listed."""

WITH_PODS: Final = frozenset(
    {"QuotaReserved", "ResourcesReady", "CoordinatorReady", "WorkersReady", "WorkersScaled", "Progressing"}
)
"""Conditions that say nothing about a job that has no pods any more, or none for now."""

AT_REST: Final = frozenset({"Trained", "Ended", "Suspended", "Suspending"})
"""Reasons with which a condition about pods is as it should be although it is not true."""

_ANEW: Final = (
    "a failed job stays failed: delete it, then apply it again with checkpoint.resumeFrom to go on from its "
    "volume (with checkpoint.retentionPolicy Delete the volume would go, too: run a job of another name from "
    "it first)"
)
_BUDGET: Final = f"see the last failure and its log; {_ANEW}"

_BY_REASON: Final[Mapping[str, str]] = {
    "Unschedulable": "give the cluster a node with what the pods ask for, or ask for less "
    "(workers.resources, gpusPerWorker, nodeSelector, tolerations); training goes on with what is scheduled",
    "ImagePullBackOff": "check the image's name and whether the nodes may pull it (imagePullSecrets, "
    "image.registry of the chart); it starts by itself when the image can be pulled",
    "SecretMissing": "create the Secret or claim that the message names; the pods start by themselves then",
    "QuotaExceeded": "raise the namespace's ResourceQuota or LimitRange, or ask for less (workers.replicas, "
    "resources); the operator goes on trying",
    "NameConflict": "delete or rename the object that the message names; another owner has it",
    "VolumeExists": "an earlier job of this name left its volume: go on with it by checkpoint.resumeFrom, or "
    "delete that PersistentVolumeClaim if its run is not needed any more",
    "VolumeDetaching": "wait until the storage lets go of the lost node, or mark the node if it is off for "
    "good: kubectl taint node NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
    "InvalidSpec": "correct the field that the message names and apply the job again",
    "InvalidConfiguration": "correct what the message names; a failed job stays failed, so delete the job "
    "and apply it again (over its old volume only with checkpoint.resumeFrom, or once that claim is deleted)",
    "PodTemplateInvalid": "correct podTemplate, or the namespace's admission rule, as the message says, and "
    "apply the job again; it is tried again every few minutes",
    "Invalid": "the API server refuses an object of the job: correct what the message names and apply the "
    "job again; it is tried again every few minutes",
    "Forbidden": "give the operator the right that the message names (rbac.create of the chart makes all "
    "that it needs); it tries again each minute",
    "WebhookUnavailable": "see why the webhook that the message names doesn't answer; the job goes on by "
    "itself when it does",
    "DeadlineExceeded": f"what was committed is on the volume; {_ANEW}; give it more activeDeadlineSeconds",
    "StartupDeadlineExceeded": "see in the message why its pods did not start, and mend that or give it a "
    f"longer startupDeadlineSeconds; {_ANEW}",
    "CoordinatorRestartsExceeded": _BUDGET,
    "WorkerFailuresExceeded": _BUDGET,
    "DisruptionsExceeded": _BUDGET,
    "ExportFailed": "the trained state is safe on its volume: kubectl dartes export {job} --output MODEL_DIR",
    "Restarting": "wait: the pod that ended is made again by itself, after failures within a minute",
    "Scaling": "wait: workers are being made, or are leaving",
    "Initializing": "wait: pods are starting; it fails by itself after startupDeadlineSeconds",
    "Queued": "wait, or see what the queue waits for: kubectl get workloads",
    "Paused": "make room on the volume, or enlarge its claim: training goes on by itself",
    "RewardUnavailable": "see to the reward service that the message names; training goes on by itself when "
    "it answers again, and nothing is lost meanwhile",
    "Stalled": "look at the workers' logs; a lost lease is taken over by others, so all of them hang or "
    "are slow",
}


def problems(conditions: Sequence[Mapping[str, object]], with_pods: bool) -> Iterator[Mapping[str, object]]:
    """The conditions that are not as they should be; without pods, only those that still mean something."""
    for condition in conditions:
        kind = str(condition.get("type"))
        good = GOOD.get(kind)
        if good is None or condition.get("status") == good:
            continue
        at_rest = not with_pods or str(condition.get("reason")) in AT_REST
        if not at_rest or kind not in WITH_PODS:
            yield condition


def next_steps(
    name: str, found: Sequence[Mapping[str, object]], phase: str, pods: Sequence[Pod], exported: object
) -> list[str]:
    """What to do about these problems, the likeliest cause first and each thing said once; never empty."""
    steps: dict[str, None] = {}
    for condition in found:
        words = _BY_REASON.get(str(condition.get("reason")))
        if words is not None:
            steps[f"{condition.get('reason')}: {words.format(job=name)}"] = None
    steps |= dict.fromkeys(_logs_of_failed(name, pods))
    if phase == "Succeeded":
        done = f"the model is at {exported}" if exported else None
        steps[done or f"get the model: kubectl dartes export {name} --output MODEL_DIR"] = None
    elif phase == "Suspended":
        steps[f'go on: kubectl patch dej {name} --type merge -p \'{{"spec":{{"suspend":false}}}}\''] = None
    elif not steps:
        healthy = "nothing" if not found else f"look closer: kubectl describe dej {name}"
        steps[healthy] = None
    return list(steps)


def _logs_of_failed(name: str, pods: Sequence[Pod]) -> Iterator[str]:
    """Where the words of failed pods are; a coordinator's log goes when its successor takes its name."""
    if last_failed([pod for pod in pods if pod.role == COORDINATOR]) is not None:
        yield (
            "the coordinator failed: its last words are under last failure, unless another pod failed since; "
            f"its log, until a new pod takes its name: kubectl dartes logs {name}"
        )
    worker = last_failed([pod for pod in pods if pod.role == WORKER and pod.index is not None])
    if worker is not None:
        yield f"last words of {worker.name}: kubectl dartes logs {name} --worker {worker.index} --previous"
