"""Why a worker can't go on for now though nothing is wrong with it, such as a reward service that is down.

Told from the grading thread, passed on to whoever listens: the presence beat, once there is a connection.
"""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Trouble:
    """The newest message; empty when all is well. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""
        self._listener: Callable[[str], None] | None = None

    @property
    def text(self) -> str:
        """What was told last."""
        return self._text

    def tell(self, text: str) -> None:
        """Take a message, or "" when the trouble is over."""
        with self._lock:
            if text == self._text:
                return
            if text:
                log.warning("waiting: %s", text)
            else:
                log.info("going on: the trouble is over")
            self._text = text
            if self._listener is not None:
                self._listener(text)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Pass on what is told from now on, and what was told last."""
        with self._lock:
            self._listener = listener
            listener(self._text)
