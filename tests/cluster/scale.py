"""Many jobs, or one of very many workers, on fake nodes: made, waited for, and what the operator did then.

What a test or a benchmark asserts of the figures is its own; here they are only measured. Counts come from
the API server's audit log, memory from the operator's own process.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kubernetes import watch

from .audit import AuditLog, Position, Request, by_kind
from .held import CommandFailedError, Document, HeldCluster
from .jobs import GROUP, PLURAL, VERSION, Job, manifest, until
from .kwok_jobs import spec_on_kwok
from .release import Release

CONNECTIONS: Final = 4
ANSWER_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Memory:
    """Of the operator's process, in MiB: what is resident now, and the most that ever was."""

    resident: float
    peak: float


class MeasuredOperator:
    """The operator of a release, as it can be measured from outside."""

    def __init__(self, release: Release) -> None:
        self.release = release
        path = release.cluster.audit_log
        assert path is not None, "this cluster keeps no audit log"
        self._audit = AuditLog(path)
        account = release.operator.partition("/")[2]
        self._user = f"system:serviceaccount:{release.namespace}:{account}"

    def memory(self) -> Memory:
        """What its process takes."""
        text = self._ask("print(open('/proc/1/status').read())")
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        return Memory(*(int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")))

    def processor_seconds(self) -> float:
        """What its process has computed."""
        return (
            sum(map(int, self._ask("print(open('/proc/1/stat').read())").rpartition(")")[2].split()[11:13]))
            / 100
        )

    def _ask(self, program: str) -> str:
        """What a small Python program says that runs beside it in its container."""
        where = ("-n", self.release.namespace, self.release.operator)

        def said() -> str | None:
            try:
                return self.release.kubectl("exec", *where, "--", "python", "-c", program)
            except CommandFailedError:
                return None  # a stream that broke off

        return until(said, "an answer from the operator's container", ANSWER_SECONDS)

    def restarts(self) -> int:
        """How often its container was started again."""
        statuses = self.release.operator_pod()["status"]["containerStatuses"]
        return sum(int(status["restartCount"]) for status in statuses)

    def now(self) -> Position:
        """A moment from which on requests can be asked for."""
        return self._audit.end()

    def requests(self, since: Position) -> list[Request]:
        """Its finished requests since."""
        return self._audit.since(since, self._user)


def make_jobs(cluster: HeldCluster, jobs: Mapping[tuple[str, str], Document]) -> None:
    """Create jobs, by namespace and name; several at a time."""

    def make(entry: tuple[tuple[str, str], Document]) -> None:
        (namespace, name), spec = entry
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"
        cluster.request("POST", path, manifest(name, namespace, spec))

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(make, jobs.items()))


def count(cluster: HeldCluster, namespace: str, plural: str = "pods") -> int:
    """How many objects a namespace holds, without reading them."""
    page = cluster.request("GET", f"/api/v1/namespaces/{namespace}/{plural}?limit=1")
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


def wait_for_pods(cluster: HeldCluster, namespaces: Iterable[str], wanted: int, seconds: float) -> float:
    """Wait until the namespaces hold so many pods; returns the seconds that it took."""
    began = time.monotonic()
    names = list(namespaces)

    def there() -> bool:
        return sum(count(cluster, name) for name in names) >= wanted

    until(there, f"{wanted} pods in {', '.join(names)}", seconds)
    return time.monotonic() - began


@dataclass(frozen=True)
class Started:
    """What it took until all pods of many jobs were there, counted from the first job's creation."""

    seconds: float
    seconds_to_running: float
    requests: Counter[str]
    processor_seconds: float


def start_many(
    operator: MeasuredOperator,
    prefix: str,
    namespaces: Sequence[str],
    jobs: int,
    workers: int,
    seconds: float,
) -> Started:
    """Create jobs in turn in the namespaces and wait until all have their pods, and say that they run."""
    cluster = operator.release.cluster
    specs = {
        (namespaces[number % len(namespaces)], f"{prefix}-{number:03}"): spec_on_kwok(
            workers__replicas=workers, workers__maxReplicas=workers
        )
        for number in range(jobs)
    }
    since, computed, began = operator.now(), operator.processor_seconds(), time.monotonic()
    make_jobs(cluster, specs)
    wait_for_pods(cluster, namespaces, jobs * (workers + 1), seconds)
    made = time.monotonic() - began
    until(lambda: _phases(cluster, namespaces) == {"Running": jobs}, f"{jobs} jobs run", seconds)
    running = time.monotonic() - began
    requests = operator.requests(since)
    return Started(made, running, by_kind(requests), operator.processor_seconds() - computed)


def _phases(cluster: HeldCluster, namespaces: Iterable[str]) -> dict[str, int]:
    phases: Counter[str] = Counter()
    for namespace in namespaces:
        listing = cluster.request("GET", f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}")
        phases.update((job.get("status") or {}).get("phase", "") for job in listing["items"])
    return dict(phases)


@dataclass
class Statuses:
    """The statuses of jobs as they were written one after another."""

    last: dict[str, Document] = field(default_factory=dict)
    most_bytes: int = 0
    writes: Counter[str] = field(default_factory=Counter)
    """By job."""
    changed: Counter[str] = field(default_factory=Counter)
    """By part of the status: how often it changed."""
    unlike_progress: list[str] = field(default_factory=list)
    """Writes that changed more than progress tells, as `job: parts`."""

    def take_in(self, job: Document) -> None:
        """Note the next state of a job."""
        name, status = job["metadata"]["name"], job.get("status") or {}
        before = self.last.get(name)
        self.last[name] = status
        self.most_bytes = max(self.most_bytes, size_of(status))
        if before is None or before == status:
            return
        parts = changed_parts(before, status)
        self.writes[name] += 1
        self.changed.update(parts)
        if not parts <= OF_PROGRESS:
            self.unlike_progress.append(f"{name}: {', '.join(sorted(parts - OF_PROGRESS))}")


OF_PROGRESS: Final = frozenset({"progress", "checkpoint", "workers.caughtUp"})


def size_of(status: Document) -> int:
    """The bytes of a status as the API server sends it."""
    return len(json.dumps(status, separators=(",", ":")).encode())


def changed_parts(before: Document, after: Document) -> set[str]:
    """What differs: names of the status's parts, those of `workers` one by one."""
    parts: set[str] = set()
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if name == "workers" and old and new:
            parts |= {f"workers.{key}" for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        else:
            parts.add(name)
    return parts


@contextmanager
def watched_statuses(release: Release, namespace: str) -> Iterator[Statuses]:
    """The statuses of a namespace's jobs, as a watch tells of them while the block runs."""
    seen, ended = Statuses(), threading.Event()
    listing = release.api.custom.list_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL)
    for job in listing["items"]:
        seen.take_in(job)
    watching = watch.Watch()
    watching.resource_version = listing["metadata"]["resourceVersion"]

    def follow() -> None:
        # Anew every other second, since a stream in which nothing comes can't be told to end.
        while not ended.is_set():
            for event in watching.stream(
                release.api.custom.list_namespaced_custom_object,
                GROUP,
                VERSION,
                namespace,
                PLURAL,
                resource_version=watching.resource_version,
                timeout_seconds=2,
            ):
                if event["type"] in ("ADDED", "MODIFIED"):
                    seen.take_in(event["object"])

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True)
class Large:
    """One job of very many workers: how soon it had them, and what its status took."""

    seconds: float
    seconds_to_ready: float
    status_writes: int
    most_status_bytes: int
    requests: Counter[str]


def start_large(
    operator: MeasuredOperator, namespace: str, name: str, workers: int, seconds: float
) -> tuple[Job, Large]:
    """One job with so many workers, all of which it needs; returned when all are ready."""
    release = operator.release
    spec = spec_on_kwok(workers__replicas=workers, workers__minReplicas=workers, workers__maxReplicas=workers)
    with watched_statuses(release, namespace) as seen:
        since, began = operator.now(), time.monotonic()
        job = Job.create(release.api, namespace, name, spec)
        wait_for_pods(release.cluster, [namespace], workers + 1, seconds)
        made = time.monotonic() - began
        until(lambda: job.status.get("workers", {}).get("ready") == workers, f"{workers} ready", seconds)
        ready = time.monotonic() - began
        requests = by_kind(operator.requests(since))
    writes = requests["patch dartesjobs/status"]
    return job, Large(made, ready, writes, seen.most_bytes, requests)
