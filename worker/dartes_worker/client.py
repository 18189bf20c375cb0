"""The worker's end of the wire: calls with deadlines, patience while the coordinator is away, presence.

It knows how to reach a coordinator, not what to do with its answers.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc

from dartes.errors import ConfigurationError, DartesError, DrainedError
from dartes.rpc.channel import open_channel
from dartes.rpc.tls import Credentials
from dartes.v1 import population_pb2 as wire
from dartes.v1 import population_pb2_grpc
from dartes_worker.observer import Observer

log = logging.getLogger(__name__)

CALL_SECONDS = 30.0
RENEW_SECONDS = 10.0
"""After how long a channel that gets no answer is opened anew: one that could not resolve the coordinator's
name asks again only after a back-off that grows to minutes.
"""

LAST_REPORT_SECONDS = 5.0
"""How long a worker that leaves still tries to report: a coordinator that has restarted would not take it."""

SAY_EVERY_SECONDS = 60.0
"""How often a worker says that it is still waiting for a coordinator that does not answer.

It waits for ever: starting again would only cost it the model that it has loaded.
"""

TROUBLE_CHARACTERS = 1000
"""Most that is shown of why a worker can't go on."""

_AWAY = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,  # by a server that stops
}

Reply = TypeVar("Reply")


class IncarnationOverError(DartesError):
    """The coordinator has restarted; the worker has to register again."""


class ReportRefusedError(DartesError):
    """The coordinator found that a report does not fit its lease."""


class InterruptedWaitError(DrainedError):
    """`interrupt` was called while the coordinator was away."""


