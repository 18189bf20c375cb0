"""The operator before an API server whose watches fail: it watches again, whatever a watch was answered.

Each is a process of its own, since what is tested includes how it ends.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dartes_operator.__main__ import LONGEST_PAUSE_SECONDS, SHORT_LIVES, WELL_SECONDS, pause_after
from dartes_operator.app import _take_signals
from tests.waiting import until

from .watch_kit import (
    ENVIRONMENT,
    Trouble,
    WatchServer,
    answering,
    error_event,
    kubeconfig,
    serving,
    streaming,
)

STARTING_OVER = "starting over"
WENT_ON_FROM = {
    "expired within": streaming(error_event(410)),
    "forbidden": answering(403, "Forbidden"),
    "busy": answering(429, "TooManyRequests"),
    "broken": answering(503, "ServiceUnavailable"),
    "cut": streaming(b'{"type":"ADD', cut=True),
}
ENDED_BY = {
    "expired at its start": answering(410, "Expired"),
    "unauthorized": answering(401, "Unauthorized"),
    "an error of the server": streaming(error_event(500)),
    "half a line": streaming(b'{"type":"ADD'),
}


class Operator:
    """The process, and what it has logged."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log_file = log

    @property
    def log(self) -> str:
        """All lines so far."""
        return self.log_file.read_text()

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None


@contextmanager
def operator_before(server: WatchServer, folder: Path, **variables: str) -> Iterator[Operator]:
    """An operator that watches everything of the server."""
    log = folder / "log"
    with serving(server) as url, log.open("wb") as stream:
        environment = {**os.environ, **ENVIRONMENT, **variables, "KUBECONFIG": str(kubeconfig(url, folder))}
        process = subprocess.Popen(
            [sys.executable, "-m", "dartes_operator"], env=environment, stdout=stream, stderr=stream
        )
        operator = Operator(process, log)
        try:
            until(lambda: server.is_watched or not operator.lives, "everything is watched", 60)
            assert operator.lives, operator.log
            yield operator
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def server() -> WatchServer:
    return WatchServer()


@pytest.fixture(scope="module")
def operator(server: WatchServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with operator_before(server, tmp_path_factory.mktemp("operator")) as operator:
        yield operator


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "starts_over"),
    [
        *(pytest.param(trouble, False, id=name) for name, trouble in WENT_ON_FROM.items()),
        *(pytest.param(trouble, True, id=name) for name, trouble in ENDED_BY.items()),
    ],
)
def test_everything_is_watched_again_after_a_watch_has_failed(
    server: WatchServer, operator: Operator, trouble: Trouble, starts_over: bool
) -> None:
    before = operator.log.count(STARTING_OVER)
    server.hurt_a_watch(trouble)
    until(lambda: server.is_watched_again or not operator.lives, "everything is watched again", 60)
    assert operator.lives, operator.log
    assert operator.log.count(STARTING_OVER) - before == starts_over


@pytest.mark.slow
def test_an_operator_that_is_told_to_stop_stops_and_does_not_start_over(tmp_path: Path) -> None:
    with operator_before(WatchServer(), tmp_path) as operator:
        operator.process.send_signal(signal.SIGTERM)
        assert operator.process.wait(10) == 0, operator.log
        assert STARTING_OVER not in operator.log


@pytest.mark.slow
def test_an_operator_that_is_told_to_stop_while_it_pauses_stops(tmp_path: Path) -> None:
    server = WatchServer()
    with operator_before(server, tmp_path, **{SHORT_LIVES: "9"}) as operator:
        server.hurt_a_watch(answering(401, "Unauthorized"))
        until(lambda: STARTING_OVER in operator.log or not operator.lives, "it pauses", 60)
        operator.process.send_signal(signal.SIGTERM)
        assert operator.process.wait(LONGEST_PAUSE_SECONDS / 2) == 0, operator.log


@pytest.mark.slow
@pytest.mark.parametrize("how", ["new", "started over"])
def test_an_operator_that_is_told_to_stop_before_it_watches_stops(tmp_path: Path, how: str) -> None:
    """It starts over with signals blocked, lest one comes before it can take it."""
    environment = {
        **os.environ, **ENVIRONMENT, "KUBECONFIG": str(kubeconfig("http://127.0.0.1:9", tmp_path))
    }  # fmt: skip
    program = "import os, signal, sys\n"
    if how == "started over":
        program += "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
    program += "os.execv(sys.executable, [sys.executable, '-m', 'dartes_operator'])"
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=stream)
        try:
            until(lambda: "nothing is done until it works" in log.read_text(), "it tries to list", 60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


def test_a_watcher_that_ends_before_it_takes_signals_is_not_waited_for() -> None:
    async def nothing() -> None:
        """End at once."""

    async def scenario() -> None:
        async with asyncio.timeout(5):
            await _take_signals(asyncio.Event(), asyncio.create_task(nothing()))

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        asyncio.run(scenario())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_pauses_grow_while_lives_are_short() -> None:
    pauses, short = [], 0
    for _ in range(7):
        pause, short = pause_after(1.0, short)
        pauses.append(pause)
    assert pauses == [0.5, 1.0, 2.0, 4.0, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]


def test_who_has_watched_for_long_starts_over_soon() -> None:
    assert pause_after(WELL_SECONDS, 7) == (0.5, 0)
