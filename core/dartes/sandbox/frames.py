"""Length-prefixed JSON over descriptors: parent and zygote, checker and program. JSON executes nothing.

A frame's length is bounded, so that no side can make the other hold more.
"""

import json
import os
import struct
from typing import Any

FRAME_LIMIT = 64 * 1024 * 1024
"""Bytes of the largest frame."""

HEADER = struct.Struct(">I")


class FrameError(Exception):
    """The other side sent something that is not a frame, or ended inside one."""


def encode(value: Any) -> bytes:
    """A value as a frame; raises `ValueError` for one that is too large."""
    body = json.dumps(value, separators=(",", ":")).encode()
    if len(body) > FRAME_LIMIT:
        raise ValueError(f"a frame of {len(body):,} bytes; {FRAME_LIMIT:,} are allowed")
    return HEADER.pack(len(body)) + body


def body_bytes(header: bytes) -> int:
    """The announced length of a frame's body."""
    length: int = HEADER.unpack(header)[0]
    if length > FRAME_LIMIT:
        raise FrameError(f"a frame of {length:,} bytes is announced; {FRAME_LIMIT:,} are allowed")
    return length


def read(source: int) -> Any:
    """The next frame's value; None at the end of the input."""
    header = read_exactly(source, HEADER.size)
    if not header:
        return None
    try:
        return json.loads(read_exactly(source, body_bytes(header)))
    except ValueError as error:
        raise FrameError(f"not JSON: {error}") from None


def write(target: int, value: Any) -> None:
    """Write one frame."""
    view = memoryview(encode(value))
    while view:
        view = view[os.write(target, view) :]


def read_exactly(source: int, count: int) -> bytes:
    """Exactly `count` bytes, or none where the input ends before the first."""
    parts = bytearray()
    while len(parts) < count:
        part = os.read(source, min(count - len(parts), 1024 * 1024))
        if not part:
            if parts:
                raise FrameError("the input ended inside a frame")
            break
        parts += part
    return bytes(parts)


def plain(value: Any) -> bytes:
    """A value as JSON without a length."""
    return json.dumps(value, separators=(",", ":")).encode()


def decode(body: bytes) -> Any:
    """The inverse of `plain`."""
    return json.loads(body)
