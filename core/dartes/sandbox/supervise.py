"""Watches the processes of one run: takes their output, keeps the clock, ends them and collects them.

Runs in the zygote. What a program prints is only stored here, never read as anything.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dartes.sandbox.runs import Ending

TICK_SECONDS = 0.05
_LONGER_SECONDS = 0.5
_COMPUTING_SHARE = 0.2
"""Of a processor since its start: a run that has used less waits, or stands among five as busy as itself."""

_READ_BYTES = 65_536
_TAIL_BYTES = 4096


class ParentGoneError(Exception):
    """Nobody waits for the result any more."""


@dataclass(slots=True)
class Capture:
    """Bytes of one pipe: the first `most`, or the last where `tail`."""

    descriptor: int
    most: int
    tail: bool = False
    data: bytearray = field(default_factory=bytearray)
    cut: bool = False

    def take(self) -> bool:
        """Read what is there; False at the end."""
        part = os.read(self.descriptor, _READ_BYTES)
        room = self.most - len(self.data)
        self.cut = self.cut or len(part) > room
        self.data += part if self.tail else part[:room]
        if self.tail:
            del self.data[: -self.most]
        return bool(part)

    @property
    def text(self) -> str:
        """What was kept, as text."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Ended:
    """How the main process of a run ended: exit status or minus the signal; processor seconds of all."""

    ending: Ending
    code: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Watched:
    """What to watch.

    Attributes
    ----------
    main
        The process whose end ends the run.
    others
        Further processes of the run.
    captures
        Pipes to read.
    cpu_seconds
        Processor time after which the kernel ends each process.
    wall_seconds
        Time after which a run ends that computes too little (see `_Clock`).
    longest_seconds
        Time after which any run ends.
    parent
        A descriptor that hangs up when the parent is gone.
    too_much
        Whether the run's folder holds too much; asked now and then. None where the kernel sees to it.
    """

    main: int
    others: tuple[int, ...]
    captures: tuple[Capture, ...]
    cpu_seconds: float
    wall_seconds: float
    longest_seconds: float
    parent: int
    too_much: Callable[[], bool] | None = None


def watch(watched: Watched, sweep: Callable[[], None]) -> Ended:
    """Wait for the end of a run, or end it; afterwards none of its processes is left.

    `sweep` kills whatever a run may have left behind. Raises `ParentGoneError` with the same care.
    """
    ending, error = Ending.DONE, None
    try:
        ending = _wait(watched)
    except ParentGoneError as gone:
        error = gone
    ends = _end_all(watched, sweep)
    for capture in watched.captures:
        while capture.take():
            pass
    if error is not None:
        raise error
    code = ends[watched.main].code
    if ending is Ending.DONE:
        used_up = any(
            ends[process].used_up(watched.cpu_seconds) for process in (watched.main, *watched.others)
        )
        ending = Ending.CPU if used_up else Ending.KILLED if code < 0 else Ending.DONE
    return Ended(ending, code, sum(end.cpu_seconds for end in ends.values()))


def _wait(watched: Watched) -> Ending:
    captures = {capture.descriptor: capture for capture in watched.captures}
    ended = os.pidfd_open(watched.main)
    poll = select.poll()
    poll.register(watched.parent, 0)
    poll.register(ended, select.POLLIN)
    for descriptor in captures:
        poll.register(descriptor, select.POLLIN)
    now = time.monotonic()
    clock = _Clock(now, now + watched.wall_seconds, now + watched.longest_seconds)
    look_again = now + TICK_SECONDS
    try:
        while True:
            now = time.monotonic()
            if clock.is_up(now, lambda: _computed((watched.main, *watched.others))):
                return Ending.WALL
            until = clock.deadline
            if watched.too_much is not None:
                if now >= look_again:
                    if watched.too_much():
                        return Ending.DISK
                    look_again = time.monotonic() + TICK_SECONDS
                until = min(until, look_again)
            for descriptor, _ in poll.poll(max(1.0, (until - now) * 1000)):
                if descriptor == watched.parent:
                    raise ParentGoneError
                if descriptor == ended:
                    return Ending.DONE
                if not captures[descriptor].take():
                    poll.unregister(descriptor)
    finally:
        os.close(ended)


class _Clock:
    """When a run's time is up: at its deadline, put off while it computes, at the latest at the last one.

    A run that computes has a limit of its own, processor time, which does not depend on what else the machine
    has to do. The wall clock is for those that wait, also for those that compute a little in between: what
    counts is the share of a processor that a run has used since its start.
    """

    def __init__(self, start: float, deadline: float, last: float) -> None:
        self.deadline = deadline
        self._start = start
        self._last = last

    def is_up(self, now: float, computed: Callable[[], float]) -> bool:
        """Whether time is up; puts the deadline off where it has come and the run still computes."""
        if now < self.deadline:
            return False
        if now >= self._last or computed() < _COMPUTING_SHARE * (now - self._start):
            return True
        self.deadline = min(self._last, now + _LONGER_SECONDS)
        return False


def _computed(processes: tuple[int, ...]) -> float:
    """Processor seconds of processes not yet collected, by their own clocks (see clock_getcpuclockid)."""
    seconds = 0.0
    for process in processes:
        with contextlib.suppress(OSError):  # it has just ended
            seconds += time.clock_gettime(~process << 3 | 2)
    return seconds


@dataclass(frozen=True, slots=True)
class _End:
    """How one process ended: exit status or minus the signal, and its processor time."""

    code: int
    cpu_seconds: float

    def used_up(self, seconds: float) -> bool:
        """Whether its processor time ended it; a signal that can't be ignored comes a second later."""
        late = self.code == -signal.SIGKILL and self.cpu_seconds > seconds + 0.5
        return self.code == -signal.SIGXCPU or late


def _end_all(watched: Watched, sweep: Callable[[], None]) -> dict[int, _End]:
    for process in (watched.main, *watched.others):
        os.kill(process, signal.SIGKILL)  # not yet collected, so the number is still its own
    ends: dict[int, _End] = {}
    while True:
        sweep()
        try:
            process, status, usage = os.wait3(0)
        except ChildProcessError:
            return ends
        ends[process] = _End(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)


def tail_capture(descriptor: int) -> Capture:
    """Keeps the last few KiB."""
    return Capture(descriptor, _TAIL_BYTES, tail=True)
