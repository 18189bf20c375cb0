"""The proxy that stands between the operator and the API server in cluster tests: what each fault does."""

import http.client
import json
import queue
import random
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from testcluster.paths import Network, Paths
from testcluster.pki import Certificates
from tests.cluster.fault_proxy import Fault, FaultProxy, Kind, Request
from tests.cluster.faults import FaultPlan, ListMemory
from tests.waiting import until

PODS = "/api/v1/namespaces/team/pods"
JOBS = "/apis/dartes.dev/v1alpha1/dartesjobs"
HERE = "127.0.0.1"


@dataclass
class Upstream:
    """An API server that answers every list with a running number and sends watches what it is told."""

    calls: list[tuple[str, str, bytes, str]] = field(default_factory=list)
    events: queue.Queue[bytes] = field(default_factory=queue.Queue)
    port: int = 0


class Handler(BaseHTTPRequestHandler):
    """One connection to it."""

    protocol_version = "HTTP/1.1"
    upstream: Upstream

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = self.headers.get("Authorization", "")
        self.upstream.calls.append((self.command, self.path, body, token))
        if "watch=true" in self.path:
            self._watch()
            return
        said = json.dumps({"number": len(self.upstream.calls), "padding": "x" * 1000}).encode()
        self.send_response(201 if self.command == "POST" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while line := self.upstream.events.get():
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            except OSError:
                return
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _answer  # noqa: N815


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proxy")
    made = Certificates(Paths(folder, folder), Network("10.188", "10.189", "br"))
    made.make_authority()
    made.issue("server", "server", ips=[HERE])
    return folder / "pki"


@pytest.fixture
def upstream(certificates: Path) -> Iterator[Upstream]:
    upstream = Upstream()
    server = ThreadingHTTPServer((HERE, 0), type("Bound", (Handler,), {"upstream": upstream}))
    server.daemon_threads = True
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    upstream.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield upstream
    upstream.events.put(b"")
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(upstream: Upstream, certificates: Path) -> Iterator[FaultProxy]:
    proxy = FaultProxy(
        f"https://{HERE}:{upstream.port}",
        certificates / "ca.crt",
        certificates / "server.crt",
        certificates / "server.key",
        HERE,
    )
    proxy.start()
    yield proxy
    proxy.stop()


class Client:
    """One TLS connection to the proxy."""

    def __init__(self, proxy: FaultProxy, certificates: Path) -> None:
        context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        self.connection = http.client.HTTPSConnection(*proxy.url, context=context, timeout=5)

    def ask(self, method: str, target: str, body: bytes | None = None) -> http.client.HTTPResponse:
        """The answer, whose body is not read yet."""
        self.connection.request(method, target, body, {"Authorization": "Bearer mine"})
        return self.connection.getresponse()

    def read(self, method: str, target: str, body: bytes | None = None) -> Any:
        """The answer's JSON."""
        return json.loads(self.ask(method, target, body).read())


@pytest.fixture
def client(proxy: FaultProxy, certificates: Path) -> Iterator[Client]:
    client = Client(proxy, certificates)
    yield client
    client.connection.close()


@pytest.mark.parametrize(
    ("method", "target", "verb", "resource", "namespace", "name"),
    [
        ("GET", f"{PODS}?limit=500", "list", "pods", "team", ""),
        ("GET", f"{PODS}?watch=true&resourceVersion=5", "watch", "pods", "team", ""),
        ("GET", f"{PODS}/a", "get", "pods", "team", "a"),
        ("GET", JOBS, "list", "dartesjobs", "", ""),
        ("PATCH", f"{JOBS.rpartition('/')[0]}/namespaces/t/dartesjobs/j/status", "patch",
         "dartesjobs/status", "t", "j"),
        ("DELETE", f"{PODS}/a", "delete", "pods", "team", "a"),
        ("DELETE", PODS, "deletecollection", "pods", "team", ""),
        ("GET", "/api/v1/namespaces/team", "get", "namespaces", "", "team"),
        ("GET", "/api/v1/namespaces", "list", "namespaces", "", ""),
        ("GET", "/version", "list", "", "", ""),
    ],
)  # fmt: skip
def test_a_request_is_known_by_verb_resource_and_name(
    method: str, target: str, verb: str, resource: str, namespace: str, name: str
) -> None:
    request = Request(method, target)
    assert (request.verb, request.resource) == (verb, resource)
    assert (request.namespace, request.name) == (namespace, name)


def test_a_created_object_is_known_by_its_manifest() -> None:
    request = Request("POST", PODS, json.dumps({"metadata": {"name": "a"}}).encode())
    assert (request.verb, request.name) == ("create", "a")
    assert Request("POST", PODS, b"no json").name == ""


def test_a_fault_strikes_what_it_names_and_so_often() -> None:
    plan = FaultPlan(random.Random(0))
    plan.inject(Fault(Kind.CONFLICT, verbs=("patch",), resources=("pods",), count=2))
    patch, other = Request("PATCH", f"{PODS}/a"), Request("PATCH", f"{JOBS}/a/b")
    assert plan.strike(other) is None
    assert plan.strike(Request("DELETE", f"{PODS}/a")) is None
    assert [plan.strike(patch) is not None for _ in range(4)] == [True, True, False, False]
    assert plan.struck[Kind.CONFLICT] == 2


@pytest.mark.parametrize(
    ("kind", "fits", "fits_not"),
    [
        (Kind.GONE, "watch", "list"), (Kind.EXPIRED, "watch", "get"), (Kind.STALE, "list", "watch"),
        (Kind.CONFLICT, "create", "list"), (Kind.LOST, "create", "watch"), (Kind.DROPPED, "watch", ""),
    ],
)  # fmt: skip
def test_a_fault_strikes_only_what_can_meet_it(kind: Kind, fits: str, fits_not: str) -> None:
    requests = {
        "watch": Request("GET", f"{PODS}?watch=true"),
        "list": Request("GET", PODS),
        "get": Request("GET", f"{PODS}/a"),
        "create": Request("POST", PODS),
    }
    assert Fault(kind).fits(requests[fits])
    assert not fits_not or not Fault(kind).fits(requests[fits_not])


def test_a_share_strikes_about_so_many_and_the_same_ones_again() -> None:
    def strikes() -> list[bool]:
        plan = FaultPlan(random.Random(7))
        plan.inject(Fault(Kind.BROKEN, share=0.3))
        return [plan.strike(Request("GET", PODS)) is not None for _ in range(1000)]

    assert strikes() == strikes()
    assert 250 < sum(strikes()) < 350


def test_a_stale_list_is_as_old_as_asked_for_else_the_oldest() -> None:
    memory, request = ListMemory(), Request("GET", PODS)
    assert memory.recall(request, 0.0, None) is None
    for moment in (1.0, 2.0, 3.0):
        memory.keep(request, moment, str(moment).encode())
    assert memory.recall(request, 3.5, 1.0) == b"2.0"
    assert memory.recall(request, 3.5, 9.0) == b"1.0"
    assert memory.recall(request, 3.5, None) == b"1.0"
    assert memory.recall(Request("GET", f"{PODS}?labelSelector=a"), 3.5, None) is None


def test_requests_pass_with_the_clients_own_token(
    proxy: FaultProxy, client: Client, upstream: Upstream
) -> None:
    answer = client.ask("POST", f"{PODS}?fieldManager=x", b'{"metadata":{"name":"a"}}')
    assert (answer.status, json.loads(answer.read())["number"]) == (201, 1)
    assert upstream.calls == [("POST", f"{PODS}?fieldManager=x", b'{"metadata":{"name":"a"}}', "Bearer mine")]
    assert proxy.seen["create", "pods"] == 1
    assert [(r.request.name, r.code, r.fault) for r in proxy.records] == [("a", 201, None)]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(Kind.TOO_MANY, seconds=2.5), 429),
        (Fault(Kind.CONFLICT), 409),
        (Fault(Kind.BROKEN), 503),
        (Fault(Kind.UNAUTHORIZED), 401),
    ],
)
def test_a_refused_request_never_reaches_the_server(
    proxy: FaultProxy, client: Client, upstream: Upstream, fault: Fault, code: int
) -> None:
    proxy.inject(fault)
    answer = client.ask("PATCH", f"{PODS}/a", b"{}")
    answer.read()
    assert answer.status == code
    assert answer.getheader("Retry-After") == ("3" if code == 429 else None)
    assert upstream.calls == []
    proxy.heal()
    assert client.ask("PATCH", f"{PODS}/a", b"{}").status == 200


