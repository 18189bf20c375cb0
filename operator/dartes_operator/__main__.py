"""`python -m dartes_operator`: turn DartESJob objects into pods until told to stop.

Where watching ends it starts over, as a new program in the same process: all that is known comes from the API
server, and a container that ends several times is let wait for minutes.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from types import FrameType

from dartes.errors import DartesError, ExitCode
from dartes_operator import logs
from dartes_operator.app import run
from dartes_operator.listing import WatchEndedError
from dartes_operator.settings import Settings, read_settings

log = logging.getLogger(__name__)

SHORT_LIVES = "DARTES_SHORT_LIVES"
# Who has watched for so long and then fails is not failing again and again.
WELL_SECONDS = 60.0
# Shorter than the liveness probe's patience, since nobody answers it meanwhile.
LONGEST_PAUSE_SECONDS = 8.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Run the operator; returns the exit code."""
    _end_when_told()
    try:
        settings = read_settings(os.environ)
        logs.set_up(settings.log_level)
        asyncio.run(_live(settings))
    except DartesError as error:
        log.error("%s", error)
        return error.exit_code
    return ExitCode.DONE


async def _live(settings: Settings) -> None:
    began = time.monotonic()
    try:
        await run(settings)
    except WatchEndedError as error:
        before = os.environ.get(SHORT_LIVES, "0")
        pause, short = pause_after(time.monotonic() - began, int(before) if before.isdigit() else 0)
        log.error("starting over in %.1f s: %s", pause, error)
        # Nothing else is to go on meanwhile; the event loop, which stands still, has taken the signals.
        _end_when_told()
        time.sleep(pause)
        # A signal that comes from here on waits for the new program to be ready for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        os.environ[SHORT_LIVES] = str(short)
        os.execv(sys.executable, [sys.executable, "-m", "dartes_operator"])
    # kopf takes seconds to end, in which nothing is done and a successor waits.
    os._exit(ExitCode.DONE)


def _end_when_told() -> None:
    """End at once on a signal, until kopf takes them: the first process of a container is else not ended."""
    for number in _SIGNALS:
        signal.signal(number, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _end(_: int, __: FrameType | None) -> None:
    # Not by an exception: what is left of kopf might never end.
    os._exit(ExitCode.DONE)


def pause_after(seconds: float, short_lives: int) -> tuple[float, int]:
    """The pause after a life of so many seconds, and how many short ones there have been in a row by then."""
    short = 0 if seconds >= WELL_SECONDS else short_lives + 1
    return min(LONGEST_PAUSE_SECONDS, 0.5 * 2.0 ** max(0, short - 1)), short


if __name__ == "__main__":
    sys.exit(main())
