"""Carries the acts out. Each gives what it hit, and how to end it where it lasts; nothing here judges.

A victim is chosen by the step's number among those that are there when its turn comes, in the order of their
names. Where there is none, the act is over before it began.
"""

import math
import signal
from collections.abc import Callable
from http import HTTPStatus

from kubernetes.client.exceptions import ApiException

from testcluster.volumes import quantity
from tests.cluster.held import CommandFailedError

from .acts import PROPERTIES, Act, Target
from .platform import Platform
from .schedule import Step
from .specs import WORKERS
from .victims import NOTHING, Injected, Pod, chosen, delete, evict, evict_all, runs
from .world import World, accepting, patient

BALLAST = "ballast"
BLOCK = b"\0" * 2**16
QUOTA = "no-room"
OWN_FAULT = (400, 401, 403, 405, 422)
"""Answers that say that the request itself was wrong."""
MORE_BYTES = 16 * 2**20
"""By so much a full volume grows."""


class Injector:
    """Does to a world what a schedule says."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self.platform = Platform(world)
        self.killed: set[str] = set()
        """Uids of pods that were made to fail."""

    def do(self, step: Step) -> Injected:
        """Carry a step out."""
        if PROPERTIES[step.act].target in (Target.OPERATOR, Target.API, Target.NODES):
            return self.platform.do(step)
        try:
            return self._act(step)
        except (CommandFailedError, ApiException) as error:
            if error.status in OWN_FAULT:
                raise
            # The victim was quicker: it has ended, its object is gone, or nobody reaches its node.
            return NOTHING

    def _act(self, step: Step) -> Injected:
        match step.act:
            case Act.WORKER_DELETED:
                return self._to_pod(step, "worker", self._delete)
            case Act.WORKER_EVICTED:
                return self._to_pod(step, "worker", self._evict)
            case Act.WORKER_KILLED:
                return self._to_pod(step, "worker", self._kill)
            case Act.WORKER_TERMINATED:
                return self._to_pod(step, "worker", self._terminate)
            case Act.WORKER_OUT_OF_MEMORY:
                return self._to_pod(step, "worker", self._fill_memory)
            case Act.HALF_THE_WORKERS_EVICTED:
                return self._storm(step)
            case Act.COORDINATOR_DELETED:
                return self._to_pod(step, "coordinator", self._delete)
            case Act.COORDINATOR_EVICTED:
                return self._to_pod(step, "coordinator", self._evict)
            case Act.COORDINATOR_KILLED:
                return self._to_pod(step, "coordinator", self._kill)
            case Act.COORDINATOR_TERMINATED:
                return self._to_pod(step, "coordinator", self._terminate)
            case Act.SCALED | Act.SUSPENDED | Act.JOB_DELETED | Act.SECRET_DELETED | Act.VOLUME_FILLED:
                return self._to_job(step)
            case Act.QUOTA_SET:
                return self._set_quota(self._world.namespaces[step.on])
            case _:
                raise AssertionError(f"{step.act} is no act on a job")

    # Pods ------------------------------------------------------------------------------------------

    def _to_pod(self, step: Step, role: str, what: Callable[[Pod, str], None]) -> Injected:
        if step.on not in self._world.live_names():
            return NOTHING
        pods = [pod for pod in patient(lambda: self._world.job(step.on).live(role)) if runs(pod)]
        if not pods:
            return NOTHING
        victim = chosen(pods, step)
        what(victim, role)
        return Injected(str(victim["metadata"]["name"]))

    def _delete(self, pod: Pod, _role: str) -> None:
        delete(self._world.api, pod)

    def _evict(self, pod: Pod, _role: str) -> None:
        evict(self._world.api, pod)

    def _kill(self, pod: Pod, role: str) -> None:
        self._cluster.signal_container(pod, role, signal.SIGKILL)
        self.killed.add(pod["metadata"]["uid"])

    def _terminate(self, pod: Pod, role: str) -> None:
        self._cluster.signal_container(pod, role, signal.SIGTERM)

    def _fill_memory(self, pod: Pod, role: str) -> None:
        meta = pod["metadata"]
        self._world.api.execute(meta["namespace"], meta["name"], role, "touch", "/tmp/allocate")
        self.killed.add(meta["uid"])

    def _storm(self, step: Step) -> Injected:
        pods = [pod for name in self._world.live_names() for pod in patient(self._live_workers(name))]
        count = math.ceil(len(pods) / 2)
        first = step.choice % max(1, len(pods))
        evict_all(self._world.api, [*pods, *pods][first : first + count])
        return Injected(f"{count} of {len(pods)} workers") if pods else NOTHING

    def _live_workers(self, name: str) -> Callable[[], list[Pod]]:
        return lambda: self._world.job(name).live("worker")

    # Jobs ------------------------------------------------------------------------------------------

    def _to_job(self, step: Step) -> Injected:
        if step.on not in self._world.live_names():
            return NOTHING
        match step.act:
            case Act.SCALED:
                return self._scale(step)
            case Act.SUSPENDED:
                return self._suspend(step.on)
            case Act.JOB_DELETED:
                self._world.let_go(step.on)
                return Injected(step.on)
            case Act.SECRET_DELETED:
                return self._delete_secret(step)
            case _:
                return self._fill_volume(step.on)

    def _scale(self, step: Step) -> Injected:
        count = (1, 3, 4)[step.choice % 3]
        self._set_workers(step.on, count)
        return Injected(f"{step.on} to {count} workers", lambda: self._set_workers(step.on, WORKERS))

    def _set_workers(self, name: str, count: int) -> None:
        if name in self._world.live_names():
            patient(lambda: self._world.job(name).patch({"workers": {"replicas": count}}))

    def _suspend(self, name: str) -> Injected:
        uid = self._world.rounds[name].uid
        patient(lambda: self._world.job(name).patch({"suspend": True}))

        def resume() -> None:
            if self._world.rounds[name].uid == uid and name in self._world.live_names():
                patient(lambda: self._world.job(name).patch({"suspend": False}))

        return Injected(name, resume)

    def _delete_secret(self, step: Step) -> Injected:
        """Secrets are looked at before a pod is made, so one pod has to go with it."""
        role = ("coordinator", "worker", "operator")[step.choice % 3]
        namespace, name = self._world.namespace_of(step.on), f"{step.on}-tls-{role}"
        self._world.api.core.delete_namespaced_secret(name, namespace)
        pods = patient(self._live_workers(step.on))
        if pods:
            delete(self._world.api, chosen(pods, step))
        return Injected(f"{step.on} {name}")

    def _fill_volume(self, name: str) -> Injected:
        self._world.rows(name)
        folder = self._world.rounds[name].folder
        if folder is None or not folder.is_mount():
            return NOTHING
        try:
            with (folder / BALLAST).open("ab", buffering=0) as ballast:
                while ballast.write(BLOCK):
                    pass
        except OSError as error:
            full = str(error.strerror)
        uid = self._world.rounds[name].uid

        def grow() -> None:
            if self._world.rounds[name].uid == uid and name in self._world.live_names():
                patient(lambda: self._grow(name))

        return Injected(f"{name}: {full}", grow)

    def _grow(self, name: str) -> None:
        path = f"/api/v1/namespaces/{self._world.namespace_of(name)}/persistentvolumeclaims/{name}-checkpoint"
        claim = self._cluster.request("GET", path)
        size = quantity(claim["spec"]["resources"]["requests"]["storage"]) + MORE_BYTES
        self._cluster.request("PATCH", path, {"spec": {"resources": {"requests": {"storage": str(size)}}}})

    def _set_quota(self, namespace: str) -> Injected:
        path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        body = {"metadata": {"name": QUOTA}, "spec": {"hard": {"pods": "0"}}}
        with accepting(HTTPStatus.CONFLICT):
            patient(lambda: self._cluster.request("POST", path, body))
        return Injected(namespace, lambda: self._lift_quota(f"{path}/{QUOTA}"))

    def _lift_quota(self, path: str) -> None:
        with accepting(HTTPStatus.NOT_FOUND):
            patient(lambda: self._cluster.request("DELETE", path))
