"""A coordinator behind its real server with mutual TLS, and fake workers at the other end of channels to it.

Everything lives in one process and one event loop; the plans here are of one or two leases an iteration.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from dartes.rpc import tls
from dartes.rpc.channel import CLIENT_OPTIONS
from dartes.rpc.tls import Role
from dartes.state import RunFolder
from dartes.v1 import control_pb2_grpc, population_pb2_grpc
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.server import start_server
from dartes_coordinator.service import Service

from ..unit.coordinator.kit import FakeWorker, opened, plan, registration, settings

DEADLINE = 20.0
LEAVES = tls.issue()
ONE_LEASE = plan(
    settings(population_size=1, iterations=2), evaluation_sets={}, data_digests={"train": "train-digest"}
)
TWO_LEASES = plan(
    settings(population_size=2, iterations=2), evaluation_sets={}, data_digests={"train": "train-digest"}
)


class Served:
    """A coordinator behind its server, and stubs for each role."""

    def __init__(
        self, coordinator: Coordinator, port: int, service: Service, failures: list[Exception]
    ) -> None:
        self.coordinator, self.service, self.failures = coordinator, service, failures
        self.port = port
        self.channels: list[Any] = []

    def channel(self, credentials: tls.Credentials | None, authority: bytes | None = None) -> Any:
        made = grpc.ssl_channel_credentials(
            root_certificates=authority or LEAVES[Role.WORKER].authority,
            private_key=None if credentials is None else credentials.key,
            certificate_chain=None if credentials is None else credentials.certificate,
        )
        channel = grpc.aio.secure_channel(f"127.0.0.1:{self.port}", made, options=CLIENT_OPTIONS)
        self.channels.append(channel)
        return channel

    def population(self, role: Role = Role.WORKER) -> Any:
        return population_pb2_grpc.PopulationServiceStub(self.channel(LEAVES[role]))

    def control(self, role: Role = Role.CONTROL) -> Any:
        return control_pb2_grpc.ControlServiceStub(self.channel(LEAVES[role]))

    async def join(self, name: str, fingerprint: str = '{"engine": "fake"}') -> "Remote":
        """Register a worker."""
        remote = Remote(FakeWorker(name, self.coordinator.run.plan), self.population())
        request = registration(name, self.coordinator.run.plan, fingerprint=fingerprint)
        remote.local.incarnation = (await remote.stub.Register(request, timeout=DEADLINE)).incarnation
        remote.local.weights = self.coordinator.run.progress.hashes[0]
        await remote.attest()
        return remote


class Remote:
    """A fake worker at the other end of a channel."""

    def __init__(self, local: FakeWorker, stub: Any) -> None:
        self.local, self.stub = local, stub

    def lease(self, known_batch: int = 0) -> Any:
        """The call, to be awaited."""
        local = self.local
        request = wire.LeaseRequest(
            worker=local.name,
            incarnation=local.incarnation,
            weights=local.version(),
            known_batch=known_batch,
        )
        return self.stub.Lease(request, timeout=DEADLINE)

    async def attest(self) -> None:
        local = self.local
        request = wire.AttestRequest(
            worker=local.name, incarnation=local.incarnation, weights=local.version(), digest="same"
        )
        await self.stub.Attest(request, timeout=DEADLINE)

    async def report(self, lease: wire.EvaluateLease) -> bool:
        reply = await self.stub.Report(self.local.answer(lease), timeout=DEADLINE)
        return bool(reply.accepted)

    def session(self) -> "asyncio.Task[None]":
        """Presence until the task is cancelled."""

        async def beats() -> AsyncIterator[wire.SessionRequest]:
            yield wire.SessionRequest(worker=self.local.name, incarnation=self.local.incarnation)
            await asyncio.Event().wait()

        async def present() -> None:
            async for _ in self.stub.Session(beats()):
                pass

        return asyncio.create_task(present())


@asynccontextmanager
async def served(path: Path, run: RunPlan = ONE_LEASE) -> AsyncIterator[Served]:
    loop_clock = asyncio.get_running_loop().time
    coordinator = opened(RunFolder(path), run)
    failures: list[Exception] = []
    service = Service(coordinator, loop_clock, failures.append)
    server, port = await start_server(service, "127.0.0.1:0", LEAVES[Role.COORDINATOR])
    made = Served(coordinator, port, service, failures)
    watch = asyncio.create_task(service.watch())
    try:
        yield made
    finally:
        watch.cancel()
        for channel in made.channels:
            await channel.close()
        await server.stop(grace=None)
        coordinator.close()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 2 * DEADLINE))


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition, with a deadline."""
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0.01)


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


def asked(server: Served, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of workers whose lease calls have arrived, as they do."""
    names: list[str] = []
    ask = server.coordinator.asked

    def noted(request: wire.LeaseRequest, now: float) -> None:
        ask(request, now)
        names.append(request.worker)

    monkeypatch.setattr(server.coordinator, "asked", noted)
    return names
