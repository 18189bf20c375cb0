"""Coordinator and worker processes as pods run them: with their own arguments, probes and last words.

No `dartes run` is around them; a test starts, watches and ends each one itself.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dartes.rpc import tls
from dartes.state import RunFolder

from ..waiting import until
from .harness import HERE, EngineHook

HTTP_SECONDS = 10.0


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Pod:
    """One process with what a pod gives it."""

    def __init__(self, root: Path, name: str, arguments: list[str], environment: Mapping[str, str]) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.http = free_port()
        self._log = root / f"{name}.log"
        self._termination = root / f"{name}.termination"
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments, "--http", f"127.0.0.1:{self.http}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "PYTHONPATH": str(HERE),
                    "DARTES_LOG_FORMAT": "json",
                    "DARTES_TERMINATION_LOG": str(self._termination),
                    "DARTES_JOB": "job",
                    "DARTES_NAMESPACE": "team",
                    "DARTES_POD": name,
                    **environment,
                },
            )

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text(encoding="utf-8")

    def lines(self) -> list[dict[str, Any]]:
        """The log as JSON objects; fails on any other line."""
        return [json.loads(line) for line in self.log.splitlines()]

    def last_words(self) -> str:
        """What stands in its termination file; empty where there is none."""
        return self._termination.read_text(encoding="utf-8") if self._termination.exists() else ""

    def get(self, path: str) -> tuple[int, str]:
        """Ask its HTTP server; status 0 where nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=HTTP_SECONDS) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def answers(self, path: str, status: int = 200) -> bool:
        """Whether a probe gives this status now."""
        return self.get(path)[0] == status

    def until_answers(self, path: str, status: int = 200) -> None:
        """Wait for a probe's status; fails where the process ends first."""

        def asked() -> bool:
            assert self.process.poll() is None, f"{self.name} ended\n{self.log}"
            return self.answers(path, status)

        until(asked, f"{path} of {self.name} answers {status}")

    def ends_with(self, seconds: float = 60.0) -> int:
        """Wait for its end and return its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended within {seconds:.0f} s\n{self.log}") from None

    def terminate(self) -> None:
        """What a kubelet does first."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """What a kubelet does in the end, and a lost node at once."""
        self.process.kill()
        self.process.wait()


class Namespace:
    """Where pods of one job run: its volume, credentials and run file; ends every pod that it started."""

    def __init__(self, root: Path, job: Path, engine: EngineHook = EngineHook.HASHING) -> None:
        self.root = root
        self.job = job
        self.folder = RunFolder(root / "volume" / "run")
        self.port = free_port()
        self._environment = {"DARTES_ENGINE": engine.value} if engine.value else {}
        self._pods: list[Pod] = []
        (root / "volume").mkdir(parents=True)
        for role, credentials in tls.issue().items():
            tls.save(credentials, root / "tls" / role.value)

    def coordinator(self, job: Path | None = None, **environment: str) -> Pod:
        """Start the coordinator's pod."""
        arguments = ["dartes_coordinator", "--run-dir", str(self.folder.path), "--job", str(job or self.job)]
        arguments += ["--listen", f"0.0.0.0:{self.port}", "--tls", str(self.root / "tls" / "coordinator")]
        return self._started("coordinator", arguments, environment)

    def worker(self, name: str = "worker-0", address: str | None = None, **environment: str) -> Pod:
        """Start a worker's pod, with a snapshot folder of its own."""
        arguments = ["dartes_worker", "--coordinator", address or f"localhost:{self.port}", "--name", name]
        arguments += ["--tls", str(self.root / "tls" / "worker"), "--job", str(self.job)]
        arguments += ["--snapshots", str(self.root / f"{name}-snapshots")]
        return self._started(name, arguments, environment)

    def _started(self, name: str, arguments: list[str], environment: Mapping[str, str]) -> Pod:
        number = len(self._pods)
        pod = Pod(self.root / f"{number}", name, arguments, {**self._environment, **environment})
        self._pods.append(pod)
        return pod

    def close(self) -> None:
        """Kill what still runs."""
        for pod in self._pods:
            if pod.process.poll() is None:
                pod.kill()


@contextlib.contextmanager
def namespace(root: Path, job: Path, engine: EngineHook = EngineHook.HASHING) -> Iterator[Namespace]:
    """A namespace that leaves no process behind."""
    made = Namespace(root, job, engine)
    try:
        yield made
    finally:
        made.close()