class CoordinatorClient:
    """Calls to one coordinator address under one worker name."""

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        worker: str,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] | None = None,
        observer: Observer | None = None,
        registered: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.worker = worker
        self.incarnation = 0
        self._address = address
        self._clock = clock
        self._interrupted = threading.Event()
        self._pause = pause or self._rest
        self._observer = observer or Observer()
        self._registered = registered
        self._credentials = credentials
        self._open()
        self._waiting: grpc.Future | None = None
        self._presence: threading.Thread | None = None
        self._closed = threading.Event()
        self._beat_now = threading.Event()
        self._trouble = ""
        self._over: tuple[int, str] | None = None
        """An incarnation that presence was refused under, and the coordinator's words."""
        self._heartbeat_seconds = 2.0

    def register(self, request: wire.RegisterRequest) -> wire.RegisterResponse:
        """Register and show presence from then on. Raises ConfigurationError where refused."""
        response: wire.RegisterResponse = self._call(self._method("Register"), request)
        self.incarnation = response.incarnation
        self._registered(response.incarnation)
        self._observer.registered(response.incarnation)
        self._heartbeat_seconds = response.heartbeat_seconds
        if self._presence is None:
            self._presence = threading.Thread(target=self._be_present, name="presence", daemon=True)
            self._presence.start()
        return response

    def question(self, weights: wire.WeightsVersion, known_batch: int) -> wire.LeaseRequest:
        """The question for the next thing to do, to be asked alone or with a report."""
        return wire.LeaseRequest(
            worker=self.worker, incarnation=self.incarnation, weights=weights, known_batch=known_batch
        )

    def lease(self, weights: wire.WeightsVersion, known_batch: int) -> wire.LeaseResponse | None:
        """The next thing to do; None where `interrupt` cut the wait short."""
        request = self.question(weights, known_batch)

        def call(request: wire.LeaseRequest, timeout: float) -> wire.LeaseResponse | None:
            if self._interrupted.is_set():
                return None
            self._waiting = self._stub.Lease.future(request, timeout=timeout)
            if self._interrupted.is_set():  # in between: nobody has seen this call to cancel it
                self._waiting.cancel()
            try:
                response: wire.LeaseResponse = self._waiting.result()
            except grpc.FutureCancelledError:
                return None
            return response

        return self._call(call, request)

    def interrupt(self) -> None:
        """End a waiting `lease` call, now and for good, and every wait for an absent coordinator.

        But one: what has been worked out is still reported. May be called from another thread.
        """
        self._interrupted.set()
        waiting = self._waiting
        if waiting is not None:
            waiting.cancel()

    def report(
        self, lease_id: str, iteration: int, timings: wire.Timings, **result: Any
    ) -> wire.ReportResponse:
        """Report `evaluate=` or `snapshot=`. Raises ReportRefusedError where it does not fit."""
        request = wire.ReportRequest(
            worker=self.worker,
            incarnation=self.incarnation,
            lease_id=lease_id,
            iteration=iteration,
            timings=timings,
            **result,
        )
        response: wire.ReportResponse = self._call(self._method("Report"), request, last=True)
        return response

    def updates(self, start: int, limit: int) -> wire.UpdatesResponse:
        """Journal rows from `start` on."""
        response: wire.UpdatesResponse = self._call(
            self._method("Updates"),
            wire.UpdatesRequest(
                worker=self.worker, incarnation=self.incarnation, from_iteration=start, limit=limit
            ),
        )
        return response

    def attest(self, weights: wire.WeightsVersion, digest: str, rebuilt: bool) -> None:
        """Tell the digest of the weights."""
        self._call(
            self._method("Attest"),
            wire.AttestRequest(
                worker=self.worker,
                incarnation=self.incarnation,
                weights=weights,
                digest=digest,
                rebuilt=rebuilt,
            ),
        )

    def require_current(self) -> None:
        """Raise IncarnationOverError where presence was refused since the coordinator has restarted.

        For whoever waits for something else: a call would have been told so too.
        """
        over = self._over
        if over is not None and over[0] == self.incarnation:
            raise IncarnationOverError(over[1])

    def tell_trouble(self, text: str) -> None:
        """Show from now on, with our presence, why we can't go on, or "" when we can; from any thread."""
        self._trouble = text[:TROUBLE_CHARACTERS]
        self._beat_now.set()

    def close(self) -> None:
        """End presence and close the channel: the coordinator hands our leases to others at once."""
        self._closed.set()
        self._beat_now.set()
        self._channel.close()

    def _open(self) -> None:
        self._channel = open_channel(self._address, self._credentials)
        self._stub = population_pb2_grpc.PopulationServiceStub(self._channel)

    def _renew(self) -> None:
        """Open the channel anew; what still waits on the old one ends as cancelled."""
        old = self._channel
        self._open()
        old.close()

    def _method(self, name: str) -> Callable[..., Any]:
        """A call by its name, on whatever channel is the present one when it is made."""

        def call(request: Any, timeout: float) -> Any:
            return getattr(self._stub, name)(request, timeout=timeout)

        return call

    def _call(self, method: Callable[..., Reply], request: Any, last: bool = False) -> Reply:
        """Call until it answers, however long the coordinator is away; translate refusals.

        Raises
        ------
        InterruptedWaitError
            `interrupt` was called meanwhile; a `last` call is still tried for a few seconds.
        """
        started = self._clock()
        renewed, say_at, wait = started, started, 0.1
        while True:
            try:
                reply = method(request, timeout=CALL_SECONDS)
            except grpc.RpcError as error:
                self._raise_unless_away(error)
                now = self._clock()
                if self._interrupted.is_set() and (not last or now - started > LAST_REPORT_SECONDS):
                    raise InterruptedWaitError(f"told to leave, {self._address} does not answer") from error
                if now >= say_at:
                    since = "" if say_at == started else f" since {now - started:.0f} s"
                    log.info(
                        "the coordinator at %s does not answer%s; waiting for it (%s)",
                        self._address,
                        since,
                        error.details(),
                    )
                    say_at = now + SAY_EVERY_SECONDS
                if now - renewed >= RENEW_SECONDS:
                    renewed = now
                    self._renew()
                self._pause(wait)
                wait = min(2.0, wait * 2)
                continue
            if say_at > started:
                log.info(
                    "the coordinator at %s answers again after %.0f s", self._address, self._clock() - started
                )
            return reply

    def _rest(self, seconds: float) -> None:
        """Do nothing for a while, which an interrupt ends."""
        (self._closed if self._interrupted.is_set() else self._interrupted).wait(seconds)

    def _raise_unless_away(self, error: grpc.RpcError) -> None:
        code, details = error.code(), error.details()
        if code in _AWAY:
            return
        if code is grpc.StatusCode.ABORTED:
            raise IncarnationOverError(details) from error
        if code is grpc.StatusCode.INVALID_ARGUMENT:
            raise ReportRefusedError(details) from error
        if code in {grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.PERMISSION_DENIED}:
            raise ConfigurationError(details) from error
        raise error

    def _be_present(self) -> None:
        """Keep a presence stream open; a broken one is opened again under the present incarnation."""
        while not self._closed.is_set():
            incarnation = self.incarnation
            try:
                for _ in self._stub.Session(self._beats()):
                    self._observer.heard()
            except grpc.RpcError as error:
                log.debug("presence stream: %s", error.code())
                if error.code() is grpc.StatusCode.ABORTED:
                    self._over = (incarnation, str(error.details()))
            except ValueError as error:
                log.debug("presence stream: %s", error)  # the channel was closed just before
            self._observer.parted()
            self._closed.wait(0.5)

    def _beats(self) -> Iterator[wire.SessionRequest]:
        incarnation = self.incarnation
        while not self._closed.is_set() and self.incarnation == incarnation:
            yield wire.SessionRequest(worker=self.worker, incarnation=incarnation, trouble=self._trouble)
            self._beat_now.wait(self._heartbeat_seconds)
            if not self._closed.is_set():
                self._beat_now.clear()
