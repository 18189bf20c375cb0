"""Probes and metrics over plain HTTP."""

import contextlib
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter

from dartes.errors import ConfigurationError
from dartes.serving import CONNECTIONS, REQUEST_SECONDS, HttpServer, parse_address

from ..waiting import until

pytestmark = pytest.mark.slow  # not for `make test-fast`

TIMEOUT = 20.0


class Process:
    """What the probes ask, as a test sets it."""

    def __init__(self) -> None:
        self.health: str | None = None
        self.readiness: str | None = "not yet"
        self.registry = CollectorRegistry()
        self.server = HttpServer("127.0.0.1:0", lambda: self.health, lambda: self.readiness, self.registry)

    def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
                return reply.status, reply.headers["Content-Type"], reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    yield made
    made.server.close()


def test_a_probe_is_answered_by_what_is_so_at_that_moment(process: Process) -> None:
    assert process.get("/healthz")[::2] == (200, "ok\n")
    assert process.get("/readyz")[::2] == (503, "not yet\n")
    process.health, process.readiness = "the main loop has not turned for 61 s", None
    assert process.get("/healthz")[::2] == (503, "the main loop has not turned for 61 s\n")
    assert process.get("/readyz?verbose=1")[::2] == (200, "ok\n")


def test_metrics_are_those_of_the_registry_and_no_others(process: Process) -> None:
    Counter("made_here", "of this test", registry=process.registry).inc(3)
    status, kind, text = process.get("/metrics")
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    assert "made_here_total 3.0" in text
    assert "python_info" not in text


def test_nothing_else_is_there(process: Process, capfd: pytest.CaptureFixture[str]) -> None:
    assert process.get("/")[0] == 404
    assert process.get("/../etc/passwd")[0] == 404
    assert process.get("/healthz", "POST")[0] == 501
    assert capfd.readouterr().err == "", "probes fill no log"


def test_an_idle_caller_keeps_nobody_waiting(process: Process) -> None:
    with socket.create_connection(("127.0.0.1", process.server.port), TIMEOUT):
        assert process.get("/healthz")[0] == 200


def test_more_callers_than_can_be_answered_are_hung_up_on_until_others_leave(process: Process) -> None:
    address = ("127.0.0.1", process.server.port)
    with contextlib.ExitStack() as idle:
        for _ in range(CONNECTIONS):
            idle.enter_context(socket.create_connection(address, TIMEOUT))
        with socket.create_connection(address, REQUEST_SECONDS / 2) as beyond:
            assert beyond.recv(1) == b"", "hung up on at once, not when its time is over"
        assert threading.active_count() < CONNECTIONS + 20
    until(lambda: _answers(process), "a probe is answered again")


def _answers(process: Process) -> bool:
    try:
        return process.get("/healthz")[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("address", ["8080", "host:", "host:port", "host:70000", ""])
def test_an_address_is_host_and_port(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--http .*must be HOST:PORT"):
        parse_address(address)


def test_a_port_in_use_is_told(process: Process) -> None:
    address = f"127.0.0.1:{process.server.port}"
    with pytest.raises(ConfigurationError, match=f"--http {address}: can't listen there"):
        HttpServer(address, lambda: None, lambda: None, process.registry)
