"""A watch that a proxy passes on: whole lines, until it ends or a fault strikes it.

Knows nothing of what a fault is for; `fault_proxy.py` decides what comes after.
"""

import asyncio

import aiohttp
from aiohttp import web

from .faults import Kind, Request


class Stream:
    """A watch that is open: `fault` is what has struck it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.fault: Kind | None = None
        self.struck = asyncio.Event()


async def copy(content: aiohttp.StreamReader, response: web.StreamResponse, struck: asyncio.Event) -> None:
    """Pass on whole lines until there are no more, or until the watch is struck."""
    striking = asyncio.ensure_future(struck.wait())
    reading = asyncio.ensure_future(content.readany())
    rest = b""
    try:
        while not struck.is_set():
            done, _ = await asyncio.wait({reading, striking}, return_when=asyncio.FIRST_COMPLETED)
            if reading not in done:
                return
            chunk = reading.result()
            lines, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                await response.write(lines + newline)
            if not chunk:
                return
            reading = asyncio.ensure_future(content.readany())
    finally:
        for task in (striking, reading):
            task.cancel()
        await asyncio.gather(striking, reading, return_exceptions=True)
