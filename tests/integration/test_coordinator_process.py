"""The process around the coordinator: its watch over silent workers, and what it ends with."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from dartes.errors import ConfigurationError, DartesError, ExitCode
from dartes.rpc.tls import Role
from dartes.state import RunFolder
from dartes_coordinator import service as service_module
from dartes_coordinator.coordinator import Coordinator
from dartes_coordinator.server import serve
from dartes_coordinator.service import TICK_SECONDS, Service
from dartes_coordinator.store import FencedError

from ..unit.coordinator.kit import Clock, FakeWorker, opened
from .grpc_kit import DEADLINE, LEAVES, ONE_LEASE, run, until

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
def test_an_expected_error_ends_the_process_with_its_own_words(tmp_path: Path, error: DartesError) -> None:
    def fail(coordinator: Coordinator) -> None:
        def retry(_: float) -> None:
            raise error

        coordinator.retry = retry  # type: ignore[assignment, method-assign]

    with pytest.raises(type(error), match=str(error)):
        exit_code_of(tmp_path, fail)


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
