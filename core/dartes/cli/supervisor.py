"""A local run: one coordinator and N workers as processes, restarted like pods, shown as progress."""

import os
import secrets
import time
from pathlib import Path

from dartes import logs, pod
from dartes.cli.children import Child, describe_exit
from dartes.cli.control import ControlClient
from dartes.cli.gpus import gpus_of_worker, visible_gpus
from dartes.cli.policy import RestartPolicy, Verdict
from dartes.cli.progress import Progress
from dartes.errors import ConfigurationError, DartesError, ExitCode, TransientError
from dartes.rpc import tls
from dartes.spec import JobSpec
from dartes.state import RunFolder

POLL_SECONDS = 0.05
STATUS_EVERY_SECONDS = 0.25
LISTEN_WITHIN_SECONDS = 120.0
RESTART_PAUSE_SECONDS = 1.0
END_SECONDS = 5.0


class LocalRun:
    """The processes of one run folder."""

    def __init__(
        self,
        folder: RunFolder,
        spec: JobSpec,
        workers: int,
        port: int,
        progress: Progress,
        from_iteration: int | None = None,
    ) -> None:
        self._folder = folder
        # Named anew by each command, and so carried out once by however many coordinators it starts.
        self._rewind = (
            ()
            if from_iteration is None
            else ("--rewind-to", str(from_iteration), "--rewind-key", secrets.token_hex(8))
        )
        self._progress = progress
        self._port = port
        self._policy = RestartPolicy(
            spec.failure_policy.coordinator_restarts, spec.failure_policy.worker_failures
        )
        threads = str(spec.workers.threads)
        # Two spinning OpenMP pools on the same cores slow each other up many times over.
        self._environment = {
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "NUMBA_NUM_THREADS": threads,
            "TOKENIZERS_PARALLELISM": "false",
            # What they log is read here, for people, also where this command runs in somebody's pod.
            logs.FORMAT_VARIABLE: "text",
            pod.TERMINATION_VARIABLE: "",
        }
        self._names = [f"worker-{index}" for index in range(workers)]
        visible = visible_gpus(os.environ)
        self._gpus = {
            name: gpus_of_worker(index, spec.workers.gpus_per_worker, visible)
            for index, name in enumerate(self._names)
        }
        self._workers: dict[str, Child] = {}
        self._restart_at: dict[str, float] = {}
        self._told: set[str] = set()
        """What a coordinator said before it could be asked; its notes say it again."""
        self._coordinator: Child | None = None
        self._control: ControlClient | None = None
        self._credentials = tls.issue()
        for role, credentials in self._credentials.items():
            tls.save(credentials, folder.tls / role.value)

    def run(self) -> None:
        """Run to the end.

        Raises
        ------
        ConfigurationError
            A process found the job at fault; its words are the message.
        TransientError
            A restart budget is used up. Running again resumes.
        DartesError
            The same, but the last process ended with a bug.
        """
        try:
            if not self._start_coordinator():
                self._progress.say("this run is finished already; nothing is left to do")
                return
            for name in self._names:
                self._start_worker(name)
            next_status = 0.0
            while True:
                now = time.monotonic()
                if now >= next_status:
                    next_status = now + STATUS_EVERY_SECONDS
                    self._show_status()
                if self._check_coordinator():
                    self._let_workers_leave()
                    return
                self._check_workers(now)
                time.sleep(POLL_SECONDS)
        finally:
            self._end()

    def _start_coordinator(self) -> bool:
        """Start it and wait until it listens; False where the run is already done."""
        self._folder.endpoint.unlink(missing_ok=True)
        arguments = ["--run-dir", str(self._folder.path), "--listen", f"127.0.0.1:{self._port}"]
        arguments += ["--tls", str(self._folder.tls / tls.Role.COORDINATOR.value), *self._rewind]
        self._coordinator = Child(
            "coordinator",
            "dartes_coordinator",
            arguments,
            self._folder.logs / "coordinator.log",
            self._environment,
        )
        deadline = time.monotonic() + LISTEN_WITHIN_SECONDS
        while not self._folder.endpoint.exists():
            code = self._coordinator.exit_code()
            if code == ExitCode.DONE:
                return False
            if code is not None:
                self._coordinator_ended(code)
                return self._start_coordinator()
            if time.monotonic() > deadline:
                raise TransientError(f"the coordinator does not start; see {self._coordinator.log}")
            time.sleep(POLL_SECONDS)
        address = self._folder.endpoint.read_text(encoding="utf-8")
        # A restarted coordinator comes back on the port that the workers know.
        self._port = int(address.rpartition(":")[2])
        if self._control is None:
            self._control = ControlClient(address, self._credentials[tls.Role.CONTROL])
        for warning in self._coordinator.warnings():
            self._progress.say(f"coordinator: {warning}")  # for instance what a damaged store has cost
            self._told.add(warning.partition(": ")[2])
        return True

    def _start_worker(self, name: str) -> None:
        arguments = ["--coordinator", f"127.0.0.1:{self._port}", "--job", str(self._folder.job)]
        arguments += ["--snapshots", str(self._folder.snapshots)]
        arguments += ["--tls", str(self._folder.tls / tls.Role.WORKER.value), "--name", name]
        log = self._folder.logs / f"{name}.log"
        environment = {**self._environment, **self._gpus[name]}
        self._workers[name] = Child(name, "dartes_worker", arguments, log, environment)

    def _show_status(self) -> None:
        status = self._control.status() if self._control is not None else None
        if status is not None:
            self._policy.progressed(status.iteration)
            notes = [note for note in status.notes if note not in self._told]
            del status.notes[:]
            status.notes.extend(notes)
            self._progress.update(status)

    def _check_coordinator(self) -> bool:
        """True when the run is done."""
        assert self._coordinator is not None
        code = self._coordinator.exit_code()
        if code is None:
            return False
        if code == ExitCode.DONE:
            return True
        self._coordinator_ended(code)
        return not self._start_coordinator()

    def _coordinator_ended(self, code: int) -> None:
        assert self._coordinator is not None
        words = self._coordinator.last_words()
        verdict, why = self._policy.coordinator_ended(code)
        if verdict is Verdict.STOP:
            raise stop_error(code, why, words, self._coordinator.log)
        self._progress.say(f"the coordinator {describe_exit(code)} ({words}); starting it again")

    def _check_workers(self, now: float) -> None:
        for name in self._names:
            if name in self._restart_at:
                if now >= self._restart_at[name]:
                    del self._restart_at[name]
                    self._start_worker(name)
                continue
            worker = self._workers[name]
            code = worker.exit_code()
            if code is None:
                continue
            verdict, why = self._policy.worker_ended(name, code)
            if verdict is Verdict.IGNORE:
                continue
            words = worker.last_words()
            if verdict is Verdict.STOP:
                raise stop_error(code, why, words, worker.log)
            self._progress.say(f"{name} {describe_exit(code)} ({words}); starting it again")
            self._restart_at[name] = now + RESTART_PAUSE_SECONDS

    def _let_workers_leave(self) -> None:
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            if all(worker.exit_code() is not None for worker in self._workers.values()):
                return
            time.sleep(POLL_SECONDS)

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        children = [*self._workers.values(), *([self._coordinator] if self._coordinator else [])]
        for child in children:
            child.terminate()
        deadline = time.monotonic() + END_SECONDS
        for child in children:
            child.end(max(0.0, deadline - time.monotonic()))  # together, however many there are


def stop_error(code: int, why: str, words: str, log: Path) -> DartesError:
    """What a run ends with whose process ended with `code`, said `words`, and may not be started again."""
    text = f"{why}: {words}" if why else words
    kept = "All committed iterations are kept"
    if code == ExitCode.CONFIGURATION:
        return ConfigurationError(f"{text}\n{kept}; correct it and run the same command again")
    if code == ExitCode.BUG:
        return DartesError(f"{text}\nThis is a bug in dartes or in an extension. {kept}. Traceback: {log}")
    return TransientError(f"paused: {text}\n{kept}; run the same command to resume. Log: {log}")
