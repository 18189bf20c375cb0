"""The cluster of a run: three jobs, and their operator behind a proxy that can be told to fail.

It makes, reads and takes away; what is done to it is `injections`', and what must hold is decided elsewhere.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from kubernetes.client.exceptions import ApiException

from testcluster import lifecycle
from testcluster.machinery import Machinery
from tests.cluster import definitions
from tests.cluster.fault_proxy import FaultProxy, proxied
from tests.cluster.held import CommandFailedError, OwnCluster, own
from tests.cluster.jobs import Api, Job, make_disturbed_engine, manifest
from tests.cluster.reference import run_locally
from tests.cluster.release import Release
from tests.cluster.releases import Releases

from .invariants import Truth
from .observer import LogReader, Observer, Trouble
from .schedule import strikes
from .specs import LAYOUT, cluster_spec, plain_spec

OWN_OPTIONS = ("--nodes", "3", "--audit", "--fast-node-loss")
UP_SECONDS = 280.0
PATIENCE_SECONDS = 60.0
KINDS = ("service", "secret", "config_map", "persistent_volume_claim")
MOST_LEFT_SECONDS = 240.0
"""A deleted job's objects must be gone by then, grace of pods and a lost node included."""

Found = TypeVar("Found")


def patient(ask: Callable[[], Found], seconds: float = PATIENCE_SECONDS) -> Found:
    """Ask again while the API server is away; an answer that says no is an answer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except (*Trouble, CommandFailedError) as error:
            status = error.status if isinstance(error, ApiException | CommandFailedError) else None
            is_no = status is not None and 0 < status < 500 and status != HTTPStatus.TOO_MANY_REQUESTS
            if is_no or time.monotonic() > deadline:
                raise
            time.sleep(0.3)


@contextlib.contextmanager
def accepting(status: HTTPStatus) -> Iterator[None]:
    """A no that only says that an earlier try got through, though its answer did not."""
    try:
        yield
    except (ApiException, CommandFailedError) as error:
        if error.status != status:
            raise


@dataclass
class Round:
    """One life of one of the three jobs."""

    number: int = 0
    uid: str = ""
    going_since: float | None = None
    """Since when the job is deleted, and its name waits to be used again."""
    known_rows: int = 0
    folder: Path | None = None
    """Where its volume is on this host, once it is known."""


@dataclass
class World:
    """Everything that a run holds."""

    cluster: OwnCluster
    machinery: Machinery
    release: Release
    proxy: FaultProxy
    namespaces: dict[str, str]
    truths: dict[str, Truth]
    seed: int
    observer: Observer
    logs: LogReader
    rounds: dict[str, Round] = field(default_factory=lambda: {name: Round() for name in LAYOUT.jobs})

    @property
    def api(self) -> Api:
        """The API server itself, as the administrator."""
        return self.release.api

    def namespace_of(self, name: str) -> str:
        """The namespace of a job."""
        return self.namespaces[LAYOUT.jobs[name]]

    def job(self, name: str) -> Job:
        """One of the three jobs, as tests handle it."""
        return Job(self.api, self.namespace_of(name), name)

    def live_names(self) -> list[str]:
        """The jobs that are there and not on their way out."""
        return [name for name, round_ in self.rounds.items() if round_.uid and round_.going_since is None]

    def begin(self, name: str) -> None:
        """Create a job for its next round."""
        round_ = self.rounds[name]
        number = round_.number + 1
        spec = cluster_spec(name, strikes(self.seed, name, number))
        with accepting(HTTPStatus.CONFLICT):
            patient(lambda: Job.create(self.api, self.namespace_of(name), name, spec))
        uid = patient(self.job(name).get)["metadata"]["uid"]
        self.rounds[name] = Round(number, uid)

    def let_go(self, name: str) -> None:
        """Delete a job; `make_room` creates it again once nothing of it is left."""
        self.rounds[name].going_since = time.monotonic()
        with accepting(HTTPStatus.NOT_FOUND):
            patient(self.job(name).delete)

    def make_room(self) -> list[str]:
        """Begin anew those whose last round has left; what has not left in time, in words."""
        wrong = []
        for name, round_ in self.rounds.items():
            if round_.going_since is None:
                continue
            left = self._left_of(name, round_.uid)
            if not left:
                self.begin(name)
            elif time.monotonic() > round_.going_since + MOST_LEFT_SECONDS:
                wrong.append(f"{name}: deleted {MOST_LEFT_SECONDS:.0f} s ago, and there is {', '.join(left)}")
                round_.going_since = time.monotonic()
        return wrong

    def operator_pods(self) -> list[dict[str, Any]]:
        """The operator's pods, leaving ones included."""
        return patient(lambda: self.api.pods(self.release.namespace, self.release.selector))

    def objects(self) -> list[dict[str, Any]]:
        """Everything of the kinds that jobs own, of all namespaces of this run."""
        found: list[dict[str, Any]] = []
        for namespace in self.namespaces.values():
            found += [{"kind": "Pod", **pod} for pod in patient(lambda n=namespace: self.api.pods(n))]  # type: ignore[misc]
            for kind in KINDS:
                each = patient(lambda n=namespace, k=kind: self.api.objects(k, n))  # type: ignore[misc]
                found += [
                    {"kind": "".join(word.title() for word in kind.split("_")), **item} for item in each
                ]
            path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
            answer = patient(lambda p=path: self.cluster.request("GET", p))  # type: ignore[misc]
            found += [{"kind": "NetworkPolicy", **item} for item in answer["items"]]
        return found

    def rows(self, name: str) -> list[str]:
        """The hashes of the rows that a job's coordinator has committed, read from its volume."""
        round_ = self.rounds[name]
        if round_.folder is None:
            path = f"/api/v1/namespaces/{self.namespace_of(name)}/persistentvolumeclaims/{name}-checkpoint"
            claim = patient(lambda: self.cluster.find(path))
            volume = (claim or {}).get("spec", {}).get("volumeName")
            owners = [ref["uid"] for ref in (claim or {}).get("metadata", {}).get("ownerReferences", ())]
            if not volume or round_.uid not in owners:
                return []
            round_.folder = self.machinery.paths.volumes / volume
        try:
            text = (round_.folder / "run" / "metrics.jsonl").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        lines = [
            line for line in text.splitlines(keepends=True) if line.startswith("{") and line.endswith("}\n")
        ]
        return [str(json.loads(line)["row_hash"]) for line in lines]

    def _left_of(self, name: str, uid: str) -> list[str]:
        namespace = self.namespace_of(name)
        if patient(lambda: self.job(name).exists()):
            return ["the job itself"]
        found = [
            item
            for kind in ("pod", *KINDS)
            for item in patient(lambda k=kind: self.api.objects(k, namespace))  # type: ignore[misc]
        ]
        return [
            str(item["metadata"]["name"])
            for item in found
            if (item["metadata"].get("labels") or {}).get("dartes.dev/job-uid") == uid
        ]


