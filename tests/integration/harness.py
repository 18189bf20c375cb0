"""Real runs for tests and benchmarks: a job file, `dartes run` and its processes, what came out.

Everything waits for conditions with deadlines. It knows nothing about what a run should come out as.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import psutil

from dartes.cli.control import ControlClient
from dartes.errors import ConfigurationError
from dartes.rpc import tls
from dartes.state import RunFolder
from dartes.v1 import control_pb2 as wire

from ..waiting import DEADLINE_SECONDS, Found, until

LOOK_SECONDS = 0.25
"""How often a waiting test looks for new processes of its run: looking reads all of /proc."""
DARTES = (sys.executable, "-m", "dartes.cli.main")
HERE = Path(__file__).resolve().parent


class EngineHook(StrEnum):
    """What `DARTES_ENGINE` may name; the real engine needs no hook."""

    REAL = ""
    HASHING = "dartes_worker.engines.hashing:HashingEngine.load"
    HELD_REAL = "interfering_engines:held_transformers"
    HELD_HASHING = "interfering_engines:held_hashing"
    ANSWERING = "answering_engine:AnsweringEngine.load"
    MISGROUPING = "interfering_engines:misgrouping_hashing"

    @property
    def held(self) -> "EngineHook":
        """The same engine, held."""
        return EngineHook.HELD_REAL if self is EngineHook.REAL else EngineHook.HELD_HASHING


def with_changes(spec: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy of nested fields with some replaced; `es__sigma=0.1` sets `es.sigma`."""
    copy: dict[str, Any] = json.loads(json.dumps(spec))
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = copy
        for name in parents:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return copy


def write_job(path: Path, spec: Mapping[str, Any], name: str = "job") -> Path:
    """Write a job file (JSON is YAML)."""
    job = {"apiVersion": "dartes.dev/v1alpha1", "kind": "DartESJob", "metadata": {"name": name}, "spec": spec}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(job, indent=1), encoding="utf-8")
    return path


class Run:
    """One `dartes run` process and everything it starts; a context manager that leaves nothing behind.

    Parameters
    ----------
    engine, environment
        What the workers answer with, and further variables of the process.
    """

    def __init__(
        self,
        job: Path,
        folder: Path,
        *options: str,
        engine: EngineHook = EngineHook.HASHING,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = RunFolder(folder)
        self._seen: dict[int, psutil.Process] = {}
        self._look_at = 0.0
        self._log = folder.with_name(f"{folder.name}.{time.monotonic_ns()}.out")
        self._log.parent.mkdir(parents=True, exist_ok=True)
        variables = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])),
            **({"DARTES_ENGINE": engine.value} if engine.value else {}),
            **(environment or {}),
        }
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "dartes.cli.main",
                    "run",
                    str(job),
                    "--workdir",
                    str(folder),
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
            )
        self._itself = psutil.Process(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in [self._itself, *self.descendants()]:
            _kill(process)
        self._process.wait()

    @property
    def pid(self) -> int:
        """Process id of `dartes run`."""
        return self._process.pid

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._log.read_text(encoding="utf-8")

    def logs(self) -> str:
        """What coordinator and workers have logged, those of earlier runs in this folder included."""
        return "\n".join(path.read_text(encoding="utf-8") for path in sorted(self.folder.logs.glob("*.log")))

    def descendants(self) -> list[psutil.Process]:
        """Living processes that it ever started, also where it has ended itself."""
        # The known ones are asked too: what a killed parent leaves behind is nobody's child any more.
        for parent in [self._itself, *filter(_lives, self._seen.values())]:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._seen.update({child.pid: child for child in parent.children(recursive=True)})
        return [process for process in self._seen.values() if _lives(process)]

    def _look(self) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self.descendants()

    def find(self, role: str) -> psutil.Process | None:
        """The living `coordinator`, or a worker by its name."""
        for process in self.descendants():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                if role in words or f"dartes_{role}" in words:
                    return process
        return None

    def status(self) -> wire.StatusResponse | None:
        """What the coordinator says; None where none answers now."""
        try:
            address = self.folder.endpoint.read_text(encoding="utf-8")
            credentials = tls.load(self.folder.tls / tls.Role.CONTROL.value)
        except (FileNotFoundError, ConfigurationError):
            return None
        client = ControlClient(address, credentials)
        try:
            return client.status()
        finally:
            client.close()

    def until(self, condition: Callable[[], Found | None], what: str) -> Found:
        """As the function `until`, but fails at once where the run ends first."""

        def asked() -> Found | None:
            self._look()
            ended = self._process.poll() is not None
            found = condition()
            assert found or not ended, f"the run ended before: {what}\n{self.output}\n{self.logs()}"
            return found or None

        return until(asked, what)

    def exit_code(self, seconds: float = DEADLINE_SECONDS) -> int:
        """Wait for its end; then also every process that it started must be gone."""

        def ended() -> bool:
            self._look()
            return self._process.poll() is not None

        try:
            until(ended, "the end of the run", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output}\n{self.logs()}") from None
        until(lambda: not self.descendants(), f"the end of {[p.pid for p in self.descendants()]}", 20.0)
        return self._process.returncode

    def must_end_with(self, code: int) -> str:
        """Wait for its end with this exit code; returns what it printed."""
        found = self.exit_code()
        assert found == code, f"exit code {found}, not {code}\n{self.output}\n{self.logs()}"
        return self.output

    def kill_everything(self) -> None:
        """SIGKILL for the command itself and all its processes at once."""
        for process in [self._itself, *self.descendants()]:
            _kill(process)
        self.must_end_with(-signal.SIGKILL)


@contextlib.contextmanager
def held_run(
    job: Path,
    folder: Path,
    *options: str,
    at: str,
    engine: EngineHook = EngineHook.HASHING,
    hold_in: Path | None = None,
) -> Iterator[tuple[Run, "Hold"]]:
    """A run whose workers stop inside a lease: `first:COUNT` or `all:COUNT`, groups counted per process."""
    hold = Hold(hold_in or folder.with_name(f"{folder.name}.hold"))
    with Run(job, folder, *options, engine=engine.held, environment=hold.environment(at)) as run:
        yield run, hold


class Hold:
    """The folder by which held engines and a test speak with each other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)

    def environment(self, at: str) -> dict[str, str]:
        """Variables of a run whose workers shall stop."""
        return {"DARTES_TEST_HOLD_FOLDER": str(self._folder), "DARTES_TEST_HOLD_AT": at}

    def pids(self) -> list[int]:
        """Workers that have stopped."""
        return [int(path.name.removeprefix("held-")) for path in self._folder.glob("held-*")]

    def open(self) -> None:
        """Let all go on, now and later."""
        (self._folder / "open").touch()


def run_to_end(
    job: Path, folder: Path, *options: str, engine: EngineHook, environment: Mapping[str, str] | None = None
) -> str:
    """Run a job to its end; returns what was printed."""
    with Run(job, folder, *options, engine=engine, environment=environment) as run:
        return run.must_end_with(0)


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
