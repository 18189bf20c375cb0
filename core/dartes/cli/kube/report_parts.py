"""What a bug report is made of, asked from the cluster: objects first, then events, logs and metrics pages.

Secrets are never asked for. What the user may not read is left out and named; only a cluster that can't be
reached at all, and a job that doesn't exist, end the report.
"""

import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import dartes
from dartes.cli.kube.kubectl import REQUEST_SECONDS, Kubectl
from dartes.cli.kube.names import COORDINATOR, RESOURCE, of_job
from dartes.cli.kube.objects import Manifest, at, in_order, items, pod_of
from dartes.cli.kube.status import job_named
from dartes.cli.kube.view import status_lines, status_view
from dartes.errors import DartesError
from dartes.spec.yaml_text import read_yaml

OPERATOR: Final = "app.kubernetes.io/name=dartes,app.kubernetes.io/component=operator"
OWNED: Final = ("configmaps", "services", "persistentvolumeclaims", "networkpolicies", "poddisruptionbudgets")
IN_THE_NAMESPACE: Final = ("resourcequotas", "limitranges")

MOST_JOBS: Final = 20
MOST_PODS: Final = 100
"""Pods of one job whose manifests are kept; the coordinator and what is not well come first."""
MOST_TALKING: Final = 30
"""Pods of one job whose logs and metrics are fetched, in the same order."""
MOST_EVENTS: Final = 1000
LOG_LINES: Final = 10_000
HTTP_PORT: Final = 8080
TALK_SECONDS: Final = 300.0
"""For all logs and metrics together: one that does not answer takes up to 45 s, and there may be hundreds."""


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Document:
    """One file of the report: a JSON document or a text."""

    path: str
    content: Any


@dataclass
class Findings:
    """What was found and what could not be had."""

    documents: list[Document] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    talking: list[tuple[str, Manifest]] = field(default_factory=list)
    """Pods whose logs and metrics belong to the report, each with its folder there."""

    def add(self, path: str, content: Any) -> None:
        """Put a file into the report."""
        self.documents.append(Document(path, content))

    def ask(self, what: str, ask: Callable[..., Answer], *words: str) -> Answer | None:
        """The answer to a question; None, and a word about it, where it is refused."""
        try:
            return ask(*words)
        except DartesError as error:
            self.left_out.append(f"{what}: {error}")
            return None

    def listed(self, kubectl: Kubectl, what: str, *words: str) -> list[Manifest]:
        """The objects of a list; none, and a word about it, where it is refused."""
        return items(self.ask(what, kubectl.objects, *words) or {})


def collect(kubectl: Kubectl, name: str | None, operator: Kubectl) -> Findings:
    """Ask for everything but logs and metrics; `operator` is aimed at its namespace, or at none: at all.

    Raises
    ------
    NoJobError
        The job that was named doesn't exist.
    TransientError
        The cluster can't be reached.
    """
    version = json.loads(kubectl.run("version", "-o", "json", f"--request-timeout={REQUEST_SECONDS}s"))
    named = None if name is None else job_named(kubectl, name)
    found = Findings()
    found.add("versions.json", _versions(version))
    _cluster(kubectl, found)
    events = found.listed(kubectl, "events", "events")
    if named is None:
        jobs = sorted(found.listed(kubectl, "jobs", RESOURCE), key=_when, reverse=True)
        if len(jobs) > MOST_JOBS:
            found.left_out.append(f"jobs: the newest {MOST_JOBS} of {len(jobs)}; name one for another")
    else:
        jobs = [named]
    for job in jobs[:MOST_JOBS]:
        _job(kubectl, job, events, found)
    for kind in IN_THE_NAMESPACE:
        if listed := found.listed(kubectl, kind, kind):
            found.add(f"namespace/{kind}.json", listed)
    _operator(operator, found)
    return found


def talk(
    kubectl: Kubectl,
    found: Findings,
    has_room: Callable[[], bool] = lambda: True,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Document]:
    """The logs and metrics pages of the pods that were found, one after the other.

    Nothing more is asked for once `TALK_SECONDS` are over or there is no room; what is missing is named.
    """
    deadline = clock() + TALK_SECONDS
    for what, path, words in _questions(found):
        if not has_room():
            found.left_out.append(f"{what}: the archive is full")
        elif clock() >= deadline:
            found.left_out.append(f"{what}: not asked for, since {TALK_SECONDS:.0f} s were over")
        elif (answer := found.ask(what, kubectl.run, *words)) is not None:
            yield Document(path, _text(answer))


def _questions(found: Findings) -> Iterator[tuple[str, str, list[str]]]:
    """What is asked for, the file that it goes into, and kubectl's words for it."""
    for folder, manifest in found.talking:
        pod = str(at(manifest, "metadata", "name"))
        place = ["-n", str(at(manifest, "metadata", "namespace"))]
        for container, restarted in _containers(manifest):
            for more, ending in (([], ""), (["--previous"], ".previous"))[: 1 + restarted]:
                words = ["logs", pod, f"--container={container}", f"--tail={LOG_LINES}", *place, *more]
                path = f"{folder}/logs/{pod}.{container}{ending}.log"
                yield f"log of {pod}/{container}{ending}", path, words
        if at(manifest, "status", "phase") == "Running":
            address = f"/api/v1/namespaces/{place[1]}/pods/http:{pod}:{HTTP_PORT}/proxy/metrics"
            words = ["get", "--raw", address, f"--request-timeout={REQUEST_SECONDS}s"]
            yield f"metrics of {pod}", f"{folder}/metrics/{pod}.txt", words


