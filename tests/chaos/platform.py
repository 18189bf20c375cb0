"""Acts on what the jobs stand on: the operator, what it hears of the API server, that server, the nodes."""

import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from testcluster import control_plane, lifecycle
from tests.cluster.fault_proxy import WRITES, Fault, Kind
from tests.cluster.held import CommandFailedError
from tests.cluster.jobs import is_live

from .acts import Act
from .budgets import KubeletStop
from .schedule import Step
from .specs import KEPT_NODE
from .victims import NOTHING, Injected, chosen, delete, evict_all, runs
from .world import World, patient

FAULTS: Sequence[Fault] = (
    Fault(Kind.SLOW, share=0.5, seconds=2.0),
    Fault(Kind.TOO_MANY, share=0.5, seconds=1.0),
    Fault(Kind.CONFLICT, share=0.5),
    Fault(Kind.BROKEN, share=0.5),
    Fault(Kind.UNAUTHORIZED, share=0.2),
    Fault(Kind.GONE),
    Fault(Kind.EXPIRED, share=0.7),
    Fault(Kind.STREAM_ERROR, share=0.7),
    Fault(Kind.SILENT, verbs=("watch",)),
    Fault(Kind.SILENT, share=0.2, verbs=("list", "get", *WRITES)),
    Fault(Kind.UNANSWERED, share=0.2),
    Fault(Kind.DROPPED, share=0.5),
    Fault(Kind.LOST, share=0.3, verbs=WRITES),
    Fault(Kind.HALF, share=0.3),
    Fault(Kind.STALE, seconds=20.0),
)
"""What an act on the operator's requests may be; shares leave enough whole for something to go on."""


class Platform:
    """Does to the platform what a schedule says."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._added = 0
        self.operator_kills: Counter[str] = Counter()
        """How often the operator was killed, by the uid of its pod."""
        self.kubelet_stops: list[KubeletStop] = []
        """When which kubelet was stopped."""
        self.idle_faults = 0
        """How many faults have struck no request."""

    def do(self, step: Step) -> Injected:
        """Carry one such step out."""
        match step.act:
            case Act.API_FAULT:
                return self._fail_requests(step)
            case Act.API_SERVER_RESTARTED:
                return self._restart_api_server()
            case Act.NODE_DRAINED | Act.KUBELET_STOPPED | Act.NODE_LOST:
                return self._to_node(step)
            case _:
                return self._to_operator(step)

    def _to_operator(self, step: Step) -> Injected:
        if step.act is Act.OPERATOR_AWAY:
            self._scale_operator(0)
            return Injected("the operator", lambda: self._scale_operator(1))
        pods = [pod for pod in self._world.operator_pods() if runs(pod)]
        if not pods:
            return NOTHING
        victim = chosen(pods, step)
        if step.act is Act.OPERATOR_DELETED:
            delete(self._world.api, victim)
        else:
            try:
                self._cluster.signal_container(victim, "operator", signal.SIGKILL)
            except CommandFailedError:
                return NOTHING  # it has just ended
            self.operator_kills[victim["metadata"]["uid"]] += 1
        return Injected("the operator")

    def _scale_operator(self, replicas: int) -> None:
        release = self._world.release
        name = release.operator.partition("/")[2]
        path = f"/apis/apps/v1/namespaces/{release.namespace}/deployments/{name}"
        patient(lambda: self._cluster.request("PATCH", path, {"spec": {"replicas": replicas}}))

    def _fail_requests(self, step: Step) -> Injected:
        fault = FAULTS[step.choice % len(FAULTS)]
        proxy = self._world.proxy
        before = sum(proxy.struck.values())

        def heal() -> None:
            proxy.heal()
            self.idle_faults += sum(proxy.struck.values()) == before

        proxy.inject(fault)
        share = "" if fault.share == 1.0 else f", {fault.share:.0%}"
        verbs = f" of {', '.join(fault.verbs)}" if fault.verbs else ""
        return Injected(f"{fault.kind}{share}{verbs}", heal)

    def _restart_api_server(self) -> Injected:
        machinery = self._world.machinery
        options = lifecycle.running_options(machinery)
        control_plane.restart_api_server(machinery, options)
        return Injected("the API server")

    def _to_node(self, step: Step) -> Injected:
        nodes = patient(lambda: self._cluster.request("GET", "/api/v1/nodes"))["items"]
        names = sorted(str(node["metadata"]["name"]) for node in nodes if _has_processes(node))
        if step.act is Act.NODE_LOST:
            names.remove(KEPT_NODE)
        if not names:
            return NOTHING
        node = chosen(names, step)
        match step.act:
            case Act.NODE_DRAINED:
                return self._drain(node)
            case Act.KUBELET_STOPPED:
                self._stop_kubelet(node)
                return Injected(node, lambda: self._cluster.start_kubelet(node))
            case _:
                return self._lose(node, keep_object=step.choice % 2 == 1)

    def _stop_kubelet(self, node: str) -> None:
        began = datetime.now(UTC)
        self._cluster.stop_kubelet(node)
        self.kubelet_stops.append(KubeletStop(node, began, datetime.now(UTC)))

    def _drain(self, node: str) -> Injected:
        """As `kubectl drain`, for the pods of this run, without waiting for their ends."""
        self._cordon(node, on=True)
        api = self._world.api
        pods: list[dict[str, Any]] = []
        for namespace in (*self._world.namespaces.values(), self._world.release.namespace):
            pods += patient(lambda n=namespace: api.pods(n))  # type: ignore[misc]
        there = [pod for pod in pods if pod["spec"].get("nodeName") == node and is_live(pod)]
        evict_all(api, there)
        return Injected(f"{node} with {len(there)} pods", lambda: self._cordon(node, on=False))

    def _cordon(self, node: str, *, on: bool) -> None:
        path = f"/api/v1/nodes/{node}"
        patient(lambda: self._cluster.request("PATCH", path, {"spec": {"unschedulable": on}}))

    def _lose(self, node: str, *, keep_object: bool) -> Injected:
        self._cluster.remove_node(node, keep_object)

        def replace() -> None:
            if keep_object:
                self._cluster.kubectl("delete", "node", node, "--ignore-not-found", "--wait=false")
            self._added += 1
            self._cluster.add_node(f"added{self._added}")

        return Injected(f"{node}{', its object stays' if keep_object else ''}", replace)


def _has_processes(node: Mapping[str, Any]) -> bool:
    """Not so a node that only looks like one, whose pods are nothing but objects."""
    return not any(taint["key"].startswith("kwok") for taint in node["spec"].get("taints") or ())
