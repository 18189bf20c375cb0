"""The coordinator over real gRPC with mutual TLS, in one process: roles, refusals, long polls, presence."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from dartes.errors import ConfigurationError, DartesError, ExitCode
from dartes.rpc import tls
from dartes.rpc.channel import CLIENT_OPTIONS
from dartes.rpc.tls import Role
from dartes.state import RunFolder
from dartes.v1 import control_pb2, control_pb2_grpc, population_pb2_grpc
from dartes.v1 import population_pb2 as wire
from dartes_coordinator import service as service_module
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.server import serve, start_server
from dartes_coordinator.service import TICK_SECONDS, Service
from dartes_coordinator.store import FencedError, Store

from ..unit.coordinator.kit import Clock, FakeWorker, opened, plan, registration, settings
from ..unit.coordinator.stored import fill_disk

DEADLINE = 20.0
LEAVES = tls.issue()
FOREIGN = tls.issue()
ONE_LEASE = plan(
    settings(population_size=1, iterations=2), evaluation_sizes={}, data_digests={"train": "train-digest"}
)
TWO_LEASES = plan(
    settings(population_size=2, iterations=2), evaluation_sizes={}, data_digests={"train": "train-digest"}
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


# Who may call --------------------------------------------------------------------------------------


def test_each_role_may_make_its_own_calls_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            status = await server.control().Status(control_pb2.StatusRequest(), timeout=DEADLINE)
            assert status.phase == control_pb2.PHASE_WAITING_FOR_WORKERS
            for role in (Role.WORKER, Role.COORDINATOR):
                call = server.control(role).Status(control_pb2.StatusRequest(), timeout=DEADLINE)
                code, _ = await refused(call)
                # The coordinator's own leaf is not even good for a client.
                assert code in {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE}
            stub = server.population(Role.CONTROL)
            for call in (
                stub.Register(registration("w", ONE_LEASE), timeout=DEADLINE),
                stub.Lease(wire.LeaseRequest(), timeout=DEADLINE),
                stub.Report(wire.ReportRequest(), timeout=DEADLINE),
                stub.Updates(wire.UpdatesRequest(), timeout=DEADLINE),
                stub.Attest(wire.AttestRequest(), timeout=DEADLINE),
            ):
                code, words = await refused(call)
                assert code is grpc.StatusCode.PERMISSION_DENIED
                assert "role worker" in words
            assert server.failures == []

    run(scenario)


def test_a_caller_without_a_certificate_of_the_run_is_turned_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            plain = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=CLIENT_OPTIONS)
            server.channels.append(plain)
            for channel in (plain, server.channel(None), server.channel(FOREIGN[Role.WORKER])):
                stub = population_pb2_grpc.PopulationServiceStub(channel)
                code, _ = await refused(stub.Register(registration("w", ONE_LEASE), timeout=5))
                assert code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
            assert server.coordinator.run.progress.header is None

    run(scenario)


def test_a_worker_does_not_talk_to_a_coordinator_of_another_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            channel = server.channel(LEAVES[Role.WORKER], authority=FOREIGN[Role.WORKER].authority)
            stub = population_pb2_grpc.PopulationServiceStub(channel)
            code, _ = await refused(stub.Register(registration("w", ONE_LEASE), timeout=5))
            assert code is grpc.StatusCode.UNAVAILABLE

    run(scenario)


# Refusals ------------------------------------------------------------------------------------------


def test_a_call_of_another_incarnation_is_aborted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            worker = await server.join("u")
            worker.local.incarnation = 9
            lease = wire.EvaluateLease(
                lease_id="x", kind=wire.EVALUATE_KIND_MEMBER, slices=1, problems=range(6)
            )
            for call in (
                worker.lease(),
                worker.attest(),
                worker.report(lease),
                worker.stub.Updates(wire.UpdatesRequest(incarnation=9), timeout=DEADLINE),
                worker.session(),
            ):
                code, words = await refused(call)
                assert code is grpc.StatusCode.ABORTED
                assert words == "incarnation 9 is over; this coordinator is incarnation 1"

    run(scenario)


def test_a_refused_registration_names_every_digest_that_differs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path, plan()) as server:
            await server.join("u")
            wrong = registration(
                "v",
                plan(),
                base_digest="b",
                algorithm_digest="a",
                noise_version="n",
                data=[wire.DataDigest(name="train", digest="train-digest")],
            )
            code, words = await refused(server.population().Register(wrong, timeout=DEADLINE))
            assert code is grpc.StatusCode.FAILED_PRECONDITION
            for part in ("worker v", "base model", "'held-out'", "algorithm", "noise version"):
                assert part in words
            assert "'train'" not in words
            assert server.failures == []

    run(scenario)


def test_a_report_that_does_not_fit_is_an_invalid_argument(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            worker = await server.join("u")
            lease = (await worker.lease()).evaluate
            report = worker.local.answer(lease)
            report.evaluate.passed = b""
            code, words = await refused(worker.stub.Report(report, timeout=DEADLINE))
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "bytes of bits" in words
            assert (await worker.lease()).evaluate.attempt == 2

    run(scenario)


def test_while_the_disk_is_full_a_registration_is_told_to_come_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            ledger = server.coordinator.run.ledger
            fill_disk(ledger._store)
            ledger.event("Long", "x" * 200_000)
            call = server.population().Register(registration("w", ONE_LEASE), timeout=DEADLINE)
            code, words = await refused(call)
            assert code is grpc.StatusCode.UNAVAILABLE
            assert "paused" in words
            assert "disk is full" in words
            status = await server.control().Status(control_pb2.StatusRequest(), timeout=DEADLINE)
            assert status.phase == control_pb2.PHASE_PAUSED
            assert server.failures == []

    run(scenario)


def test_a_fenced_coordinator_ends_and_answers_nothing_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            worker = await server.join("u")
            lease = (await worker.lease()).evaluate
            newer = Store.open(RunFolder(tmp_path).store)
            code, _ = await refused(worker.report(lease))
            assert code is grpc.StatusCode.UNAVAILABLE
            (error,) = server.failures
            assert isinstance(error, FencedError)
            for call in (worker.lease(), worker.attest(), worker.session()):
                code, words = await refused(call)
                assert (code, words) == (grpc.StatusCode.UNAVAILABLE, "the coordinator is going down")
            assert len(server.failures) == 1
            newer.close()

    run(scenario)


def test_a_bug_in_a_call_ends_the_process_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            worker = await server.join("u")

            def broken(*_: Any) -> None:
                raise KeyError("bug")

            monkeypatch.setattr(server.coordinator, "next_action", broken)
            assert (await refused(worker.lease()))[0] is grpc.StatusCode.UNAVAILABLE
            assert isinstance(server.failures[0], KeyError)

    run(scenario)


# Long polls and presence ---------------------------------------------------------------------------


def test_a_long_poll_wakes_up_when_an_iteration_is_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            u, v = await server.join("u"), await server.join("v")
            lease = (await u.lease()).evaluate
            waiting = asyncio.ensure_future(v.lease())
            await until(lambda: "v" in server.coordinator.workers)
            assert not waiting.done()
            assert await u.report(lease)
            reply = await waiting
            assert reply.apply.up_to_iteration == 1

    run(scenario)


def test_the_reply_to_a_report_carries_the_next_lease_where_there_is_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path, TWO_LEASES) as server:
            worker = await server.join("u")
            report = worker.local.answer((await worker.lease()).evaluate)
            question = wire.LeaseRequest(
                worker="u", incarnation=worker.local.incarnation, weights=worker.local.version()
            )
            report.next.CopyFrom(question)
            reply = await worker.stub.Report(report, timeout=DEADLINE)
            assert reply.accepted
            assert reply.next.evaluate.member == 1
            last = worker.local.answer(reply.next.evaluate)
            last.next.CopyFrom(question)
            assert (await worker.stub.Report(last, timeout=DEADLINE)).next.apply.up_to_iteration == 1

    run(scenario)


def test_a_long_poll_without_work_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "LONG_POLL_SECONDS", 0.1)

    async def scenario() -> None:
        async with served(tmp_path) as server:
            u, v = await server.join("u"), await server.join("v")
            await u.lease()
            reply = await v.lease()
            assert reply.WhichOneof("action") == "wait"
            assert reply.waited_seconds >= 0.1

    run(scenario)


def asked(server: Served, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of workers whose lease calls have arrived, as they do."""
    names: list[str] = []
    ask = server.coordinator.asked

    def noted(request: wire.LeaseRequest, now: float) -> None:
        ask(request, now)
        names.append(request.worker)

    monkeypatch.setattr(server.coordinator, "asked", noted)
    return names


