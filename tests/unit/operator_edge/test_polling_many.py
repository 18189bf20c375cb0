"""Asking many coordinators: at most twenty at once, two seconds each, and nobody waits for the silent."""

import asyncio
import base64
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import grpc.aio
import pytest

from dartes.rpc import tls
from dartes.rpc.channel import server_credentials
from dartes.v1 import control_pb2, control_pb2_grpc
from dartes_operator import progress
from dartes_operator.api import Api
from dartes_operator.cache import Cache
from dartes_operator.certificates import ROLES, issue_certificates
from dartes_operator.kinds import Key
from dartes_operator.plan.types import IssueCertificates
from dartes_operator.progress import AT_ONCE, SELDOM_SECONDS, SILENT_AT_ONCE, ProgressPoller

from .kit import JOB_UID, NAMESPACE, FakeServer, job, owned, with_server

TIME = datetime(2030, 1, 1, tzinfo=UTC)
SILENT, ANSWERING = "127.0.0.2", "127.0.0.1"
WAIT_SECONDS = 20.0


class Coordinators(control_pb2_grpc.ControlServiceServicer):
    """Stands for all coordinators at one address: silent for as long as it is told to be."""

    def __init__(self, *, silent: bool) -> None:
        self.speak = asyncio.Event()
        self.asked = 0
        self.now = 0
        self.most = 0
        self.patience: list[float] = []
        if not silent:
            self.speak.set()

    async def Status(  # noqa: N802 - the name is the protocol's
        self, _request: Any, context: Any
    ) -> control_pb2.StatusResponse:
        self.asked += 1
        self.now += 1
        self.most = max(self.most, self.now)
        self.patience.append(context.time_remaining())
        try:
            await self.speak.wait()
        finally:
            self.now -= 1
        return control_pb2.StatusResponse(
            phase=control_pb2.PHASE_RUNNING,
            iteration=3,
            total_iterations=20,
            estimated_remaining_seconds=99,
        )


class Crowd:
    """A poller of many jobs, whose coordinators are at the silent or at the answering address."""

    def __init__(self, api: Api, port: int, silent: Coordinators, answering: Coordinators, mark: str) -> None:
        self.cache = Cache()
        self.silent = silent
        self.answering = answering
        self.time = 0.0
        self.woken: list[Key] = []
        self.poller = ProgressPoller(
            api, self.cache, self.woken.append, lambda: self.time, lambda: TIME, port
        )
        self._mark = mark

    def add(self, name: str, address: str) -> None:
        """A running job."""
        self.cache.put(job(name, uid=f"uid-{name}"))
        pod = owned(
            "Pod",
            f"{name}-coordinator",
            uid=f"uid-{name}",
            job=name,
            labels={"dartes.dev/role": "coordinator"},
            annotations={"dartes.dev/authority": self._mark},
            resourceVersion="5",
        )
        self.cache.put({**pod, "status": {"phase": "Running", "podIP": address}})


async def until(condition: Callable[[], bool], what: str) -> None:
    """Let the other side run until the condition holds."""
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {WAIT_SECONDS:.0f} s: {what}") from None


Script = Callable[[Crowd], Coroutine[Any, Any, None]]


def play(script: Script) -> None:
    """Run a script against two listeners of one port, with the same certificates for all jobs."""
    server = FakeServer()

    async def scenario(api: Api) -> None:
        roles = {role: owned("Secret", f"sums-tls-{role}")["metadata"] for role in ROLES}
        mark = await issue_certificates(api, IssueCertificates(roles, ()), JOB_UID)
        folder = f"/api/v1/namespaces/{NAMESPACE}/secrets"
        stored = server.objects[f"{folder}/sums-tls-coordinator"]["data"]
        for name in [*(f"silent-{number}" for number in range(60)), "zeal"]:
            server.objects[f"{folder}/{name}-tls-operator"] = server.objects[f"{folder}/sums-tls-operator"]
        parts = [base64.b64decode(stored[name]) for name in ("ca.crt", "tls.crt", "tls.key")]
        credentials = server_credentials(tls.Credentials(*parts))
        listeners, port = [], 0
        coordinators = Coordinators(silent=True), Coordinators(silent=False)
        for address, stands_for in zip((SILENT, ANSWERING), coordinators, strict=True):
            listener = grpc.aio.server()
            control_pb2_grpc.add_ControlServiceServicer_to_server(stands_for, listener)
            port = listener.add_secure_port(f"{address}:{port}", credentials)
            await listener.start()
            listeners.append(listener)
        crowd = Crowd(api, port, *coordinators, mark)
        try:
            await script(crowd)
        finally:
            polling = asyncio.create_task(crowd.poller.run())
            await asyncio.sleep(0)
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
            for listener in listeners:
                await listener.stop(None)

    with_server(server, scenario)


def test_at_most_twenty_coordinators_are_asked_at_once_and_each_gets_two_seconds() -> None:
    async def script(crowd: Crowd) -> None:
        for number in range(50):
            crowd.add(f"silent-{number}", SILENT)
        await crowd.poller.start()
        await until(lambda: crowd.silent.now == AT_ONCE, "twenty are being asked")
        # One that is being asked, or waits for its turn, is not asked twice.
        crowd.time += 60
        await crowd.poller.start()
        crowd.silent.speak.set()
        await until(lambda: len(crowd.woken) == 50, "all have answered")
        assert crowd.silent.asked == 50
        assert crowd.silent.most == AT_ONCE == 20
        # On the wire a time-out is rounded up.
        assert max(crowd.silent.patience) < 2.02

    play(script)


def test_a_coordinator_that_answers_does_not_wait_for_those_that_are_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def script(crowd: Crowd) -> None:
        for number in range(60):
            crowd.add(f"silent-{number}", SILENT)
        crowd.add("zeal", ANSWERING)
        monkeypatch.setattr(progress, "TIMEOUT_SECONDS", 0.3)
        await crowd.poller.tick()
        assert crowd.answering.asked == 1
        # Now they keep their places for longer than this test takes.
        monkeypatch.setattr(progress, "TIMEOUT_SECONDS", 600.0)
        crowd.silent.most = 0
        for asked in (2, 3):
            crowd.time += SELDOM_SECONDS
            await crowd.poller.start()
            await until(lambda: crowd.silent.now == SILENT_AT_ONCE, "the silent have their places")
            await until(lambda wanted=asked: crowd.answering.asked == wanted, "the other is asked")  # type: ignore[misc]
        assert crowd.silent.most == SILENT_AT_ONCE < AT_ONCE

    play(script)


def test_a_coordinator_that_goes_while_it_is_asked_leaves_its_place_to_the_next() -> None:
    async def script(crowd: Crowd) -> None:
        for number in range(AT_ONCE):
            crowd.add(f"silent-{number}", SILENT)
        await crowd.poller.start()
        await until(lambda: crowd.silent.now == AT_ONCE, "all places are taken")
        for _, gone in crowd.cache.jobs():
            crowd.cache.remove(gone)
        crowd.add("zeal", ANSWERING)
        await crowd.poller.start()
        await until(lambda: crowd.answering.asked == 1, "the next is asked")
        await until(lambda: crowd.silent.now == 0, "nobody waits for those that are gone")

    play(script)
