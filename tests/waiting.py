"""Waiting for a condition with a deadline: the one place where tests poll what other processes do."""

import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.02

Found = TypeVar("Found")


def until(
    condition: Callable[[], Found | None],
    what: str,
    seconds: float = DEADLINE_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> Found:
    """Ask until the answer is true and return it; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(poll_seconds)
    return found
