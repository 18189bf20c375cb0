"""How every process logs: one line per event on standard error, with time, level and who speaks."""

import logging
import sys


def set_up(role: str, level: int = logging.INFO) -> None:
    """Send log records to standard error, prefixed by the role (`coordinator`, `worker-0`)."""
    logging.basicConfig(
        stream=sys.stderr,
        level=level,
        format=f"%(asctime)s %(levelname)s {role} %(message)s",
        datefmt="%H:%M:%S",
        force=True,
    )
