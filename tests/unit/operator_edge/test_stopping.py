"""Told to stop: no pass begins any more, and nobody waits for kopf."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from dartes_operator import app
from dartes_operator.kinds import Key
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


async def _watch_until(end: asyncio.Event) -> None:
    await end.wait()


@pytest.mark.parametrize("watches", ["end at once", "do not end"])
def test_the_pass_under_way_ends_and_none_begins_after_it(
    watches: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "END_SECONDS", 5.0 if watches == "end at once" else 0.05)

    async def scenario() -> list[str]:
        queue = WorkQueue(lambda: 0.0, lambda: 0.0)
        stopping, never = asyncio.Event(), asyncio.Event()
        said: list[str] = []

        async def hand() -> None:
            while True:
                key = await queue.get()
                said.append(f"{key.name} begins")
                stopping.set()
                queue.add(B)
                await asyncio.sleep(0.01)
                said.append(f"{key.name} ends")
                queue.done(key)

        queue.add(A)
        watcher = _watch_until(stopping if watches == "end at once" else never)
        await asyncio.wait_for(app._run_all([hand()], watcher, stopping, queue), 10)
        return said

    with ThreadPoolExecutor(1) as elsewhere:  # only the main thread takes signals
        assert elsewhere.submit(asyncio.run, scenario()).result() == ["a begins", "a ends"]


def test_the_process_ends_though_a_task_stays() -> None:
    environment = {**os.environ, **ENVIRONMENT}
    ended = subprocess.run([sys.executable, "-c", STAYS], env=environment, timeout=30, check=False)
    assert ended.returncode == 0
