"""A TCP proxy that counts the bytes it passes on, both ways, and understands none of them.

Runs in a thread of its own beside the benchmark that reads the counts.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

CHUNK_BYTES: Final = 65_536
START_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Traffic:
    """Bytes and connections since the start; `up` is from the callers to the target."""

    up: int
    down: int
    connections: int


class CountingProxy:
    """Listens on a free port of the loopback and connects every caller to `target`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._up = self._down = self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise RuntimeError("the proxy does not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def traffic(self) -> Traffic:
        """What has passed so far."""
        return Traffic(self._up, self._down, self._connections)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = int(server.sockets[0].getsockname()[1])
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()  # the coordinator is not there: the caller tries again
            return
        await asyncio.gather(self._pass_up(reader, far_writer), self._pass_down(far_reader, writer))

    async def _pass_up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for data in _chunks(reader):
            self._up += len(data)
            writer.write(data)
        writer.close()

    async def _pass_down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for data in _chunks(reader):
            self._down += len(data)
            writer.write(data)
        writer.close()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """What comes in, until the other side closes or breaks off."""
    while True:
        try:
            data = await reader.read(CHUNK_BYTES)
        except ConnectionError:
            return
        if not data:
            return
        yield data