def truths(kept: Path | None = None) -> dict[str, Truth]:
    """What the three jobs come out as when nothing happens: the same job files, run by `dartes run`.

    `kept` is a file of an earlier run's, made where there is none.
    """
    if kept is not None and kept.exists():
        read = json.loads(kept.read_text(encoding="utf-8"))
        return {name: Truth(**values) for name, values in read.items()}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in LAYOUT.jobs:
            came = run_locally(manifest(name, "default", plain_spec(name)), Path(folder) / name)
            found[name] = Truth(came.rows, came.journal_hash, came.weight_digest)
    if kept is not None:
        kept.write_text(json.dumps({name: asdict(truth) for name, truth in found.items()}), encoding="utf-8")
    return found


@contextlib.contextmanager
def own_cluster() -> Iterator[tuple[OwnCluster, bool]]:
    """The cluster that is up, or one with short node timers; and whether it was brought up here."""
    machinery = Machinery.from_environment()
    own("build", seconds=3600.0)
    started = not machinery.paths.options.exists()
    if started:
        own("down")  # what a killed session left
        own("up", *OWN_OPTIONS, seconds=UP_SECONDS)
    # One that is up but broken is somebody's, and so theirs to take down: this raises, and says what died.
    lifecycle.running_options(machinery)
    try:
        cluster = OwnCluster(machinery.paths)
        cluster.ensure_images()
        yield cluster, started
    finally:
        if started:
            own("down", "--keep-logs")


@contextlib.contextmanager
def world(cluster: OwnCluster, seed: int, copies: Path, known: dict[str, Truth]) -> Iterator[World]:
    """A release behind a proxy, and its three jobs; all is taken away again."""
    definitions.apply(cluster)
    names = sorted(set(LAYOUT.jobs.values()))
    with contextlib.ExitStack() as after:
        usual = Release(cluster)
        if usual.is_installed():
            usual.scale_operator(0)
            after.callback(usual.scale_operator, 1)
        namespaces = {name: cluster.make_namespace(f"chaos-{name}") for name in names}
        for namespace in namespaces.values():
            after.callback(cluster.delete_namespace, namespace)
        proxy, options = proxied(cluster)
        after.callback(proxy.stop)
        releases = Releases(cluster, ())
        after.callback(releases.remove)
        release = releases(*namespaces.values(), options=options)
        for namespace in namespaces.values():
            make_disturbed_engine(release.api, namespace)
            after.callback(_delete_jobs, cluster, namespace)
        machinery = Machinery.from_environment()
        observer = Observer(release.api, list(namespaces.values()))
        logs = LogReader(machinery.paths.nodes, [*namespaces.values(), release.namespace], copies)
        made = World(cluster, machinery, release, proxy, namespaces, known, seed, observer, logs)
        after.callback(proxy.heal)
        observer.start()
        after.callback(observer.stop)
        logs.start()
        after.callback(logs.stop)
        for name in LAYOUT.jobs:
            made.begin(name)
        yield made


def _delete_jobs(cluster: OwnCluster, namespace: str) -> None:
    with contextlib.suppress(CommandFailedError):
        cluster.kubectl("delete", "dej", "--all", "--wait=false", "-n", namespace)
