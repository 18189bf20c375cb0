"""The operator as a process, against an API server in this one that lists, streams watches and stores."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from ruamel.yaml import YAML

from dartes.errors import ExitCode
from dartes_operator.kinds import RESOURCES, WATCHED

from ..unit.operator_edge.kit import NAMESPACE, FakeServer
from ..waiting import until

EXAMPLE = Path(__file__).parents[2] / "examples" / "addition.yaml"
JOBS = f"/apis/dartes.dev/v1alpha1/namespaces/{NAMESPACE}/dartesjobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEFAULTS = {"images": {"coordinator": "c:1", "worker": "w:1", "workerVllm": "v:1"}}
SECONDS = 30.0


class WatchedServer(FakeServer):
    """A fake server in a thread of its own that also tells what it serves, and streams changes."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._log: list[tuple[int, str, str, dict[str, Any]]] = []
        self.watches: list[str] = []
        self.port = 0

    @contextmanager
    def serving(self) -> Iterator[None]:
        started = threading.Event()
        thread = threading.Thread(target=self._serve, args=(started,))
        thread.start()
        assert started.wait(SECONDS)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(SECONDS)

    def _serve(self, started: threading.Event) -> None:
        async def start() -> web.AppRunner:
            application = web.Application()
            application.router.add_route("*", "/{path:.*}", self.handle)
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            return runner

        runner = self._loop.run_until_complete(start())
        started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._stop(runner))
        self._loop.close()

    async def _stop(self, runner: web.AppRunner) -> None:
        streams = asyncio.all_tasks() - {asyncio.current_task()}
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        await runner.cleanup()

    def act(self, change: Callable[[], Any]) -> None:
        """Change something as somebody else would, between two requests."""
        done = threading.Event()

        def once() -> None:
            change()
            done.set()

        self._loop.call_soon_threadsafe(once)
        assert done.wait(SECONDS)

    async def handle(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        """Answer one request; what it changed goes to the watches."""
        if request.query.get("watch") == "true":
            return await self._watch(request)
        described = _discovery(request.path)
        if described is not None:
            return web.json_response(described)
        before = {path: manifest["metadata"]["resourceVersion"] for path, manifest in self.objects.items()}
        answer = await super().handle(request)
        for path, manifest in self.objects.items():
            if before.get(path) != manifest["metadata"]["resourceVersion"]:
                self._tell("MODIFIED" if path in before else "ADDED", path, manifest)
        return answer

    def remove(self, path: str) -> None:
        """Delete an object as somebody else would."""
        self.version += 1
        self._tell("DELETED", path, self.objects.pop(path))

    def add_job(self, manifest: dict[str, Any]) -> None:
        """Create a job as `kubectl apply` would."""
        manifest["metadata"] |= {"namespace": NAMESPACE, "generation": 1}
        manifest["metadata"]["creationTimestamp"] = "2030-01-01T00:00:00Z"
        stored = self.put("dartesjobs", manifest, "/apis/dartes.dev/v1alpha1")
        self._tell("ADDED", f"{JOBS}/{stored['metadata']['name']}", stored)

    def _tell(self, what: str, path: str, manifest: dict[str, Any]) -> None:
        self._log.append((self.version, what, path, manifest))
        self._changed.set()

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        self.watches.append(f"{request.path}?{request.query.get('labelSelector', '')}")
        response = web.StreamResponse()
        await response.prepare(request)
        position, since = 0, int(request.query.get("resourceVersion", "0"))
        while True:
            for version, what, path, manifest in self._log[position:]:
                if version > since and path.rsplit("/", 1)[0] == request.path:
                    line = json.dumps({"type": what, "object": manifest})
                    await response.write(f"{line}\n".encode())
            position = len(self._log)
            self._changed.clear()
            await self._changed.wait()


def _discovery(path: str) -> dict[str, Any] | None:
    """The pages from which a client learns what is served."""
    verbs = ["get", "list", "watch", "create", "patch", "delete"]
    kinds = {kind: resource for kind, resource in RESOURCES.items() if resource.prefix == path}
    if path == "/api":
        return {"versions": ["v1"]}
    if path == "/apis":
        versions = [{"groupVersion": "dartes.dev/v1alpha1", "version": "v1alpha1"}]
        return {"groups": [{"name": "dartes.dev", "versions": versions, "preferredVersion": versions[0]}]}
    if not kinds:
        return None
    names = {resource.plural: kind for kind, resource in kinds.items()}
    served = [
        {"name": plural, "singularName": kind.lower(), "kind": kind, "namespaced": True, "verbs": verbs}
        for plural, kind in names.items()
    ]
    if path == "/api/v1":
        served.append(
            {
                "name": "namespaces",
                "singularName": "",
                "kind": "Namespace",
                "namespaced": False,
                "verbs": verbs,
            }
        )
    return {"kind": "APIResourceList", "resources": served}


@pytest.fixture
def server() -> Iterator[WatchedServer]:
    fake = WatchedServer()
    with fake.serving():
        yield fake


class Operator:
    """The operator's process."""

    def __init__(self, server: WatchedServer, folder: Path, **changes: str) -> None:
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [cluster],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [context],
            "current-context": "c",
        }
        (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
        self.log = folder / "operator.log"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("DARTES", "KUBE"))},
            "KUBECONFIG": str(folder / "kubeconfig"),
            "DARTES_WATCH_NAMESPACES": NAMESPACE,
            "DARTES_LOG_FORMAT": "json",
            "DARTES_DEFAULTS": json.dumps(DEFAULTS),
            "DARTES_HTTP": "127.0.0.1:0",
            "POD_NAMESPACE": "dartes-system",
            **changes,
        }
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dartes_operator"], env=environment, stderr=output
            )

    def end(self, by: signal.Signals) -> int:
        self.process.send_signal(by)
        return self.process.wait(SECONDS)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def operator(server: WatchedServer, tmp_path: Path) -> Iterator[Operator]:
    running = Operator(server, tmp_path)
    yield running
    if running.process.poll() is None:
        running.end(signal.SIGKILL)


