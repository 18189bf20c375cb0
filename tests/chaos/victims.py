"""What acts have in common: the choice of a victim, what was hit, and the two ways to ask a pod to go."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kubernetes.client.exceptions import ApiException

from tests.cluster.jobs import Api

from .schedule import Step

Item = TypeVar("Item")
Pod = dict[str, Any]


@dataclass(frozen=True)
class Injected:
    """What was hit, in words, and how to end it. Without words there was nothing to hit."""

    on: str = ""
    end: Callable[[], None] | None = None


NOTHING = Injected()


def chosen(items: Sequence[Item], step: Step) -> Item:
    """The one of them that a step's number falls on."""
    return items[step.choice % len(items)]


def runs(pod: Mapping[str, Any]) -> bool:
    """Whether a container of a pod runs, so that it can be sent a signal."""
    return any("running" in each["state"] for each in pod["status"].get("containerStatuses") or ())


def delete(api: Api, pod: Pod) -> None:
    """As `kubectl delete pod`."""
    meta = pod["metadata"]
    api.core.delete_namespaced_pod(meta["name"], meta["namespace"])


def evict(api: Api, pod: Pod) -> None:
    """As a drain does."""
    meta = pod["metadata"]
    body = {"metadata": {"name": meta["name"], "namespace": meta["namespace"]}}
    api.core.create_namespaced_pod_eviction(meta["name"], meta["namespace"], body)


def evict_all(api: Api, pods: Sequence[Pod]) -> None:
    """Evict many; one that is gone already needs it no more."""
    for pod in pods:
        with contextlib.suppress(ApiException):
            evict(api, pod)