def test_a_slow_request_is_carried_out(proxy: FaultProxy, client: Client, upstream: Upstream) -> None:
    proxy.inject(Fault(Kind.SLOW, seconds=0.01))
    assert client.read("GET", PODS)["number"] == 1
    assert proxy.struck[Kind.SLOW] == 1


@pytest.mark.parametrize(
    ("kind", "carried_out"), [(Kind.DROPPED, False), (Kind.LOST, True), (Kind.HALF, True)]
)
def test_a_connection_is_cut_before_or_after(
    proxy: FaultProxy, client: Client, upstream: Upstream, kind: Kind, carried_out: bool
) -> None:
    proxy.inject(Fault(kind))
    with pytest.raises((OSError, http.client.HTTPException)):
        client.read("DELETE", f"{PODS}/a")
    assert bool(upstream.calls) is carried_out


@pytest.mark.parametrize(("kind", "carried_out"), [(Kind.SILENT, False), (Kind.UNANSWERED, True)])
def test_a_silent_server_says_nothing_and_may_have_acted(
    proxy: FaultProxy, client: Client, upstream: Upstream, kind: Kind, carried_out: bool
) -> None:
    seen_by_then: list[bool] = []
    proxy.inject(Fault(kind, then=lambda: seen_by_then.append(bool(upstream.calls))))
    client.connection.request("DELETE", f"{PODS}/a")
    until(lambda: seen_by_then, "the request has been struck", 5)
    assert seen_by_then == [carried_out]
    client.connection.sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.connection.getresponse()
    assert bool(upstream.calls) is carried_out


