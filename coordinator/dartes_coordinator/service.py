"""The coordinator behind gRPC: who may call what, long polls, and how errors travel.

A thin edge: it passes the clock in, waits where there is nothing to do, and turns errors into status
codes. Everything runs in one event loop, so the state machine needs no locks.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import Message

from dartes.rpc.tls import Role
from dartes.v1 import control_pb2, population_pb2
from dartes_coordinator.coordinator import LONG_POLL_SECONDS, Coordinator
from dartes_coordinator.errors import RefusedError, ReportError, StaleError
from dartes_coordinator.full_disk import UnwritableError
from dartes_coordinator.observer import Observer

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
        Called, once, with an error that ends the process: the fence, replicas that differ, a bug. From then
        on every call is turned away: nothing may be decided by a coordinator that is no longer sure.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        clock: Callable[[], float],
        fail: Callable[[Exception], None],
        observer: Observer | None = None,
    ) -> None:
        self._observer = observer or Observer()
        self._coordinator = coordinator
        self._clock = clock
        self._fail = fail
        self._failed = False
        self._closing = asyncio.Event()
        self._changed = asyncio.Event()

    # PopulationService -----------------------------------------------------------------------------

    async def Register(self, request: population_pb2.RegisterRequest, context: Any) -> Message:  # noqa: N802
        """Admit a worker."""
        return await self._answer(
            request, context, lambda: self._coordinator.register(request, self._clock())
        )

    async def Session(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Message]:  # noqa: N802
        """Presence of a worker for as long as the stream lives."""
        await self._require_role(context, Role.WORKER)
        workers = self._coordinator.workers
        session, name = workers.open_session(), None
        try:
            async for beat in self._until_closing(requests):
                check = partial(self._coordinator.check_incarnation, beat.incarnation)
                await self._guard(context, check)
                name = beat.worker
                workers.beat(name, session, self._clock(), beat.trouble)
                yield population_pb2.SessionResponse()
        finally:
            if name is not None and workers.close_session(name, session):
                self._coordinator.lost(name)
                self._notify()

    async def Lease(self, request: population_pb2.LeaseRequest, context: Any) -> Message:  # noqa: N802
        """Long poll: answers as soon as there is something to do."""
        await self._require_role(context, Role.WORKER)
        started = now = self._clock()
        await self._guard(context, partial(self._coordinator.asked, request, now))
        while True:
            changed = self._changed
            reply = await self._guard(context, partial(self._coordinator.next_action, request, now))
            left = LONG_POLL_SECONDS - (now - started)
            if reply is None and left <= 0:
                reply = population_pb2.LeaseResponse(wait=population_pb2.WaitAction())
            if reply is not None:
                reply.waited_seconds = now - started
                self._count(request, reply)
                return reply
            slow_in = self._coordinator.next_speculation(request.worker, now)
            wait = left if slow_in is None else min(left, slow_in + 0.01)
            with suppress(TimeoutError):  # then it is time to look again all the same
                await asyncio.wait_for(changed.wait(), wait)
            now = self._clock()

    async def Report(self, request: population_pb2.ReportRequest, context: Any) -> Message:  # noqa: N802
        """The outcome of a lease."""

        def report() -> Message:
            now = self._clock()
            response = population_pb2.ReportResponse(accepted=self._coordinator.report(request, now))
            if response.accepted and not request.HasField("snapshot"):
                self._coordinator.workers.filled()
            if request.HasField("next"):
                self._coordinator.asked(request.next, now)
                action = self._coordinator.next_action(request.next, now)
                if action is not None:
                    response.next.CopyFrom(action)
            return response

        return await self._answer(request, context, report)

    async def Updates(self, request: population_pb2.UpdatesRequest, context: Any) -> Message:  # noqa: N802
        """Journal rows."""
        return await self._answer(request, context, lambda: self._coordinator.updates(request))

    async def Attest(self, request: population_pb2.AttestRequest, context: Any) -> Message:  # noqa: N802
        """A worker's weight digest."""

        def attest() -> Message:
            self._coordinator.attest(request, self._clock())
            return population_pb2.AttestResponse()

        return await self._answer(request, context, attest)

    # ControlService --------------------------------------------------------------------------------

    async def Status(self, _: control_pb2.StatusRequest, context: Any) -> Message:  # noqa: N802
        """Where the run stands."""
        await self._require_role(context, Role.CONTROL)
        return await self._guard(context, self._coordinator.status)

    # Edges -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """End what waits, streams and long polls: a server that has to cancel them logs each as an error."""
        self._closing.set()
        self._notify()

    async def _until_closing(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        closing = asyncio.create_task(self._closing.wait())
        following = asyncio.ensure_future(_next(requests))
        try:
            while True:
                await asyncio.wait({following, closing}, return_when=asyncio.FIRST_COMPLETED)
                if not following.done() or following.result() is None:
                    return
                yield following.result()
                following = asyncio.ensure_future(_next(requests))
        finally:
            closing.cancel()
            following.cancel()

    async def watch(self) -> None:
        """Notice silent workers and retry a commit that found the disk full; runs until cancelled."""
        before = self._clock()
        while not self._failed:
            await asyncio.sleep(TICK_SECONDS)
            now = self._clock()
            try:
                self.tick(now, now - before)
            except Exception as error:  # noqa: BLE001 - the outermost edge: the process ends with it
                self._end(error)
            before = now

    def tick(self, now: float, since_last: float) -> None:
        """What `watch` does each time; `since_last` is how many seconds ago it did so."""
        # After a pause of our own (a slow disk, a stopped machine) the beats of that time are still unread.
        if since_last < 2 * TICK_SECONDS:
            for worker in self._coordinator.workers.silent(now):
                self._coordinator.lost(worker)
        self._coordinator.retry(now)
        self._tell_of_trouble()
        self._observer.turned(self._coordinator.run)
        self._notify()

    def _tell_of_trouble(self) -> None:
        """Record, once each, that workers can't go on and that they can again."""
        news = self._coordinator.workers.turn()
        if news is not None:
            reason = "RewardUnavailable" if news else "RewardAvailable"
            self._coordinator.run.ledger.event(reason, news or "rewards come again")

    async def _answer(self, request: Message, context: Any, call: Callable[[], Message]) -> Message:
        await self._require_role(context, Role.WORKER)
        reply = await self._guard(context, call)
        self._count(request, reply)
        self._notify()
        return reply

    async def _guard(self, context: Any, call: Callable[[], Reply]) -> Reply:
        if self._failed or self._closing.is_set():
            await self._abort(context, grpc.StatusCode.UNAVAILABLE, "the coordinator is going down")
        try:
            return call()
        except StaleError as error:
            await self._abort(context, grpc.StatusCode.ABORTED, str(error))
        except ReportError as error:
            await self._abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except RefusedError as error:
            log.error("refused: %s", error)
            await self._abort(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except UnwritableError as error:
            # The run is paused, and the caller comes again.
            await self._abort(context, grpc.StatusCode.UNAVAILABLE, f"paused: {error}")
        except Exception as error:  # noqa: BLE001 - the outermost edge of a call: the process ends with it
            self._end(error)
            await self._abort(context, grpc.StatusCode.UNAVAILABLE, "the coordinator is going down")

    async def _require_role(self, context: Any, role: Role) -> None:
        names = context.auth_context().get("x509_common_name", [])
        if [name.decode() for name in names] != [role.value]:
            await self._abort(
                context,
                grpc.StatusCode.PERMISSION_DENIED,
                f"this call is for the role {role.value}, the certificate says other",
            )

    async def _abort(self, context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
        self._observer.refused(code.name)
        await context.abort(code, text)
        raise AssertionError("abort never returns")

    def _end(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            self._fail(error)

    def _count(self, request: Message, reply: Message) -> None:
        self._coordinator.run.wire_bytes += request.ByteSize() + reply.ByteSize()

    def _notify(self) -> None:
        """Wake all long polls."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def _next(requests: AsyncIterator[Any]) -> Any:
    """The next request of a stream; None at its end."""
    return await anext(requests, None)
