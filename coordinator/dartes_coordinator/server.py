"""One coordinator as a process serves it: its gRPC server, until the run is done, drained or failed."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from typing import Any

import grpc

from dartes.errors import ConfigurationError, ExitCode
from dartes.rpc.channel import SERVER_OPTIONS, server_credentials
from dartes.rpc.tls import Credentials
from dartes.state import RunFolder
from dartes.v1 import control_pb2_grpc, population_pb2_grpc
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.full_disk import full_disk_named
from dartes_coordinator.observer import Observer
from dartes_coordinator.service import Service

log = logging.getLogger(__name__)

DONE_POLL_SECONDS = 0.2
"""How soon a finished run is noticed."""

LINGER_SECONDS = 15.0
"""How long a finished coordinator waits for workers to hear that the run is done."""

STOP_SECONDS = 0.5
"""How long calls under way may take to end when the server stops."""


async def start_server(service: Service, address: str, credentials: Credentials) -> tuple[Any, int]:
    """A started gRPC server and the port it listens on; port 0 in `address` takes a free one.

    Raises
    ------
    ConfigurationError
        It can't listen there.
    """
    server = grpc.aio.server(options=SERVER_OPTIONS)
    population_pb2_grpc.add_PopulationServiceServicer_to_server(service, server)
    control_pb2_grpc.add_ControlServiceServicer_to_server(service, server)
    try:
        port: int = server.add_secure_port(address, server_credentials(credentials))
    except RuntimeError as error:
        raise ConfigurationError(
            f"{address}: can't listen there ({error}); is the port in use? Choose another with --port"
        ) from error
    await server.start()
    return server, port


async def serve(
    coordinator: Coordinator,
    folder: RunFolder,
    address: str,
    credentials: Credentials,
    clock: Callable[[], float] = time.monotonic,
    observer: Observer | None = None,
) -> int:
    """Serve until the run is done or SIGTERM; returns the exit code, raises what ended it otherwise."""
    observer = observer or Observer()
    coordinator.run.ledger.observer = observer
    stop = asyncio.Event()
    failures: list[Exception] = []

    def fail(error: Exception) -> None:
        failures.append(error)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    service = Service(coordinator, clock, fail, observer)
    server, port = await start_server(service, address, credentials)
    _announce(folder, f"{address.rpartition(':')[0]}:{port}")
    log.info("incarnation %d listens on port %d", coordinator.incarnation, port)
    observer.listening()
    observer.turned(coordinator.run)
    watch = asyncio.create_task(service.watch())
    until_done = asyncio.create_task(_until_done(coordinator))
    stopped = asyncio.create_task(stop.wait())
    tasks = (watch, until_done, stopped)
    try:
        await asyncio.wait({until_done, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        service.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop(grace=STOP_SECONDS)
    if failures:
        raise failures[0]
    if coordinator.done:
        return ExitCode.DONE
    log.info("told to stop; everything committed is kept")
    return ExitCode.DRAINED


async def _until_done(coordinator: Coordinator) -> None:
    while not coordinator.done:
        await asyncio.sleep(DONE_POLL_SECONDS)
    deadline = time.monotonic() + LINGER_SECONDS
    while coordinator.workers.connected() and time.monotonic() < deadline:
        await asyncio.sleep(DONE_POLL_SECONDS)


def _announce(folder: RunFolder, address: str) -> None:
    partial = folder.endpoint.with_suffix(".partial")
    with full_disk_named(folder.path):
        partial.write_text(address, encoding="utf-8")
        partial.replace(folder.endpoint)  # a reader must never see half an address