def _versions(version: Manifest) -> dict[str, Any]:
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "kubectl-dartes": dartes.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "kubectl": at(version, "clientVersion", "gitVersion"),
        "cluster": at(version, "serverVersion", "gitVersion"),
    }


def _cluster(kubectl: Kubectl, found: Findings) -> None:
    if definition := found.ask("definition of DartESJob", kubectl.objects, "crd", RESOURCE):
        found.add("cluster/definition.json", definition)
    if nodes := found.listed(kubectl, "nodes", "nodes"):
        found.add("cluster/nodes.json", [_node(node) for node in nodes])
    if classes := found.listed(kubectl, "storage classes", "storageclasses"):
        found.add("cluster/storageclasses.json", classes)


def _node(node: Manifest) -> dict[str, Any]:
    """What pods meet on a node; its labels and addresses are the cluster's own business."""
    return {
        "name": at(node, "metadata", "name"),
        "info": at(node, "status", "nodeInfo"),
        "allocatable": at(node, "status", "allocatable"),
        "taints": at(node, "spec", "taints"),
        "conditions": at(node, "status", "conditions"),
    }


def _job(kubectl: Kubectl, job: Manifest, events: Sequence[Manifest], found: Findings) -> None:
    name = str(at(job, "metadata", "name"))
    folder = f"jobs/{name}"
    found.add(f"{folder}/job.json", job)
    pods = _most_telling_first(found.listed(kubectl, f"pods of {name}", "pods", "-l", of_job(name)))
    own = {name, *(str(at(pod, "metadata", "name")) for pod in pods)}
    found.add(f"{folder}/pods.json", pods[:MOST_PODS])
    for kind in OWNED:
        if listed := found.listed(kubectl, f"{kind} of {name}", kind, "-l", of_job(name)):
            own.update(str(at(item, "metadata", "name")) for item in listed)
            found.add(f"{folder}/{kind}.json", [_opened(item) for item in listed])
    about = [event for event in events if _concerns(event, name, own)]
    found.add(f"{folder}/events.json", sorted(about, key=_when)[-MOST_EVENTS:])
    view = status_view(job, [pod_of(pod) for pod in pods], about, datetime.now(UTC))
    found.add(f"{folder}/status.txt", "\n".join(status_lines(view)) + "\n")
    found.talking += [(folder, pod) for pod in pods[:MOST_TALKING]]
    if len(pods) > MOST_TALKING:
        found.left_out.append(f"logs and metrics of {name}: of {MOST_TALKING} of its {len(pods)} pods")


def _operator(kubectl: Kubectl, found: Findings) -> None:
    where = ["--all-namespaces"] if kubectl.target.namespace is None else []
    what = "the operator's pods (--operator-namespace says where they are)"
    answer = found.ask(what, kubectl.objects, "pods", "-l", OPERATOR, *where)
    if answer is not None and not items(answer):
        found.left_out.append("the operator: it has no pod")
    for pod in items(answer or {}):
        namespace = str(at(pod, "metadata", "namespace"))
        folder = f"operator/{namespace}"
        name = str(at(pod, "metadata", "name"))
        found.add(f"{folder}/{name}.json", pod)
        found.talking.append((folder, pod))
        words = ["events", "-n", namespace, f"--field-selector=involvedObject.name={name}"]
        if events := found.listed(kubectl, f"events of {name}", *words):
            found.add(f"{folder}/events-of-{name}.json", events)


def _most_telling_first(pods: Sequence[Manifest]) -> list[Manifest]:
    """The coordinator, then what failed or is not ready, then the others, each in their order."""
    by_name = {str(at(pod, "metadata", "name")): pod for pod in pods}
    read = in_order([pod_of(pod) for pod in pods])
    read.sort(key=lambda pod: (pod.role != COORDINATOR, pod.ready or pod.phase == "Succeeded"))
    return [by_name[pod.name] for pod in read]


def _containers(manifest: Manifest) -> Iterator[tuple[str, bool]]:
    """Each container that has started, and whether it did so more than once."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in at(manifest, "status", kind) or []:
            if at(status, "state", "waiting") is None or (status.get("restartCount") or 0) > 0:
                yield str(status.get("name") or ""), (status.get("restartCount") or 0) > 0


def _opened(item: Manifest) -> Manifest:
    """A run ConfigMap with its documents read, so that they are searched as the objects that they are."""
    data = at(item, "data")
    if item.get("kind") != "ConfigMap" or not isinstance(data, Mapping):
        return item
    return {**item, "data": {key: _parsed(value) for key, value in data.items()}}


def _parsed(value: Any) -> Any:
    """A text that holds a document as that document (YAML, so JSON too); any other as it is."""
    try:
        found = read_yaml(value).value if isinstance(value, str) else None
    except ValueError:
        return value
    return found if isinstance(found, dict | list) else value


def _concerns(event: Manifest, job: str, names: set[str]) -> bool:
    """Whether an event is about the job, one of its objects, or a pod of it that has gone."""
    about = str(at(event, "involvedObject", "name") or "")
    return about in names or any(about.startswith(f"{job}-{part}") for part in _PARTS)


_PARTS: Final = ("coordinator", "worker-", "export", "checkpoint", "reader-", "builder-")


def _when(item: Manifest) -> str:
    for path in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",)):
        if found := at(item, *path):
            return str(found)
    return str(at(item, "metadata", "creationTimestamp") or "")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
