"""Calls over real gRPC with mutual TLS: which role may make them, and what a refused one is told."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from dartes.rpc import tls
from dartes.rpc.channel import CLIENT_OPTIONS
from dartes.rpc.tls import Role
from dartes.state import RunFolder
from dartes.v1 import control_pb2, population_pb2_grpc
from dartes.v1 import population_pb2 as wire
from dartes_coordinator.store import FencedError, Store

from ..unit.coordinator.kit import plan, registration
from ..unit.coordinator.stored import fill_disk
from .grpc_kit import DEADLINE, LEAVES, ONE_LEASE, refused, run, served

FOREIGN = tls.issue()


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


# Counting ------------------------------------------------------------------------------------------


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
