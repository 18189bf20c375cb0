"""One zygote seen from outside: start it, give it runs under a deadline, kill it with all that it started.

Owns the process group, the pipes and the scratch folder. Decides nothing about programs.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dartes.sandbox import files, frames
from dartes.sandbox.levels import Levels
from dartes.sandbox.runs import CheckedRun, RunResult, ScriptRun

START_SECONDS = 60.0
"""How long a zygote may take to start."""

GRACE_SECONDS = 15.0
"""How much longer than its longest time a run may take to report, before the zygote counts as lost."""

_READ_BYTES = 65_536
_STDERR_SHOWN = 2_000
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True; "
    "from dartes.sandbox.zygote import main; main()"
)
OWN_PATH = str(Path(__file__).resolve().parents[2])


class ZygoteLostError(Exception):
    """The zygote no longer answers; the message says how it went."""


class NoProcessError(Exception):
    """The machine had no process to give to a program; the message says what was refused."""


class RefusedError(Exception):
    """This machine cannot confine programs; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a zygote may try; all that the kernel grants, unless for a test of what remains without."""

    namespaces: bool = True
    view: bool = True
    landlock: bool = True


class ZygoteProcess:
    """A running zygote. After `ZygoteLostError` it is dead, and only `close` may follow."""

    def __init__(
        self,
        means: Means,
        clock: Callable[[], float] = time.monotonic,
        folder: str | None = None,
    ) -> None:
        self._clock = clock
        self._buffer = bytearray()
        self._scratch, self._held = files.make_scratch(folder)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        # Isolated like `python -I`, but with a fixed hash seed, so that a set is walked alike in every run.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-c", _START, OWN_PATH],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
            cwd="/",
            env={"PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        start = {"scratch": self._scratch, "own_path": OWN_PATH, "number": self._process.pid, **asdict(means)}
        self._to_send = memoryview(frames.encode(start))
        self._started: tuple[Levels, str] | None = None

    @property
    def process_id(self) -> int:
        """The process's id, which is also its group's."""
        return self._process.pid

    def wait_until_ready(self) -> tuple[Levels, str]:
        """Block until it can run programs: the machine's levels, and the same in words.

        Raises `RefusedError` where the machine cannot confine programs, and `ZygoteLostError` with what the
        process wrote to stderr.
        """
        if self._started is None:
            try:
                reply = self._receive(self._clock() + START_SECONDS)
            except ZygoteLostError as error:
                raise ZygoteLostError(f"{error}{self._said()}") from None
            if "refused" in reply:
                raise RefusedError(reply["refused"])
            self._started = Levels.from_json(reply["levels"]), reply["said"]
        return self._started

    def run(self, run: ScriptRun | CheckedRun) -> RunResult:
        """Run one program. Raises `ZygoteLostError`, or `NoProcessError` where it never began."""
        payloads = _payloads(run)
        job = {
            "kind": "script" if isinstance(run, ScriptRun) else "checked",
            "limits": asdict(run.limits),
            "payloads": [len(payload) for payload in payloads],
        }
        self._to_send = memoryview(b"".join([frames.encode(job), *payloads]))
        reply = self._receive(self._clock() + run.limits.longest_seconds + GRACE_SECONDS)
        if "trouble" in reply:
            raise NoProcessError(reply["trouble"])
        return RunResult.from_json(reply)

    def kill(self) -> None:
        """End the process and all it started, and wait for its end."""
        if self._process.returncode is None:  # not yet waited for, so its number is still its own
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        """Kill the process, release the pipes, remove the folder; may be called twice."""
        self.kill()
        for file in (self._process.stdin, self._process.stdout, self._stderr):
            if file is not None:
                file.close()
        if self._held >= 0:
            with contextlib.suppress(FileNotFoundError):
                files.remove(self._scratch)
            os.close(self._held)
            self._held = -1

    def _receive(self, deadline: float) -> dict[str, Any]:
        needed = frames.HEADER.size
        while len(self._buffer) < needed:
            self._step(deadline)
        try:
            needed += frames.body_bytes(bytes(self._buffer[: frames.HEADER.size]))
        except frames.FrameError as error:
            self.kill()
            raise ZygoteLostError(str(error)) from None
        while len(self._buffer) < needed:
            self._step(deadline)
        reply: dict[str, Any] = frames.decode(bytes(self._buffer[frames.HEADER.size : needed]))
        del self._buffer[:needed]
        return reply

    def _step(self, deadline: float) -> None:
        """Send and receive what is possible before the deadline, which kills."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        if self._to_send:
            poll.register(self._input, select.POLLOUT)
        # Looked at even when time is up: it may be this process that stood still.
        events = dict(poll.poll(max(0.0, deadline - self._clock()) * 1000))
        if not events and self._clock() >= deadline:
            self.kill()
            raise ZygoteLostError("the sandbox does not answer")
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

    def _death(self) -> ZygoteLostError:
        self.kill()
        code = self._process.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return ZygoteLostError(f"the sandbox died ({how})")

    def _said(self) -> str:
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - _STDERR_SHOWN))
        said = self._stderr.read().decode("utf-8", "replace").strip()
        return f"; {said}" if said else ""


def _payloads(run: ScriptRun | CheckedRun) -> list[bytes]:
    if isinstance(run, ScriptRun):
        sources = [source for source in (run.before, run.program) if source]
        return [frames.plain(sources), run.stdin.encode("utf-8", "surrogatepass")]
    job = {
        "before": list(run.before),
        "names": dict(run.names),
        "values": dict(run.values),
        "test": run.test,
        "sites": run.sites,
    }
    return [frames.plain(list(run.program)), frames.plain(job)]
