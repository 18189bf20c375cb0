"""Told to stop: no pass begins any more, and nobody waits for kopf."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dartes_operator import app
from dartes_operator.kinds import Key
from dartes_operator.listing import WatchEndedError
from dartes_operator.queue import WorkQueue

from .watch_kit import ENVIRONMENT

A, B = Key("team", "a"), Key("team", "b")

# A task that does not end when it is told to, as kopf's watchers do at times.
STAYS = """
import asyncio, sys
from dartes_operator import __main__ as program

async def stays():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def run(settings):
    asyncio.create_task(stays())
    await asyncio.sleep(0)

program.run = run
sys.exit(program.main())
"""


async def _watch_until(end: asyncio.Event, *, stays: bool) -> None:
    if stays:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()
    await end.wait()


def _run_all(
    hand: Callable[[WorkQueue, asyncio.Event], Coroutine[Any, Any, None]], *, stays: bool = False
) -> None:
    """Run one part beside a watcher that ends when it is time to stop, or that stays."""

    async def scenario() -> None:
        queue, stopping = WorkQueue(lambda: 0.0, lambda: 0.0), asyncio.Event()
        queue.add(A)
        watcher = _watch_until(stopping, stays=stays)
        await asyncio.wait_for(app._run_all([hand(queue, stopping)], watcher, stopping, queue), 10)

    with ThreadPoolExecutor(1) as elsewhere:  # only the main thread takes signals
        elsewhere.submit(asyncio.run, scenario()).result()


@pytest.mark.parametrize("stays", [False, True])
def test_the_pass_under_way_ends_and_none_begins_after_it(
    stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "END_SECONDS", 0.1)
    said: list[str] = []

    async def hand(queue: WorkQueue, stopping: asyncio.Event) -> None:
        while True:
            key = await queue.get()
            said.append(f"{key.name} begins")
            stopping.set()
            queue.add(B)
            while queue.next_due() is not None:
                await asyncio.sleep(0)
            said.append(f"{key.name} ends")
            queue.done(key)

    _run_all(hand, stays=stays)
    assert said == ["a begins", "a ends"]


def test_who_is_told_to_stop_does_not_start_over_for_a_watch_that_ends_meanwhile() -> None:
    async def hand(_: WorkQueue, stopping: asyncio.Event) -> None:
        stopping.set()
        raise WatchEndedError("watching has ended")

    _run_all(hand)


def test_a_part_that_fails_before_is_not_hidden() -> None:
    async def hand(_: WorkQueue, __: asyncio.Event) -> None:
        raise WatchEndedError("watching has ended")

    with pytest.raises(WatchEndedError):
        _run_all(hand)


def test_the_process_ends_though_a_task_stays() -> None:
    environment = {**os.environ, **ENVIRONMENT}
    ended = subprocess.run([sys.executable, "-c", STAYS], env=environment, timeout=30, check=False)
    assert ended.returncode == 0
