"""Coordinators that are only a gRPC server of this host: what an operator asks, without anybody who trains.

Pods on fake nodes have no process behind their address. A job gets an address of ours for its coordinator's
pod (an annotation that the fake nodes' KWOK heeds); this host takes all of that range for its own, and a
server with the job's own certificate answers there as a real coordinator would, or is silent.
"""

import asyncio
import base64
import itertools
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import grpc
import grpc.aio

from dartes.rpc.channel import server_credentials
from dartes.rpc.tls import Credentials
from dartes.v1 import control_pb2, control_pb2_grpc
from testcluster.extras.kwok import POD_ADDRESS

from .held import Document, HeldCluster

RANGE: Final = "198.18.240.0/20"
"""Of the fake nodes' range; they themselves give their addresses from its beginning on."""
PORT: Final = 7443
ITERATIONS: Final = 1000
START_SECONDS: Final = 30.0


def address_of(number: int) -> str:
    """The address of the coordinator of this number, from 0."""
    assert 0 <= number < 3800, number
    return f"198.18.{240 + number // 250}.{1 + number % 250}"


def with_address(spec: Document, number: int) -> Document:
    """A job's spec whose coordinator's pod gets that address."""
    coordinator = spec.get("coordinator", {})
    annotations = {**coordinator.get("annotations", {}), POD_ADDRESS: address_of(number)}
    return {**spec, "coordinator": {**coordinator, "annotations": annotations}}


@dataclass
class Asked:
    """What the coordinators of a group have seen of the operator."""

    longest_patience: float = 0.0
    """The most seconds that any question allowed."""
    times: dict[str, list[float]] = field(default_factory=dict)
    """By job, when it was asked (monotonic)."""
    spans: list[tuple[float, float]] = field(default_factory=list)
    """From when to when each question was open: answered, or its time up."""

    @property
    def most_at_once(self) -> int:
        """The most questions that were open at one time."""
        # At the same moment an end comes before a beginning.
        steps = sorted([(start, 1) for start, _ in self.spans] + [(end, -1) for _, end in self.spans])
        return max(itertools.accumulate((step for _, step in steps), initial=0))

    def longest_pause(self, since: float, until: float) -> float:
        """The longest time between two questions to any of the jobs."""
        pauses = [0.0]
        for times in self.times.values():
            inside = [since, *(moment for moment in times if since <= moment <= until), until]
            pauses += [after - before for before, after in itertools.pairwise(inside)]
        return max(pauses)


class Coordinator(control_pb2_grpc.ControlServiceServicer):
    """One of them: commits an iteration every few seconds, or says nothing at all."""

    def __init__(self, job: str, asked: Asked, seconds_per_iteration: float | None) -> None:
        self._job = job
        self._asked = asked
        self._seconds = seconds_per_iteration
        self._began = time.monotonic()

    async def Status(  # noqa: N802 - the name is the protocol's
        self, _request: Any, context: Any
    ) -> control_pb2.StatusResponse:
        asked, now, allowed = self._asked, time.monotonic(), context.time_remaining()
        asked.times.setdefault(self._job, []).append(now)
        asked.longest_patience = max(asked.longest_patience, allowed)
        try:
            if self._seconds is None:
                await asyncio.Event().wait()  # until the caller has had enough
            return self._answer(self._seconds or 1.0)
        finally:
            # That it has had enough is heard here a little later.
            asked.spans.append((now, min(time.monotonic(), now + allowed)))

    def _answer(self, seconds: float) -> control_pb2.StatusResponse:
        iteration = 1 + int((time.monotonic() - self._began) / seconds)
        return control_pb2.StatusResponse(
            phase=control_pb2.PHASE_RUNNING,
            incarnation=1,
            iteration=iteration,
            total_iterations=ITERATIONS,
            train_pass_rate=round(iteration / ITERATIONS, 4),
            last_iteration_seconds=seconds,
            estimated_remaining_seconds=seconds * (ITERATIONS - iteration),
            workers_connected=4,
            workers_caught_up=4,
            journal_hash=f"{iteration:064x}",
            weight_digest=f"{iteration:032x}",
            stages=1,
        )


class StandInCoordinators:
    """Serves them from a thread of its own; the host's route to them goes when it ends."""

    def __init__(self, cluster: HeldCluster) -> None:
        self._cluster = cluster
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="coordinators", daemon=True)
        self._servers: list[grpc.aio.Server] = []

    def __enter__(self) -> Self:
        _ip("route", "replace", "local", RANGE, "dev", "lo")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        _ip("route", "del", "local", RANGE, "dev", "lo")

    def serve(
        self, namespace: str, job: str, number: int, asked: Asked, seconds_per_iteration: float | None
    ) -> None:
        """Answer for a job whose Secrets are there, at the address of `number`; None is silence."""
        secret = self._cluster.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{job}-tls-coordinator")
        parts = [base64.b64decode(secret["data"][name]) for name in ("ca.crt", "tls.crt", "tls.key")]
        coordinator = Coordinator(job, asked, seconds_per_iteration)

        async def start() -> None:
            server = grpc.aio.server()
            control_pb2_grpc.add_ControlServiceServicer_to_server(coordinator, server)
            server.add_secure_port(f"{address_of(number)}:{PORT}", server_credentials(Credentials(*parts)))
            await server.start()
            self._servers.append(server)

        self._run(start)

    async def _stop(self) -> None:
        for server in self._servers:
            await server.stop(None)

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run_coroutine_threadsafe(work(), self._loop).result(START_SECONDS)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