def test_the_end_of_a_session_hands_its_leases_to_the_one_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "TICK_SECONDS", 1000.0)  # no tick wakes anybody up

    async def scenario() -> None:
        async with served(tmp_path) as server:
            arrived = asked(server, monkeypatch)
            u, v = await server.join("u"), await server.join("v")
            session = u.session()
            await until(lambda: any(w.sessions for w in server.coordinator.workers.connected()))
            lease = (await u.lease()).evaluate
            waiting = asyncio.ensure_future(v.lease())
            await until(lambda: "v" in arrived)
            session.cancel()
            reply = await waiting
            assert (reply.evaluate.member, reply.evaluate.attempt) == (lease.member, 2)
            assert reply.waited_seconds < 5  # long before the heartbeat would have been missed
            assert "u" not in server.coordinator.workers

    run(scenario)


def test_the_lease_call_of_one_who_is_gone_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            arrived = asked(server, monkeypatch)
            u, v = await server.join("u"), await server.join("v")
            session = v.session()
            await until(lambda: any(w.sessions for w in server.coordinator.workers.connected()))
            await u.lease()
            ghost = asyncio.ensure_future(v.lease())
            await until(lambda: "v" in arrived)
            session.cancel()
            await until(lambda: "v" not in server.coordinator.workers)
            server.coordinator.lost("u")
            server.service._notify()
            assert (await u.lease()).evaluate.attempt == 2
            assert not ghost.done()
            ghost.cancel()

    run(scenario)


