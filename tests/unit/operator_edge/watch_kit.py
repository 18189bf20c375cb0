"""An API server of lists and watches alone, whose next watches or lists fail as told; the operator before it.

What is served is empty: it is about connections, not about jobs.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.test_utils import TestServer

from dartes_operator.kinds import RESOURCES, WATCHED

PLURALS = frozenset(RESOURCES[kind].plural for kind in WATCHED)
Trouble = Callable[[web.Request], Awaitable[web.StreamResponse]]
ENVIRONMENT: Final = {
    "DARTES_HTTP": "127.0.0.1:0",
    "DARTES_LOG_FORMAT": "text",
    "DARTES_WATCH_NAMESPACES": "team",
    "DARTES_DEFAULTS": '{"images": {"coordinator": "c:1", "worker": "w:1", "workerVllm": "v:1"}}',
    "POD_NAMESPACE": "system",
}
"""An operator's settings."""


class WatchServer:
    """Counts the watches that are open, by plural; `troubles` are what the next watches meet."""

    def __init__(self) -> None:
        self.open: Counter[str] = Counter()
        self.lists = 0
        self.troubles: list[Trouble] = []
        self.begun: Counter[str] = Counter()
        self._hurt: tuple[str, int] | None = None
        self._watches: set[web.Request] = set()

    @property
    def is_watched(self) -> bool:
        """Whether every kind is watched."""
        return all(self.open[plural] for plural in PLURALS)

    @property
    def is_watched_again(self) -> bool:
        """The same, when a watch has met its trouble and another was begun in its place."""
        if self._hurt is None:
            return False
        plural, before = self._hurt
        return self.is_watched and self.begun[plural] > before

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        plural = request.path.rsplit("/", 1)[-1]
        if plural not in PLURALS:
            # What kopf asks to find out what resources there are.
            return web.json_response(self._discovery(request.path))
        if request.query.get("watch") != "true":
            self.lists += 1
            empty = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "5"}, "items": []}
            return web.json_response(empty)
        if self.troubles:
            self._hurt = plural, self.begun[plural]
            return await self.troubles.pop()(request)
        response = web.StreamResponse()
        await response.prepare(request)
        self.open[plural] += 1
        self.begun[plural] += 1
        self._watches.add(request)
        try:
            await asyncio.Event().wait()
        finally:
            self._watches.discard(request)
            self.open[plural] -= 1
        return response

    def hurt_a_watch(self, trouble: Trouble) -> None:
        """Cut every open watch; the first that is begun again meets the trouble."""
        self._hurt = None
        self.troubles.append(trouble)
        for request in tuple(self._watches):
            request.loop.call_soon_threadsafe(_hang_up, request)

    def _discovery(self, path: str) -> dict[str, Any]:
        prefix = path.rstrip("/")
        if prefix == "/api":
            return {"versions": ["v1"]}
        if prefix == "/apis":
            version = {"groupVersion": "dartes.dev/v1alpha1", "version": "v1alpha1"}
            return {"groups": [{"name": "dartes.dev", "versions": [version], "preferredVersion": version}]}
        found: list[dict[str, Any]] = [
            {"name": each.plural, "singularName": "", "namespaced": True, "kind": kind,
             "verbs": ["list", "watch", "patch"]}
            for kind, each in RESOURCES.items() if each.prefix == prefix
        ]  # fmt: skip
        # kopf waits until it has seen these.
        found.append({"name": "namespaces", "singularName": "", "namespaced": False, "kind": "Namespace"})
        return {"kind": "APIResourceList", "groupVersion": "v1", "resources": found}


def answering(code: int, reason: str) -> Trouble:
    """A watch that is refused."""

    async def answer(_: web.Request) -> web.StreamResponse:
        said = {"kind": "Status", "code": code, "reason": reason, "message": reason}
        return web.json_response(said, status=code)

    return answer


def streaming(*lines: bytes, cut: bool = False) -> Trouble:
    """A watch that tells these and ends, or is cut."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        if cut:
            _hang_up(request)
        return response

    return answer


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def error_event(code: int) -> bytes:
    """What a watch tells of an error."""
    said = {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "no", "metadata": {}}}
    return json.dumps(said).encode() + b"\n"


@contextmanager
def serving(server: WatchServer) -> Iterator[str]:
    """Its URL, while it listens in a thread of its own: kopf ends whatever tasks there are in its loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    running = TestServer(application)
    asyncio.run_coroutine_threadsafe(running.start_server(shutdown_timeout=0.0), loop).result(5)
    try:
        yield str(running.make_url("")).rstrip("/")
    finally:
        asyncio.run_coroutine_threadsafe(running.close(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


def kubeconfig(url: str, folder: Path) -> Path:
    """A kubeconfig that leads there."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "it", "user": {"token": "mine"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return path
