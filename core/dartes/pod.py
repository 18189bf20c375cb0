"""The outermost edge of a process that may run in a pod: exit codes, and what it leaves as last words.

Kubernetes shows what stands in the termination file with the ended container; where there is none
(`DARTES_TERMINATION_LOG` is not set) nothing is written. It never changes how a process ends.
"""

import contextlib
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from dartes import logs
from dartes.errors import DartesError, ExitCode

TERMINATION_VARIABLE: Final = "DARTES_TERMINATION_LOG"

MESSAGE_BYTES: Final = 2048
"""Most that is kept of a message; Kubernetes itself takes 4096 bytes of all containers of a pod."""

_GAP: Final = b" [...] "
_TAIL_BYTES: Final = 600

FAREWELL: Final = "processor seconds used"
"""With how many of them (children's included) every process takes leave in its log."""

log = logging.getLogger(__name__)


def in_pod() -> bool:
    """Whether this process runs in a pod of a job."""
    return "DARTES_POD" in os.environ


def last_words(text: str) -> None:
    """Leave a message in the termination file, if there is one; too long a one loses its middle."""
    path = os.environ.get(TERMINATION_VARIABLE)
    if not path:
        return
    with contextlib.suppress(OSError):
        Path(path).write_bytes(shortened(text))


def last_words_json(values: Mapping[str, str | int | float | None]) -> None:
    """Leave one line of JSON in the termination file, if there is one."""
    last_words(json.dumps(dict(values)))


def shortened(text: str) -> bytes:
    """UTF-8 of at most MESSAGE_BYTES: an error names its place at the front and the remedy at the end."""
    whole = text.strip().encode("utf-8", "replace")
    if len(whole) <= MESSAGE_BYTES:
        return whole
    head = whole[: MESSAGE_BYTES - len(_GAP) - _TAIL_BYTES].decode("utf-8", "ignore").encode()
    tail = whole[-_TAIL_BYTES:].decode("utf-8", "ignore").encode()
    return head + _GAP + tail


def outermost(body: Callable[[], int]) -> int:
    """Run a process's body and return its exit code; errors are logged and left as last words.

    A bug is raised on, so that the interpreter prints its traceback and ends with 1; where logs are JSON it
    is logged instead.
    """
    try:
        try:
            return body()
        finally:
            log.info("%s: %.2f", FAREWELL, sum(os.times()[:4]))  # before an error, which is to stand last
    except DartesError as error:
        log.error("%s", error)
        last_words(str(error))
        return error.exit_code
    except Exception as error:
        last_words(f"{type(error).__name__}: {error}")
        if not logs.wants_json():
            raise
        log.critical("%s: %s", type(error).__name__, error, exc_info=error)
        return ExitCode.BUG


class Leaving:
    """What SIGTERM does to this process, carried out by a thread of its own.

    A handler would have to wait for the main thread to come out of whatever it is in (loading a model,
    compiling) and could not take a lock. Until told otherwise the process ends at once, as drained: it has
    nothing to lose before it serves.
    """

    def __init__(self) -> None:
        self._act: Callable[[], None] = _end_at_once
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        # The number of each signal is written here at once, whatever the interpreter is doing.
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # Needs a handler all the same: without one the first process of a container would ignore it.
        signal.signal(signal.SIGTERM, _nothing)
        threading.Thread(target=self._wait, name="leaving", daemon=True).start()

    def instead(self, act: Callable[[], None]) -> None:
        """From now on do this, which may be called several times."""
        self._act = act

    def _wait(self) -> None:
        while numbers := os.read(self._reader, 64):
            if signal.SIGTERM in numbers:
                self._act()


def _end_at_once() -> None:
    log.info("told to stop; nothing is lost")
    os._exit(ExitCode.DRAINED)


def _nothing(*_: object) -> None:
    pass