def test_streams_and_long_polls_end_orderly_when_the_service_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            arrived = asked(server, monkeypatch)
            u, v = await server.join("u"), await server.join("v")
            session = v.session()
            await until(lambda: any(w.sessions for w in server.coordinator.workers.connected()))
            await u.lease()
            waiting = asyncio.ensure_future(v.lease())
            await until(lambda: "v" in arrived)
            server.service.close()
            await asyncio.wait_for(session, DEADLINE / 4)
            code, words = await refused(asyncio.wait_for(waiting, DEADLINE / 4))
            assert (code, words) == (grpc.StatusCode.UNAVAILABLE, "the coordinator is going down")
            assert server.failures == []

    run(scenario)


def test_a_slow_lease_is_offered_to_one_who_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path, TWO_LEASES) as server:
            u, v = await server.join("u"), await server.join("v")
            slow = (await v.lease()).evaluate
            assert await u.report((await u.lease()).evaluate)
            again = (await u.lease()).evaluate  # after twice the time of the first
            assert (again.member, again.attempt) == (slow.member, 2)
            assert await u.report(again)
            assert not await v.report(slow)
            assert server.coordinator.run.progress.iteration == 1

    run(scenario)


def test_payload_bytes_of_both_directions_are_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            worker = await server.join("u")
            before = server.coordinator.run.wire_bytes
            request = wire.UpdatesRequest(worker="u", incarnation=1, limit=5)
            reply = await worker.stub.Updates(request, timeout=DEADLINE)
            counted = server.coordinator.run.wire_bytes - before
            assert counted == request.ByteSize() + reply.ByteSize() > 0

    run(scenario)


# The watch -----------------------------------------------------------------------------------------


def watched(path: Path) -> tuple[Coordinator, Service, Clock]:
    coordinator, clock = opened(RunFolder(path), ONE_LEASE), Clock()

    def fail(error: Exception) -> None:
        raise error

    return coordinator, Service(coordinator, clock, fail), clock