def names(server: WatchedServer, collection: str) -> set[str]:
    return {path.rsplit("/", 1)[1] for path in list(server.objects) if path.rsplit("/", 1)[0] == collection}


def addition() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load(EXAMPLE.read_text())
    return loaded


EXPECTED = {"addition-coordinator", "addition-worker-0", "addition-worker-1"}


def started(server: WatchedServer) -> bool:
    status = server.objects[f"{JOBS}/addition"].get("status") or {}
    return names(server, PODS) == EXPECTED and "startTime" in status


def test_a_job_becomes_pods_and_a_lost_pod_comes_back(server: WatchedServer, operator: Operator) -> None:
    until(lambda: len(server.watches) == len(WATCHED), "every kind is watched", SECONDS)
    server.act(lambda: server.add_job(addition()))
    until(lambda: started(server), "the pods are made", SECONDS)
    old = server.objects[f"{PODS}/addition-worker-1"]["metadata"]["resourceVersion"]
    server.act(lambda: server.remove(f"{PODS}/addition-worker-1"))
    until(lambda: names(server, PODS) == EXPECTED, "the pod comes back", SECONDS)
    assert server.objects[f"{PODS}/addition-worker-1"]["metadata"]["resourceVersion"] != old
    about = [line for line in operator.lines() if line["message"].startswith("WorkersCreated")]
    assert {(line["namespace"], line["job"]) for line in about} == {(NAMESPACE, "addition")}


def test_only_the_operators_own_objects_are_watched_and_kopf_writes_nothing(
    server: WatchedServer, operator: Operator
) -> None:
    server.act(lambda: server.add_job(addition()))
    until(lambda: started(server) and len(server.watches) == len(WATCHED), "the pods are made", SECONDS)
    unselected = [watch for watch in server.watches if watch.endswith("?")]
    assert unselected == [f"{JOBS}?"]
    patched = {call.path for call in server.calls if call.method == "PATCH"}
    assert patched == {f"{JOBS}/addition/status"}
    assert "finalizers" not in server.objects[f"{JOBS}/addition"]["metadata"]


def test_an_operator_that_comes_back_makes_nothing_twice(
    server: WatchedServer, operator: Operator, tmp_path: Path
) -> None:
    server.act(lambda: server.add_job(addition()))
    until(lambda: started(server), "the pods are made", SECONDS)
    until(lambda: len(names(server, f"/api/v1/namespaces/{NAMESPACE}/events")) == 3, "events", SECONDS)
    operator.end(signal.SIGKILL)
    server.act(lambda: server.remove(f"{PODS}/addition-worker-0"))
    made = len(server.named("POST"))
    again = Operator(server, tmp_path)
    try:
        until(lambda: names(server, PODS) == EXPECTED, "the pod that was lost meanwhile is back", SECONDS)
        until(lambda: len(server.watches) == 2 * len(WATCHED), "every kind is watched again", SECONDS)
    finally:
        assert again.end(signal.SIGTERM) == ExitCode.DONE
    posted = [call for call in server.calls if call.method == "POST"][made:]
    assert [call.name for call in posted if not call.path.endswith("/events")] == ["addition-worker-0"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"DARTES_DEFAULTS": "{}"}, "DARTES_DEFAULTS.images.coordinator is None"),
        ({"KUBECONFIG": "/nowhere"}, "no access to an API server"),
    ],
)
def test_a_wrong_environment_ends_the_operator_with_the_reason(
    server: WatchedServer, tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    broken = Operator(server, tmp_path, **changes)
    assert broken.process.wait(SECONDS) == ExitCode.CONFIGURATION
    assert words in broken.log.read_text()
