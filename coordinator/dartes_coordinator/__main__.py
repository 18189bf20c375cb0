"""`python -m dartes_coordinator`: serve one run folder until the run is done, drained or refused."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path

import grpc
from dartes import logs
from dartes.errors import ConfigurationError, DartesError, ExitCode
from dartes.lifeline import follow_parent
from dartes.rpc import tls
from dartes.rpc.channel import SERVER_OPTIONS, server_credentials
from dartes.spec.load import load_job
from dartes.state import RunFolder
from dartes.v1 import control_pb2_grpc, population_pb2_grpc

from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.service import Service
from dartes_coordinator.start import open_run

log = logging.getLogger(__name__)

LINGER_SECONDS = 15.0
"""How long a finished coordinator waits for workers to hear that the run is done."""


def main() -> int:
    """Run one coordinator; returns the exit code."""
    parser = argparse.ArgumentParser(prog="dartes_coordinator", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--listen", default="127.0.0.1:0", help="host:port; port 0 takes a free one")
    parser.add_argument("--tls", type=Path, required=True, help="folder with ca.crt, tls.crt, tls.key")
    arguments = parser.parse_args()
    logs.set_up("coordinator")
    follow_parent()
    folder = RunFolder(arguments.run_dir)
    try:
        job = load_job(folder.job)
        coordinator = open_run(folder, job)
        if coordinator is None:
            log.info("the run is done; nothing is left to do")
            return ExitCode.DONE
        credentials = tls.load(arguments.tls)
        return asyncio.run(_serve(coordinator, folder, arguments.listen, credentials))
    except DartesError as error:
        log.error("%s", error)
        return error.exit_code


async def _serve(
    coordinator: Coordinator, folder: RunFolder, address: str, credentials: tls.Credentials
) -> int:
    stop = asyncio.Event()
    failure: list[BaseException] = []

    def fail(error: BaseException) -> None:
        failure.append(error)
        stop.set()

    def drained() -> None:
        log.info("told to stop; everything committed is kept")
        failure.append(SystemExit(ExitCode.DRAINED))
        stop.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, drained)
    loop.add_signal_handler(signal.SIGINT, drained)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    service = Service(coordinator, time.monotonic, fail)
    population_pb2_grpc.add_PopulationServiceServicer_to_server(service, server)
    control_pb2_grpc.add_ControlServiceServicer_to_server(service, server)
    try:
        port = server.add_secure_port(address, server_credentials(credentials))
    except RuntimeError as error:
        raise ConfigurationError(
            f"{address}: can't listen there ({error}); is the port in use? Choose another with --port"
        ) from error
    await server.start()
    _announce(folder, f"{address.rpartition(':')[0]}:{port}")
    log.info("incarnation %d listens on port %d", coordinator.incarnation, port)
    watch = asyncio.create_task(service.watch())
    until_done = asyncio.create_task(_until_done(coordinator))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({until_done, stopped}, return_when=asyncio.FIRST_COMPLETED)
    watch.cancel()
    until_done.cancel()
    stopped.cancel()
    await server.stop(grace=0.5)
    return _exit_code(failure)


def _exit_code(failure: list[BaseException]) -> int:
    if not failure:
        return ExitCode.DONE
    error = failure[0]
    if isinstance(error, SystemExit):
        return int(error.code or 0)
    if isinstance(error, DartesError):
        log.error("%s", error)
        return error.exit_code
    raise error


async def _until_done(coordinator: Coordinator) -> None:
    while not coordinator.done:
        await asyncio.sleep(0.05)
    deadline = time.monotonic() + LINGER_SECONDS
    while coordinator.workers.connected() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)


def _announce(folder: RunFolder, address: str) -> None:
    partial = folder.endpoint.with_suffix(".partial")
    partial.write_text(address, encoding="utf-8")
    os.replace(partial, folder.endpoint)  # noqa: PTH105 - a reader must never see half an address


if __name__ == "__main__":
    sys.exit(main())
