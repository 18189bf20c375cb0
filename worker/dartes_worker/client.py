"""The worker's end of the wire: calls with deadlines, patience while the coordinator is away, presence.

It knows how to reach a coordinator, not what to do with its answers.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc

from dartes.errors import ConfigurationError, DartesError, TransientError
from dartes.rpc.channel import open_channel
from dartes.rpc.tls import Credentials
from dartes.v1 import population_pb2 as wire
from dartes.v1 import population_pb2_grpc

log = logging.getLogger(__name__)

CALL_SECONDS = 30.0
GIVE_UP_SECONDS = 900.0
"""How long a worker waits for a coordinator that does not answer before it exits to be started again."""

_AWAY = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}

Reply = TypeVar("Reply")


class IncarnationOverError(DartesError):
    """The coordinator has restarted; the worker has to register again."""


class ReportRefusedError(DartesError):
    """The coordinator found that a report does not fit its lease."""


class CoordinatorClient:
    """Calls to one coordinator address under one worker name."""

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        worker: str,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self.worker = worker
        self.incarnation = 0
        self._address = address
        self._clock = clock
        self._pause = pause
        self._channel = open_channel(address, credentials)
        self._stub = population_pb2_grpc.PopulationServiceStub(self._channel)
        self._waiting: grpc.Future | None = None
        self._interrupted = False
        self._presence: threading.Thread | None = None
        self._closed = threading.Event()
        self._heartbeat_seconds = 2.0

    def register(self, request: wire.RegisterRequest) -> wire.RegisterResponse:
        """Register and show presence from then on. Raises ConfigurationError where refused."""
        response: wire.RegisterResponse = self._call(self._stub.Register, request)
        self.incarnation = response.incarnation
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
            if self._interrupted:
                return None
            self._waiting = self._stub.Lease.future(request, timeout=timeout)
            try:
                response: wire.LeaseResponse = self._waiting.result()
            except grpc.FutureCancelledError:
                return None
            return response

        return self._call(call, request)

    def interrupt(self) -> None:
        """End a waiting `lease` call, now and for good; safe in a signal handler."""
        self._interrupted = True
        if self._waiting is not None:
            self._waiting.cancel()

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
        response: wire.ReportResponse = self._call(self._stub.Report, request)
        return response

    def updates(self, start: int, limit: int) -> wire.UpdatesResponse:
        """Journal rows from `start` on."""
        response: wire.UpdatesResponse = self._call(
            self._stub.Updates,
            wire.UpdatesRequest(
                worker=self.worker, incarnation=self.incarnation, from_iteration=start, limit=limit
            ),
        )
        return response

    def attest(self, weights: wire.WeightsVersion, digest: str, rebuilt: bool) -> None:
        """Tell the digest of the weights."""
        self._call(
            self._stub.Attest,
            wire.AttestRequest(
                worker=self.worker,
                incarnation=self.incarnation,
                weights=weights,
                digest=digest,
                rebuilt=rebuilt,
            ),
        )

    def close(self) -> None:
        """End presence and close the channel: the coordinator hands our leases to others at once."""
        self._closed.set()
        self._channel.close()

    def _call(self, method: Callable[..., Reply], request: Any) -> Reply:
        """Call until it answers, with bounded patience; translate refusals."""
        started = self._clock()
        wait = 0.1
        while True:
            try:
                return method(request, timeout=CALL_SECONDS)
            except grpc.RpcError as error:
                self._raise_unless_away(error)
                away = self._clock() - started
                if away > GIVE_UP_SECONDS:
                    raise TransientError(
                        f"the coordinator at {self._address} has not answered for {away:.0f} s: "
                        f"{error.details()}"
                    ) from error
                if wait == 0.1:
                    log.info(
                        "the coordinator at %s does not answer; waiting for it (%s)",
                        self._address,
                        error.details(),
                    )
                self._pause(wait)
                wait = min(2.0, wait * 2)

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
            try:
                for _ in self._stub.Session(self._beats()):
                    pass
            except grpc.RpcError as error:
                log.debug("presence stream: %s", error.code())
            self._closed.wait(0.5)

    def _beats(self) -> Iterator[wire.SessionRequest]:
        incarnation = self.incarnation
        while not self._closed.is_set() and self.incarnation == incarnation:
            yield wire.SessionRequest(worker=self.worker, incarnation=incarnation)
            self._closed.wait(self._heartbeat_seconds)
