"""The process of a user's reward function seen from outside: start it, call it under a deadline, kill it.

Owns the process group and the pipes; what scores mean is for `python_function`.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dartes.errors import ConfigurationError
from dartes.rewards.python_function_child import LENGTH
from dartes.rewards.python_function_source import FunctionPlace
from dartes.tasks.base import JSON

LOAD_SECONDS: Final = 300.0
"""How long importing a user's module may take; it may load a model."""

_READ_BYTES = 65_536


class FunctionLostError(Exception):
    """The process hung or ended; the message says how, and continues the function's name."""


class FunctionProcess:
    """A running reward function. After `FunctionLostError` it is dead, and only `close` may follow."""

    def __init__(self, place: FunctionPlace, clock: Callable[[], float] = time.monotonic) -> None:
        self._place = place
        self._clock = clock
        # Its own session: Ctrl-C reaches only the parent, and a kill reaches whatever the function started.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dartes.rewards.python_function_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=place.folder,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)

    @property
    def process_id(self) -> int:
        """The process's id, which is also its group's."""
        return self._process.pid

    def load(self) -> None:
        """Have it import the function.

        Raises
        ------
        ConfigurationError
            It can't be imported, or there is no such function.
        FunctionLostError
            It hung or ended meanwhile.
        """
        place = self._place
        self._ask(
            {
                "module": place.module,
                "file": None if place.file is None else str(place.file),
                "function": place.function,
                "folder": str(place.folder),
            },
            LOAD_SECONDS,
            "was being imported",
        )

    def check(self, columns: Sequence[str]) -> None:
        """Have it look whether the function can be called with these columns. Raises as `load` does."""
        self._ask({"columns": list(columns)}, LOAD_SECONDS, "was being looked at")

    def call(self, request: Mapping[str, JSON], seconds: float) -> list[float]:
        """The scores of a batch, one finite number per answer. Raises as `load` does."""
        scores: list[float] = self._ask(request, seconds, "was at a batch")["scores"]
        return scores

    def close(self) -> None:
        """Kill the process with all that it started, and release the pipes; may be called twice."""
        self._kill()
        for file in (self._process.stdin, self._process.stdout):
            if file is not None:
                file.close()

    def _ask(self, request: Mapping[str, JSON], seconds: float, doing: str) -> dict[str, Any]:
        body = json.dumps(request, separators=(",", ":")).encode("ascii")
        to_send = memoryview(LENGTH.pack(len(body)) + body)
        received = bytearray()
        deadline = self._clock() + seconds
        while (reply := _complete(received)) is None:
            to_send = self._step(to_send, received, deadline, f"{doing} for more than {seconds:.0f} s")
        if "error" in reply:
            raise ConfigurationError(f"task.python: {self._place.name} {reply['error']}")
        return reply

    def _step(self, to_send: memoryview, received: bytearray, deadline: float, too_long: str) -> memoryview:
        """Send and receive what is possible before the deadline; what is left to send."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        if to_send:
            poll.register(self._input, select.POLLOUT)
        # Looked at even when time is up: it may be this process that stood still.
        events = dict(poll.poll(max(0.0, deadline - self._clock()) * 1000))
        if not events:
            if self._clock() < deadline:
                return to_send
            self._kill()
            raise FunctionLostError(f"{too_long}, and was ended")
        if self._output in events:
            data = os.read(self._output, _READ_BYTES)
            if not data:
                raise self._death()
            received += data
        elif self._input in events:
            try:
                return to_send[os.write(self._input, to_send) :]
            except BrokenPipeError:
                raise self._death() from None
        return to_send

    def _death(self) -> FunctionLostError:
        self._kill()
        code = self._process.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return FunctionLostError(f"ended its process ({how})")

    def _kill(self) -> None:
        if self._process.returncode is None:  # not yet waited for, so its number is still its own
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _complete(received: bytearray) -> dict[str, Any] | None:
    """The message in the buffer, once it is whole."""
    if len(received) < LENGTH.size:
        return None
    end = LENGTH.size + LENGTH.unpack_from(received)[0]
    if len(received) < end:
        return None
    reply: dict[str, Any] = json.loads(received[LENGTH.size : end])
    return reply
