"""The grader process, `python -m dartes.rewards.grader`: reads requests and replies until its input ends.

It is expendable. It limits its own memory and CPU time, can write no files, and whatever a grader prints
goes nowhere near the protocol. It imports no NumPy and no pydantic, so that it starts in a blink.
"""

import json
import math
import os
import resource
import time
from collections.abc import Mapping

from dartes.rewards.protocol import (
    FRAME_HEADER_BYTES,
    READY,
    REASON_LIMIT,
    ProtocolError,
    encode_reply,
    frame_length,
)
from dartes.tasks.base import JSON, Grade, Task, TaskSettings, UnreadableReferenceError
from dartes.tasks.registry import load_task_class

MEMORY_LIMIT = 2 * 1024**3
"""Bytes of address space of a grader process."""

OPEN_FILES_LIMIT = 64
FLUSH_SECONDS = 0.001
"""Replies are gathered for this long before they are written, unless a request asks otherwise."""


def main() -> None:
    """Serve the parent process on the pipes that were standard input and output when it started."""
    requests, replies = _take_pipes()
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES_LIMIT)
    _limit(resource.RLIMIT_AS, MEMORY_LIMIT)
    address, settings = json.loads(_read_frame(requests) or b"null")
    task = load_task_class(address).from_spec(TaskSettings(**settings))
    if prepare := getattr(task, "prepare", None):  # imports, and whatever else the first answer would pay for
        prepare()
    os.dup2(1, 2)  # errors up to here are the parent's to show; from here on nobody reads them
    _limit(resource.RLIMIT_FSIZE, 0)
    _write(replies, READY)
    while body := _read_frame(requests):
        seconds, flush_each, rows, completions = json.loads(body)
        _limit_cpu(seconds * len(rows))
        _serve(task, rows, completions, 0.0 if flush_each else FLUSH_SECONDS, replies)


def _serve(
    task: Task, rows: list[Mapping[str, JSON]], completions: list[str], flush_seconds: float, replies: int
) -> None:
    pending = bytearray()
    flushed = time.monotonic()
    for position, (row, completion) in enumerate(zip(rows, completions, strict=True)):
        pending += encode_reply(position, _grade(task, row, completion))
        now = time.monotonic()
        if now - flushed >= flush_seconds:
            _write(replies, pending)
            pending.clear()
            flushed = now
    _write(replies, pending)


def _grade(task: Task, row: Mapping[str, JSON], completion: str) -> Grade:
    try:
        grade = task.grade(row, completion)
        if not (math.isfinite(grade.score) and math.isfinite(grade.auxiliary)):
            return Grade.of("the grader gave a score that is not a finite number")
    except UnreadableReferenceError as error:
        return Grade.of(f"the reference cannot be read: {error}"[:REASON_LIMIT])
    except Exception as error:  # noqa: BLE001 - the outermost loop of this process: one answer must not end it
        return Grade.of(f"the grader raised {type(error).__name__}: {error}"[:REASON_LIMIT])
    return grade


def _take_pipes() -> tuple[int, int]:
    """Move the protocol to private descriptors; 0 and 1 become the null device."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return requests, replies


def _limit(kind: int, soft: int) -> None:
    """Set a limit; where the system has no such limit, the parent's clock is what remains."""
    try:
        resource.setrlimit(kind, (soft, resource.getrlimit(kind)[1]))
    except (ValueError, OSError):
        return


def _limit_cpu(seconds: float) -> None:
    """End this process by signal if it spins on after its parent, who keeps the real clock, is gone."""
    _limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds) + 2)


def _read_frame(source: int) -> bytes | None:
    header = _read(source, FRAME_HEADER_BYTES)
    if not header:
        return None
    return _read(source, frame_length(header))


def _read(source: int, count: int) -> bytes:
    """Exactly `count` bytes, or none where the input ends before the first."""
    parts = bytearray()
    while len(parts) < count:
        part = os.read(source, count - len(parts))
        if not part:
            if parts:
                raise ProtocolError("the input ended inside a frame")
            break
        parts += part
    return bytes(parts)


def _write(target: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


if __name__ == "__main__":
    main()
