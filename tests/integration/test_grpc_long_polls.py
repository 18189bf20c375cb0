"""Long polls and presence over real gRPC: what wakes up a worker that waits, and what ends its calls."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from dartes.v1 import population_pb2 as wire
from dartes_coordinator import service as service_module

from .grpc_kit import DEADLINE, TWO_LEASES, Remote, Served, asked, refused, run, served, until


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


async def one_waits(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> tuple[Remote, "asyncio.Task[None]", "asyncio.Future[Any]"]:
    """`u` holds the only lease while `v` waits for one: `u`, and the presence and the lease call of `v`."""
    arrived = asked(server, monkeypatch)
    u, v = await server.join("u"), await server.join("v")
    session = v.session()
    await until(lambda: any(w.sessions for w in server.coordinator.workers.connected()))
    await u.lease()
    waiting = asyncio.ensure_future(v.lease())
    await until(lambda: "v" in arrived)
    return u, session, waiting


def test_the_lease_call_of_one_who_is_gone_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as server:
            u, session, ghost = await one_waits(server, monkeypatch)
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
            _, session, waiting = await one_waits(server, monkeypatch)
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