def test_a_silent_worker_loses_its_leases(tmp_path: Path) -> None:
    async def scenario() -> None:
        coordinator, service, clock = watched(tmp_path)
        worker = FakeWorker("u", ONE_LEASE)
        worker.register(coordinator, clock())
        assert worker.ask(coordinator, clock()) is not None
        service.tick(clock.pass_by(5.0), TICK_SECONDS)
        assert "u" in coordinator.workers
        service.tick(clock.pass_by(5.0), TICK_SECONDS)
        assert "u" not in coordinator.workers
        assert coordinator.run.round.leases.reissued == 1

    run(scenario)


def test_a_pause_of_our_own_is_not_held_against_the_workers(tmp_path: Path) -> None:
    async def scenario() -> None:
        coordinator, service, clock = watched(tmp_path)
        FakeWorker("u", ONE_LEASE).register(coordinator, clock())
        service.tick(clock.pass_by(60.0), 60.0)
        assert "u" in coordinator.workers
        service.tick(clock.pass_by(TICK_SECONDS), TICK_SECONDS)
        assert "u" not in coordinator.workers

    run(scenario)


def test_an_error_of_the_watch_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "TICK_SECONDS", 0.01)

    async def scenario() -> None:
        coordinator, failures = opened(RunFolder(tmp_path), ONE_LEASE), list[Exception]()
        service = Service(coordinator, Clock(), failures.append)

        def broken(_: float) -> None:
            raise ValueError("bug")

        monkeypatch.setattr(coordinator, "retry", broken)
        await asyncio.wait_for(service.watch(), DEADLINE)  # it ends by itself
        assert [str(e) for e in failures] == ["bug"]

    run(scenario)


# The process ---------------------------------------------------------------------------------------


def exit_code_of(path: Path, then: Callable[[Coordinator], None]) -> int:
    """Serve a folder, do something as soon as it listens, and return the exit code."""
    folder, codes = RunFolder(path), []
    coordinator = opened(folder, ONE_LEASE)

    async def scenario() -> None:
        serving = asyncio.create_task(serve(coordinator, folder, "127.0.0.1:0", LEAVES[Role.COORDINATOR]))
        await until(lambda: folder.endpoint.exists() or serving.done())
        then(coordinator)
        codes.append(await serving)

    try:
        run(scenario)
    finally:
        coordinator.close()
    return codes[0]


@pytest.fixture
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "TICK_SECONDS", 0.01)


def test_sigterm_drains_the_coordinator(tmp_path: Path) -> None:
    code = exit_code_of(tmp_path, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert code == ExitCode.DRAINED


def test_the_end_of_the_run_ends_the_process(tmp_path: Path) -> None:
    def finish(coordinator: Coordinator) -> None:
        coordinator.run.done = True

    assert exit_code_of(tmp_path, finish) == ExitCode.DONE


@pytest.mark.usefixtures("quick_ticks")
@pytest.mark.parametrize(
    "error", [FencedError("newer"), ConfigurationError("yours"), DartesError("replicas differ")]
)
def test_an_expected_error_ends_the_process_with_its_code(tmp_path: Path, error: DartesError) -> None:
    def fail(coordinator: Coordinator) -> None:
        def retry(_: float) -> None:
            raise error

        coordinator.retry = retry  # type: ignore[assignment, method-assign]

    assert exit_code_of(tmp_path, fail) == error.exit_code


@pytest.mark.usefixtures("quick_ticks")
def test_a_bug_ends_the_process_with_its_traceback(tmp_path: Path) -> None:
    def fail(coordinator: Coordinator) -> None:
        coordinator.retry = None  # type: ignore[assignment, method-assign]

    with pytest.raises(TypeError):
        exit_code_of(tmp_path, fail)


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            coordinator = opened(RunFolder(tmp_path), ONE_LEASE)
            with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}.*port in use.*--port"):
                await serve(coordinator, RunFolder(tmp_path), f"127.0.0.1:{port}", LEAVES[Role.COORDINATOR])

    run(scenario)
