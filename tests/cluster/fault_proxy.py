"""A TLS reverse proxy before the API server whose faults tests switch on and off while clients use it.

It runs in a thread of the test process, with a certificate of the cluster's authority, and passes requests on
with the client's own token; so an operator that is pointed at it works under its own rights. It knows nothing
of what the requests are for. Connections that are upgraded (exec, attach, port-forward) are not passed on.
"""

import asyncio
import random
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from testcluster.machinery import Machinery
from testcluster.pki import Certificates

from .fault_streams import Stream, copy
from .faults import WRITES, Answer, Fault, FaultPlan, Kind, ListMemory, Record, Request, answer_to, last_event
from .held import HeldCluster, NotHereError
from .provider import Provider

__all__ = ["WRITES", "Fault", "FaultProxy", "Kind", "Record", "Request", "proxied"]

START_SECONDS: Final = 10.0
_REMEMBERED_REQUESTS: Final = 20_000
_OF_ONE_CONNECTION: Final = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "host"}
)


class FaultProxy:
    """Stands between clients and an API server.

    Parameters
    ----------
    upstream
        URL of the API server.
    ca
        The authority that signed its certificate.
    certificate, key
        With which clients are answered.
    address
        Where to listen; the port is one that is free.
    """

    def __init__(
        self, upstream: str, ca: Path, certificate: Path, key: Path, address: str, seed: int = 0
    ) -> None:
        self._upstream = upstream.rstrip("/")
        self._ca = ca
        self._pair = (certificate, key)
        self._address = address
        self._port = 0
        self._plan = FaultPlan(random.Random(seed))
        self._lists = ListMemory()
        self._streams: set[Stream] = set()
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.ServerRunner | None = None
        self.seen: Counter[tuple[str, str]] = Counter()
        """Requests by verb and resource, struck ones included."""
        self.records: deque[Record] = deque(maxlen=_REMEMBERED_REQUESTS)
        """The latest requests in the order of their ends; watches in that of their starts."""

    @property
    def url(self) -> tuple[str, int]:
        """Host and port that clients connect to."""
        return self._address, self._port

    @property
    def struck(self) -> Counter[Kind]:
        """How often each kind of fault has struck."""
        return self._plan.struck

    def start(self) -> None:
        """Listen; returns once connections are taken."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        self._call(self._open())

    def stop(self) -> None:
        """Cut all connections and stop listening."""
        if self._thread is None:
            return
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()
        self._thread = None

    def inject(self, fault: Fault) -> None:
        """Let a fault strike from now on, beside those that do; open watches are struck at once."""
        self._plan.inject(fault)
        self._call(self._strike_open_streams())

    def heal(self) -> None:
        """Nothing new goes wrong; what is mute or unanswered stays so until its client gives up."""
        self._plan.heal()

    def open_watches(self, resource: str) -> int:
        """How many watches of a resource are open and have not been struck."""
        return sum(each.request.resource == resource and each.fault is None for each in tuple(self._streams))

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS)

    async def _open(self) -> None:
        # No time limits: how long a request may take is between client and server.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cafile=str(self._ca)))
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, trust_env=False
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*map(str, self._pair))
        # A client that leaves ends its request, as with the API server itself.
        server = web.Server(self._handle, handler_cancellation=True)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._address, 0, ssl_context=context).start()
        self._port = int(self._runner.addresses[0][1])

    async def _close(self) -> None:
        assert self._runner is not None and self._runner.server is not None  # noqa: PT018
        assert self._session is not None
        await self._session.close()
        # An orderly end of TLS waits for the client.
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await self._runner.cleanup()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _strike_open_streams(self) -> None:
        for stream in tuple(self._streams):
            fault = None if stream.fault else self._plan.strike(stream.request, is_open=True)
            if fault is not None:
                stream.fault = fault.kind
                stream.struck.set()

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        request = Request(incoming.method, incoming.path_qs, await incoming.read())
        self.seen[request.verb, request.resource] += 1
        fault = self._plan.strike(request)
        kind = fault.kind if fault else None
        try:
            if fault is not None:
                if (given := answer_to(fault, request)) is not None:
                    return self._give(request, given, kind)
                if fault.kind is Kind.SLOW:
                    await asyncio.sleep(fault.seconds or 0.0)
            if request.verb == "watch":
                return await self._watch(incoming, request, kind)
            return await self._pass_on(incoming, request, fault)
        except (aiohttp.ClientError, OSError):
            # The server is away or has hung up, and so do we.
            return self._cut(incoming, request, kind)

    async def _pass_on(
        self, incoming: web.BaseRequest, request: Request, fault: Fault | None
    ) -> web.StreamResponse:
        kind = fault.kind if fault else None
        if kind is Kind.DROPPED:
            return self._cut(incoming, request, kind)
        if fault is not None and kind is Kind.SILENT:
            return await self._say_nothing(request, fault)
        if kind is Kind.STALE and fault is not None:
            body = self._lists.recall(request, time.monotonic(), fault.seconds)
            if body is not None:
                return self._give(request, Answer(200, body), kind)
        async with self._ask(incoming, request) as answer:
            body = await answer.read()
            headers = _passed(answer.headers)
        if request.verb == "list" and answer.status == 200:
            self._lists.keep(request, time.monotonic(), body)
        if kind is Kind.LOST:
            return self._cut(incoming, request, kind, answer.status)
        if fault is not None and kind is Kind.UNANSWERED:
            return await self._say_nothing(request, fault, answer.status)
        if kind is Kind.HALF:
            # Promised in full, so that the client can tell.
            response = web.StreamResponse(
                status=answer.status, headers={**headers, "Content-Length": str(len(body))}
            )
            await response.prepare(incoming)
            await response.write(body[: len(body) // 2])
            self._cut(incoming, request, kind, answer.status)
            return response
        self._note(request, answer.status, kind)
        return web.Response(status=answer.status, headers=headers, body=body)

    async def _watch(
        self, incoming: web.BaseRequest, request: Request, kind: Kind | None
    ) -> web.StreamResponse:
        """Pass a watch on until it ends on one side or is struck."""
        if kind is Kind.DROPPED:
            return self._cut(incoming, request, kind)
        stream = Stream(request)
        async with self._ask(incoming, request) as answer:
            headers = _passed(answer.headers)
            self._note(request, answer.status, kind)
            if answer.status != 200:
                return web.Response(status=answer.status, headers=headers, body=await answer.read())
            response = web.StreamResponse(headers=headers)
            await response.prepare(incoming)
            if kind in (Kind.EXPIRED, Kind.STREAM_ERROR, Kind.SILENT):
                stream.fault = kind
            self._streams.add(stream)
            try:
                if stream.fault is None:
                    await copy(answer.content, response, stream.struck)
            finally:
                self._streams.discard(stream)
        if stream.fault is Kind.SILENT:
            await _forever()
        elif stream.fault is Kind.DROPPED:
            _hang_up(incoming)
        elif stream.fault is not None:
            await response.write(last_event(stream.fault))
        return response

    def _ask(self, incoming: web.BaseRequest, request: Request) -> Any:
        assert self._session is not None
        return self._session.request(
            request.method,
            self._upstream + request.target,
            headers=_passed(incoming.headers),
            data=request.body or None,
            allow_redirects=False,
        )

    def _give(self, request: Request, answer: Answer, kind: Kind | None) -> web.Response:
        self._note(request, answer.code, kind)
        return web.Response(
            status=answer.code, headers=answer.headers, body=answer.body, content_type=answer.content_type
        )

    async def _say_nothing(self, request: Request, fault: Fault, code: int = 0) -> web.StreamResponse:
        self._note(request, code, fault.kind)
        if fault.then is not None:
            fault.then()
        await _forever()
        raise AssertionError("never reached")

    def _cut(
        self, incoming: web.BaseRequest, request: Request, kind: Kind | None, code: int = 0
    ) -> web.Response:
        self._note(request, code, kind)
        _hang_up(incoming)
        return web.Response()

    def _note(self, request: Request, code: int, kind: Kind | None) -> None:
        self.records.append(Record(time.monotonic(), request, code, kind))


def _hang_up(incoming: web.BaseRequest) -> None:
    if incoming.transport is not None:
        incoming.transport.abort()


async def _forever() -> None:
    await asyncio.Event().wait()


def _passed(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_ONE_CONNECTION}


def proxied(cluster: HeldCluster) -> tuple[FaultProxy, tuple[str, ...]]:
    """A started proxy before a cluster's API server, and the chart's options that point an operator at it.

    NotHereError where the cluster's authority is not at hand. The caller stops the proxy.
    """
    if cluster.provider is not Provider.OWN:
        raise NotHereError("fault_proxy")
    machinery = Machinery.from_environment()
    pki, gateway = machinery.paths.pki, machinery.network.gateway
    Certificates(machinery.paths, machinery.network).issue("fault-proxy", "fault-proxy", ips=[gateway])
    proxy = FaultProxy(
        machinery.network.server, pki / "ca.crt", pki / "fault-proxy.crt", pki / "fault-proxy.key", gateway
    )
    proxy.start()
    host, port = proxy.url
    variables = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
    options: list[str] = []
    for index, (name, value) in enumerate(variables.items()):
        options += ["--set", f"extraEnv[{index}].name={name}"]
        options += ["--set-string", f"extraEnv[{index}].value={value}"]
    return proxy, tuple(options)
