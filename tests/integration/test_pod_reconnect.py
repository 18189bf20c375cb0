"""A worker's channel when its coordinator goes away: by closing, and without a word as with a lost node.

Real channels with mutual TLS to a scripted coordinator, through a relay that a test can make vanish.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from dartes.rpc import tls
from dartes.rpc.channel import SERVER_OPTIONS, server_credentials
from dartes.rpc.tls import Role
from dartes.v1 import population_pb2 as wire
from dartes.v1 import population_pb2_grpc
from dartes_worker.client import CoordinatorClient, IncarnationOverError
from dartes_worker.observer import Observer

from ..waiting import until

LEAVES = tls.issue()
NOTICED_SECONDS = 20.0
"""Keepalive asks after 10 s of silence and waits 10 s for the answer."""

BACK_SECONDS = 7.0
"""Back-off of at most 2 s, and some for a busy machine; all of it below the 30 s that any call may take."""


class Scripted(population_pb2_grpc.PopulationServiceServicer):
    """A coordinator of one incarnation that has nothing to do for anybody."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.asked = threading.Event()
        self.over = threading.Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(8), options=SERVER_OPTIONS)
        population_pb2_grpc.add_PopulationServiceServicer_to_server(self, self._server)
        self.port: int = self._server.add_secure_port(
            "127.0.0.1:0", server_credentials(LEAVES[Role.COORDINATOR])
        )
        self._server.start()

    def Register(self, _: Any, __: Any) -> Any:  # noqa: N802
        return wire.RegisterResponse(incarnation=self.incarnation, heartbeat_seconds=0.2)

    def Session(self, requests: Any, context: Any) -> Any:  # noqa: N802
        for beat in requests:
            if beat.incarnation != self.incarnation:
                context.abort(grpc.StatusCode.ABORTED, "of another incarnation")
            yield wire.SessionResponse()

    def Lease(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.incarnation != self.incarnation:
            context.abort(grpc.StatusCode.ABORTED, f"this is incarnation {self.incarnation}")
        self.asked.set()
        self.over.wait(120.0)
        return wire.LeaseResponse(wait=wire.WaitAction())

    def close(self) -> None:
        self.over.set()
        self._server.stop(grace=0)


class Relay:
    """An address that leads to one coordinator or another, as a Service's does."""

    def __init__(self, port: int) -> None:
        self.target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._swallowing = threading.Event()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def vanish(self, target: int) -> None:
        """Nothing of the present connections arrives any more, nor are they closed; new ones go elsewhere."""
        self._swallowing.set()
        self._swallowing = threading.Event()
        self.target = target

    def cut(self, target: int) -> None:
        """Close the present connections; new ones go elsewhere."""
        self.target = target
        for one in self._open:
            with contextlib.suppress(OSError):  # the other end has gone first
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target))
            self._open += [near, far]
            swallowing = self._swallowing
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(source, sink, swallowing), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket, swallowing: threading.Event) -> None:
    try:
        while data := source.recv(65_536):
            if not swallowing.is_set():
                sink.sendall(data)
        if not swallowing.is_set():
            sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Slow:
    """An address whose far end takes its time before its first word, as a starved or besieged one does."""

    def __init__(self, port: int, seconds: float) -> None:
        self._target, self._seconds = port, seconds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._over.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=_pass_on, args=(near, far, self._over), daemon=True).start()
            threading.Thread(target=self._answer, args=(far, near), daemon=True).start()

    def _answer(self, far: socket.socket, near: socket.socket) -> None:
        self._over.wait(self._seconds)
        _pass_on(far, near, self._over)


class Presence(Observer):
    """Whether the presence stream is heard of."""

    def __init__(self) -> None:
        self.present = False

    def heard(self) -> None:
        self.present = True

    def parted(self) -> None:
        self.present = False


class Scene:
    """Two coordinators, one after the other, an address and a worker's client in a long poll."""

    def __init__(self) -> None:
        self.first, self.second = Scripted(1), Scripted(2)
        self.relay = Relay(self.first.port)
        self.presence = Presence()
        self.client = CoordinatorClient(
            f"localhost:{self.relay.port}", LEAVES[Role.WORKER], "worker-0", observer=self.presence
        )
        self.client.register(wire.RegisterRequest())
        self.refusals: list[tuple[float, str]] = []
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()
        assert self.first.asked.wait(20.0)
        until(lambda: self.presence.present, "the presence stream answers", 20.0)

    def _ask(self) -> None:
        while True:
            try:
                self.client.lease(wire.WeightsVersion(), 0)
            except IncarnationOverError as error:
                self.refusals.append((time.monotonic(), str(error)))
                return
            except (grpc.RpcError, ValueError):
                return  # the channel is closed: the test is over

    def until_refused(self, seconds: float) -> float:
        """Wait until the second coordinator has answered; returns when it had."""
        until(lambda: self.refusals, "the next coordinator's answer", seconds)
        at, words = self.refusals[0]
        assert words == "this is incarnation 2"
        return at

    def close(self) -> None:
        self.client.close()
        self.first.close()
        self.second.close()
        self.relay.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.close()


def test_a_closed_connection_is_replaced_within_seconds(scene: Scene) -> None:
    scene.relay.cut(scene.second.port)
    scene.until_refused(BACK_SECONDS)
    scene.client.register(wire.RegisterRequest())
    until(lambda: scene.presence.present, "presence under the next coordinator", BACK_SECONDS)


def test_a_handshake_that_takes_seconds_is_waited_for() -> None:
    coordinator = Scripted(1)
    slow = Slow(coordinator.port, 3.0)
    client = CoordinatorClient(f"localhost:{slow.port}", LEAVES[Role.WORKER], "worker-0")
    answers: list[int] = []
    asking = threading.Thread(
        target=lambda: answers.append(client.register(wire.RegisterRequest()).incarnation), daemon=True
    )
    asking.start()
    try:
        until(lambda: answers, "the coordinator admits the worker", 20.0)
        assert slow.connections == 1, "cut off and begun again, none would ever come to its end"
    finally:
        client.interrupt()
        asking.join(20.0)
        client.close()
        slow.close()
        coordinator.close()


@pytest.mark.slow
def test_a_coordinator_that_vanishes_without_a_word_is_noticed_by_keepalive(scene: Scene) -> None:
    began = time.monotonic()
    scene.relay.vanish(scene.second.port)
    scene.until_refused(NOTICED_SECONDS + BACK_SECONDS)
    assert time.monotonic() - began > 5.0, "the long poll had really been cut off"
    assert not scene.first.over.is_set()
    scene.client.register(wire.RegisterRequest())
    until(lambda: scene.presence.present, "presence under the next coordinator", NOTICED_SECONDS)
