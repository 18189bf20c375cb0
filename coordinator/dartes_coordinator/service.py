"""The coordinator behind gRPC: who may call what, long polls, and how errors travel.

A thin edge: it passes the clock in, waits where there is nothing to do, and turns errors into status
codes. Everything runs in one event loop, so the state machine needs no locks.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import grpc
from dartes.errors import DartesError
from dartes.rpc.tls import Role
from dartes.v1 import control_pb2, population_pb2
from google.protobuf.message import Message

from dartes_coordinator.collect import ReportError
from dartes_coordinator.coordinator import LONG_POLL_SECONDS, Coordinator, RefusedError, StaleError

log = logging.getLogger(__name__)

Reply = TypeVar("Reply")

TICK_SECONDS = 1.0


class Service:
    """Both services of one coordinator.

    Parameters
    ----------
    clock
        Monotonic seconds.
    fail
        Called with an error that ends the process: the fence, replicas that differ, a bug.
    """

    def __init__(
        self, coordinator: Coordinator, clock: Callable[[], float], fail: Callable[[BaseException], None]
    ) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._fail = fail
        self._changed = asyncio.Event()

    # PopulationService -----------------------------------------------------------------------------

    async def Register(self, request: population_pb2.RegisterRequest, context: Any) -> Message:  # noqa: N802
        """Admit a worker."""
        return await self._answer(
            request, context, Role.WORKER, lambda: self._coordinator.register(request, self._clock())
        )

    async def Session(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Message]:  # noqa: N802
        """Presence of a worker for as long as the stream lives."""
        await _require_role(context, Role.WORKER)
        name: str | None = None
        try:
            async for beat in requests:
                try:
                    self._coordinator.check_incarnation(beat.incarnation)
                except StaleError as error:
                    await context.abort(grpc.StatusCode.ABORTED, str(error))
                if name is None:
                    name = beat.worker
                    self._coordinator.workers.open_session(name, self._clock())
                self._coordinator.workers.heard(name, self._clock())
                yield population_pb2.SessionResponse()
        finally:
            if name is not None and self._coordinator.workers.close_session(name):
                self._coordinator.lost(name, self._clock())
                self._notify()

    async def Lease(self, request: population_pb2.LeaseRequest, context: Any) -> Message:  # noqa: N802
        """Long poll: answers as soon as there is something to do."""
        await _require_role(context, Role.WORKER)
        started = self._clock()
        while True:
            now = self._clock()
            changed = self._changed
            reply = await self._guard(context, lambda now=now: self._coordinator.next_action(request, now))
            left = LONG_POLL_SECONDS - (now - started)
            if reply is None and left <= 0:
                reply = population_pb2.LeaseResponse(wait=population_pb2.WaitAction())
            if reply is not None:
                reply.waited_seconds = now - started
                self._count(request, reply)
                return reply
            slow_in = self._coordinator.round.leases.next_speculation(now)
            wait = left if slow_in is None else min(left, slow_in + 0.01)
            try:
                await asyncio.wait_for(changed.wait(), wait)
            except TimeoutError:
                continue

    async def Report(self, request: population_pb2.ReportRequest, context: Any) -> Message:  # noqa: N802
        """The outcome of a lease."""
        return await self._answer(
            request,
            context,
            Role.WORKER,
            lambda: population_pb2.ReportResponse(accepted=self._coordinator.report(request, self._clock())),
        )

    async def Updates(self, request: population_pb2.UpdatesRequest, context: Any) -> Message:  # noqa: N802
        """Journal rows."""
        return await self._answer(request, context, Role.WORKER, lambda: self._coordinator.updates(request))

    async def Attest(self, request: population_pb2.AttestRequest, context: Any) -> Message:  # noqa: N802
        """A worker's weight digest."""

        def attest() -> Message:
            self._coordinator.attest(request, self._clock())
            return population_pb2.AttestResponse()

        return await self._answer(request, context, Role.WORKER, attest)

    # ControlService --------------------------------------------------------------------------------

    async def Status(self, _: control_pb2.StatusRequest, context: Any) -> Message:  # noqa: N802
        """Where the run stands."""
        await _require_role(context, Role.CONTROL)
        return self._coordinator.status()

    # Edges -----------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Notice silent workers and retry a commit that found the disk full; runs until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = self._clock()
            try:
                for worker in self._coordinator.workers.silent(now):
                    self._coordinator.lost(worker, now)
                if self._coordinator.paused is not None:
                    self._coordinator.try_commit(now)
            except DartesError as error:
                self._fail(error)
            self._notify()

    async def _answer(
        self, request: Message, context: Any, role: Role, call: Callable[[], Message]
    ) -> Message:
        await _require_role(context, role)
        reply = await self._guard(context, call)
        self._count(request, reply)
        self._notify()
        return reply

    async def _guard(self, context: Any, call: Callable[[], Reply]) -> Reply:
        try:
            return call()
        except StaleError as error:
            await context.abort(grpc.StatusCode.ABORTED, str(error))
        except ReportError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except RefusedError as error:
            log.error("refused: %s", error)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except Exception as error:  # noqa: BLE001 - the outermost edge of a call: the process ends with it
            self._fail(error)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the coordinator is going down")
        raise AssertionError("abort returns never")

    def _count(self, request: Message, reply: Message) -> None:
        self._coordinator.wire_bytes += request.ByteSize() + reply.ByteSize()

    def _notify(self) -> None:
        """Wake all long polls."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def _require_role(context: Any, role: Role) -> None:
    names = context.auth_context().get("x509_common_name", [])
    if [name.decode() for name in names] != [role.value]:
        await context.abort(
            grpc.StatusCode.PERMISSION_DENIED, f"this call is for the role {role.value}, the certificate says other"
        )
