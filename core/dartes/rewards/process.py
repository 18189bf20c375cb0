"""One grader process seen from outside: start it, exchange bytes with it under a deadline, kill it.

Owns the process group and the pipes. Decides nothing about answers; that is the pool's.
"""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict

from dartes.errors import TransientError
from dartes.rewards.protocol import READY, GradeRequest, ProtocolError, frame, take_reply
from dartes.tasks.base import Grade, TaskSettings

START_SECONDS = 60.0
"""How long a grader process may take to start and load its task."""

_READ_BYTES = 65_536
_STDERR_SHOWN = 2_000


class GraderLostError(Exception):
    """The process no longer answers; the message says how it went."""


class GraderStartError(TransientError):
    """A grader process could not be started, several times in a row."""


class GraderProcess:
    """A running grader. After `GraderLostError` it is dead, and only `close` may follow."""

    def __init__(
        self, address: str, settings: TaskSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._buffer = bytearray()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        # Its own session: Ctrl-C reaches only the parent, and a kill reaches whatever the grader started.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dartes.rewards.grader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
            cwd="/",
            env=_clean_environment(),
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self._to_send = memoryview(frame([address, asdict(settings)]))
        self._ready = False

    @property
    def process_id(self) -> int:
        """The process's id, which is also its group's."""
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Block until the task is loaded; raises `GraderLostError` with what the process wrote to stderr."""
        if self._ready:
            return
        deadline = self._clock() + START_SECONDS
        try:
            while len(self._buffer) < len(READY):
                self._step(deadline)
            if self._buffer[: len(READY)] != READY:
                raise GraderLostError("it answered in another protocol")
        except GraderLostError as error:
            self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, self._stderr.tell() - _STDERR_SHOWN))
            said = self._stderr.read().decode("utf-8", "replace").strip()
            raise GraderLostError(f"{error}; {said}" if said else str(error)) from None
        del self._buffer[: len(READY)]
        self._ready = True

    def grade(self, request: GradeRequest, take: Callable[[Grade], None]) -> None:
        """Grade a request; `take` is called with each grade in order, as far as the process comes.

        Each answer has `request.seconds_per_answer` of wall time from the last sign of life, then the
        process is killed. Raises `GraderLostError`; where the request was to flush each, the first grade that
        was not taken is the one that the process was lost in.
        """
        self._to_send = memoryview(request.encode())
        taken = 0
        deadline = self._clock() + request.seconds_per_answer
        while taken < len(request.rows):
            try:
                grade = take_reply(self._buffer, taken)
            except ProtocolError as error:
                self.kill()
                raise GraderLostError(f"grader died: {error}") from error
            if grade is not None:
                take(grade)
                taken += 1
            elif self._step(deadline):
                deadline = self._clock() + request.seconds_per_answer

    def kill(self) -> None:
        """End the process and all it started, and wait for its end."""
        if self._process.returncode is None:  # not yet waited for, so its number is still its own
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        """Kill the process and release the pipes; may be called twice."""
        self.kill()
        for file in (self._process.stdin, self._process.stdout, self._stderr):
            if file is not None:
                file.close()

    def _step(self, deadline: float) -> bool:
        """Send and receive what is possible; whether anything moved before the deadline, which kills."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        if self._to_send:
            poll.register(self._input, select.POLLOUT)
        # Looked at even when time is up: it may be this process that stood still.
        events = dict(poll.poll(max(0.0, deadline - self._clock()) * 1000))
        if not events:
            if self._clock() < deadline:
                return False
            self.kill()
            raise GraderLostError("timed out")
        if self._output in events:
            data = os.read(self._output, _READ_BYTES)
            if not data:
                raise self._death()
            self._buffer += data
        elif self._input in events:
            try:
                self._to_send = self._to_send[os.write(self._input, self._to_send) :]
            except BrokenPipeError:
                raise self._death() from None
        return True

    def _death(self) -> GraderLostError:
        self.kill()
        code = self._process.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return GraderLostError(f"grader died ({how})")


def _clean_environment() -> dict[str, str]:
    """Nothing of the parent's environment but what Python needs to find the same packages."""
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
    # A numerical library reserves memory for each thread it may start: on many cores, more than the limit.
    kept |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**kept, "PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
