"""Runs batches of untrusted programs, several side by side, each in a process of its own.

The rule for a lost zygote: its run is tried once more in a fresh one; a run that loses that one too fails. No
program should be able to do this; if one can, it costs itself only.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Self, TypeVar

from dartes.errors import ConfigurationError
from dartes.sandbox import files
from dartes.sandbox.levels import Levels
from dartes.sandbox.process import Means, NoProcessError, RefusedError, ZygoteLostError, ZygoteProcess
from dartes.sandbox.runs import CheckedRun, Ending, RunResult, SandboxStartError, ScriptRun

START_ATTEMPTS = 3
LOSSES = 2
ALL_MEANS = Means()

Item = TypeVar("Item")
Found = TypeVar("Found")
RunOne = Callable[[ScriptRun | CheckedRun], RunResult]


class Sandbox:
    """Zygotes for untrusted programs. Not to be used by two threads at once.

    Parameters
    ----------
    processes
        Programs that may run side by side, each under a zygote of its own.
    means
        What the zygotes may try; everything, but in tests.
    clock
        Seconds that only grow, for the time after which a zygote counts as lost.
    folder
        Where scratch folders are made; the system's temporary folder if not given.
    """

    def __init__(
        self,
        processes: int = 1,
        *,
        means: Means = ALL_MEANS,
        clock: Callable[[], float] = time.monotonic,
        folder: str | None = None,
    ) -> None:
        if processes < 1:
            raise ValueError("a sandbox needs at least one process")
        self._means = means
        self._clock = clock
        self._folder = folder
        self._zygotes: list[ZygoteProcess] = []
        self._threads = ThreadPoolExecutor(processes, "sandbox")
        self._free: SimpleQueue[int] = SimpleQueue()
        files.remove_stale(folder)
        for number in range(processes):
            self._zygotes.append(self._start())
            self._free.put(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes and remove all folders; may be called twice."""
        self._threads.shutdown()
        for zygote in self._zygotes:
            zygote.close()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Process ids of the zygotes, which a restart changes."""
        return tuple(zygote.process_id for zygote in self._zygotes)

    def levels(self) -> Levels:
        """What this machine grants."""
        return self._ready(0).wait_until_ready()[0]

    def describe(self) -> str:
        """What this machine grants, in one line for the log."""
        return self._ready(0).wait_until_ready()[1]

    def run(self, run: ScriptRun | CheckedRun) -> RunResult:
        """Run one program; see `each`."""
        return self.each([run], lambda item, go: go(item))[0]

    def each(self, items: Sequence[Item], work: Callable[[Item, RunOne], Found]) -> list[Found]:
        """`work(item, run)` for each item, as many side by side as there are zygotes; results in order.

        `work` may call `run` any number of times. Raises `SandboxStartError` where no zygote can be started,
        and `ConfigurationError` where this machine cannot confine programs at all.
        """

        def with_zygote(item: Item) -> Found:
            which = self._free.get()
            try:
                return work(item, lambda run: self._run(which, run))
            finally:
                self._free.put(which)

        return list(self._threads.map(with_zygote, items))

    def _run(self, which: int, run: ScriptRun | CheckedRun) -> RunResult:
        lost = refused = 0
        while True:
            zygote = self._ready(which)
            try:
                return zygote.run(run)
            except ZygoteLostError as error:
                self._restart(which)
                lost += 1
                if lost == LOSSES:
                    return RunResult(Ending.KILLED, reason=str(error))
            except NoProcessError as error:  # the program is not to blame: it never began
                self._restart(which)
                refused += 1
                if refused == START_ATTEMPTS:
                    raise SandboxStartError(f"the sandbox cannot start programs: {error}") from error

    def _ready(self, which: int) -> ZygoteProcess:
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._zygotes[which].wait_until_ready()
                break
            except RefusedError as refused:
                raise ConfigurationError(
                    f"task.kind: programs of a model can't be run safely on this machine: {refused}. Run the "
                    "workers on Linux 5.3 or newer with seccomp, on x86-64 or 64-bit ARM"
                ) from None
            except ZygoteLostError as lost:
                self._restart(which)
                if attempt == START_ATTEMPTS:
                    raise SandboxStartError(f"the sandbox does not start: {lost}") from lost
        return self._zygotes[which]

    def _start(self) -> ZygoteProcess:
        return ZygoteProcess(self._means, self._clock, self._folder)

    def _restart(self, which: int) -> None:
        self._zygotes[which].close()
        self._zygotes[which] = self._start()
