"""A child process that must not outlive its parent: the parent holds the other end of its standard input.

Works on every system, and also when the parent is killed with SIGKILL, where no handler of its own runs.
"""

import os
import threading

from dartes.errors import ExitCode

VARIABLE = "DARTES_LIFELINE"
"""Set by a parent that holds the pipe; without it standard input means nothing."""


def follow_parent() -> None:
    """Leave at once, as drained, when the parent is gone."""
    if os.environ.pop(VARIABLE, None) is None:
        return

    def wait() -> None:
        while os.read(0, 4096):  # not sys.stdin: its lock would outlive the interpreter
            pass
        os._exit(ExitCode.DRAINED)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