def test_a_stale_list_comes_from_memory(proxy: FaultProxy, client: Client, upstream: Upstream) -> None:
    first = client.read("GET", PODS)
    client.read("GET", PODS)
    proxy.inject(Fault(Kind.STALE))
    assert client.read("GET", PODS) == first
    proxy.heal()
    assert client.read("GET", PODS)["number"] == 3


def test_a_watch_passes_each_event_as_it_comes(proxy: FaultProxy, client: Client, upstream: Upstream) -> None:
    watch = client.ask("GET", f"{PODS}?watch=true")
    for line in (b'{"type":"ADDED"}\n', b'{"type":"DELETED"}\n'):
        upstream.events.put(line)
        assert watch.readline() == line
    upstream.events.put(b"")
    assert watch.readline() == b""


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(("kind", "code"), [(Kind.EXPIRED, 410), (Kind.STREAM_ERROR, 500)])
def test_a_watch_ends_with_an_error_event(
    proxy: FaultProxy, client: Client, upstream: Upstream, kind: Kind, code: int, is_open: bool
) -> None:
    fault = Fault(kind, count=1, verbs=("watch",))
    if not is_open:
        proxy.inject(fault)
    watch = client.ask("GET", f"{PODS}?watch=true")
    if is_open:
        upstream.events.put(b'{"type":"ADDED"}\n')
        assert watch.readline() == b'{"type":"ADDED"}\n'
        proxy.inject(fault)
    event = json.loads(watch.readline())
    assert (event["type"], event["object"]["code"]) == ("ERROR", code)
    assert watch.readline() == b""


def test_a_watch_is_refused_at_its_start(proxy: FaultProxy, client: Client, upstream: Upstream) -> None:
    proxy.inject(Fault(Kind.GONE, count=1))
    answer = client.ask("GET", f"{PODS}?watch=true")
    assert (answer.status, json.loads(answer.read())["reason"]) == (410, "Expired")
    assert upstream.calls == []


def test_an_open_watch_falls_silent_and_stays_so(
    proxy: FaultProxy, client: Client, upstream: Upstream
) -> None:
    watch = client.ask("GET", f"{PODS}?watch=true")
    until(lambda: proxy.open_watches("pods") == 1, "the watch is open", 5)
    proxy.inject(Fault(Kind.SILENT, resources=("pods",), verbs=("watch",)))
    proxy.heal()
    upstream.events.put(b'{"type":"ADDED"}\n')
    client.connection.sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        watch.readline()
    assert proxy.open_watches("pods") == 0


def test_an_open_watch_is_cut(proxy: FaultProxy, client: Client, upstream: Upstream) -> None:
    watch = client.ask("GET", f"{PODS}?watch=true")
    until(lambda: proxy.open_watches("pods") == 1, "the watch is open", 5)
    proxy.inject(Fault(Kind.DROPPED, verbs=("watch",)))
    with pytest.raises((OSError, http.client.HTTPException)):
        watch.read()


def test_a_server_that_is_away_looks_away(certificates: Path) -> None:
    parts = certificates / "ca.crt", certificates / "server.crt", certificates / "server.key"
    proxy = FaultProxy(f"https://{HERE}:1", *parts, HERE)
    proxy.start()
    client = Client(proxy, certificates)
    try:
        with pytest.raises((OSError, http.client.HTTPException)):
            client.read("GET", PODS)
    finally:
        client.connection.close()
        proxy.stop()
